"""An editor with separate noise for every prompt, so that prompts are independent trials of a selector.

A run gives candidate k the same seed for every sample. If some noise is good and some bad for an editor, all prompts
would otherwise be lucky or unlucky together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from editcritic.reward import EditSample, Image
from editcritic.verifiers.selection import DenoisingState, NoiseSpec, StepwiseEditor

History = Sequence[tuple[EditSample, ...]] | None


class PerPromptNoise:
    """An editor whose seeds are shifted by a hash of sources and instruction. Its states hold the original seeds."""

    def __init__(self, editor: StepwiseEditor) -> None:
        self._editor = editor
        self.id = f"{editor.id}, own noise"
        self.nfe = editor.nfe
        self.batch_size = editor.batch_size

    def edit(
        self,
        images: Sequence[tuple[Image, ...]],
        instructions: Sequence[str],
        seeds: Sequence[int],
        *,
        history: History = None,
    ) -> Sequence[Image]:
        """See `Editor`."""
        requests = zip(images, instructions, seeds, strict=True)
        shifted_seeds = [seed + _seed_offset(sources, instruction) for sources, instruction, seed in requests]
        return self._editor.edit(images, instructions, shifted_seeds, history=history)

    def begin(
        self,
        images: Sequence[tuple[Image, ...]],
        instructions: Sequence[str],
        noise_specs: Sequence[NoiseSpec],
        *,
        history: History = None,
    ) -> Sequence[DenoisingState]:
        """See `StepwiseEditor`."""
        requests = zip(images, instructions, noise_specs, strict=True)
        shifted_specs = [
            _shift_seed(noise, _seed_offset(sources, instruction)) for sources, instruction, noise in requests
        ]
        states = self._editor.begin(images, instructions, shifted_specs, history=history)
        return [replace(state, noise=noise) for state, noise in zip(states, noise_specs, strict=True)]

    def advance(self, drafts: Sequence[DenoisingState], until_step: int) -> Sequence[tuple[DenoisingState, Image]]:
        """See `StepwiseEditor`."""
        advanced = self._editor.advance([_with_prompt_noise(state) for state in drafts], until_step)
        return [
            (replace(new_state, noise=state.noise), picture)
            for state, (new_state, picture) in zip(drafts, advanced, strict=True)
        ]

    def renoise(self, drafts: Sequence[DenoisingState], to: int, seeds: Sequence[int]) -> Sequence[DenoisingState]:
        """See `StepwiseEditor`."""
        shifted_seeds = [
            seed + _seed_offset(state.images, state.instruction) for state, seed in zip(drafts, seeds, strict=True)
        ]
        renoised = self._editor.renoise([_with_prompt_noise(state) for state in drafts], to, shifted_seeds)
        return [
            replace(new_state, noise=state.noise.renoised(seed, preview_step=state.step, restart_step=to))
            for new_state, state, seed in zip(renoised, drafts, seeds, strict=True)
        ]


def _with_prompt_noise(draft: DenoisingState) -> DenoisingState:
    return replace(draft, noise=_shift_seed(draft.noise, _seed_offset(draft.images, draft.instruction)))


def _seed_offset(images: tuple[Image, ...], instruction: str) -> int:
    key = "\n".join((instruction, *(image.digest for image in images)))
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:6], "big")


def _shift_seed(noise: NoiseSpec, offset: int) -> NoiseSpec:
    parent = None if noise.parent is None else _shift_seed(noise.parent, offset)
    return replace(noise, seed=noise.seed + offset, parent=parent)
