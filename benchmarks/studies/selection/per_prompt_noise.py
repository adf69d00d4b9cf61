"""An editor that draws other noise for every prompt, so that prompts are independent trials of a selector.

A run gives candidate k the same seed whatever the sample. With an editor of which some noise is good and some bad, all
prompts would then be lucky or unlucky together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from ...reward import EditSample, Image
from ...verifiers import Draft, Noise, StepwiseEditor

History = Sequence[tuple[EditSample, ...]] | None


class OwnNoise:
    """The editor, each seed moved by a number that sources and instruction decide. Drafts say the unmoved ones."""

    def __init__(self, editor: StepwiseEditor) -> None:
        self._editor = editor
        self.id = f"{editor.id}, own noise"
        self.evaluations = editor.evaluations
        self.batch = editor.batch

    def edit(
        self,
        images: Sequence[tuple[Image, ...]],
        instructions: Sequence[str],
        seeds: Sequence[int],
        *,
        history: History = None,
    ) -> Sequence[Image]:
        """See `Editor`."""
        asked = zip(images, instructions, seeds, strict=True)
        moved = [seed + _by(sources, words) for sources, words, seed in asked]
        return self._editor.edit(images, instructions, moved, history=history)

    def begin(
        self,
        images: Sequence[tuple[Image, ...]],
        instructions: Sequence[str],
        noises: Sequence[Noise],
        *,
        history: History = None,
    ) -> Sequence[Draft]:
        """See `StepwiseEditor`."""
        asked = zip(images, instructions, noises, strict=True)
        moved = [_moved(noise, _by(sources, words)) for sources, words, noise in asked]
        begun = self._editor.begin(images, instructions, moved, history=history)
        return [replace(draft, noise=noise) for draft, noise in zip(begun, noises, strict=True)]

    def advance(self, drafts: Sequence[Draft], until: int) -> Sequence[tuple[Draft, Image]]:
        """See `StepwiseEditor`."""
        made = self._editor.advance([_own(draft) for draft in drafts], until)
        return [
            (replace(moved, noise=draft.noise), picture) for draft, (moved, picture) in zip(drafts, made, strict=True)
        ]

    def back(self, drafts: Sequence[Draft], to: int, seeds: Sequence[int]) -> Sequence[Draft]:
        """See `StepwiseEditor`."""
        moved = [seed + _by(draft.images, draft.instruction) for draft, seed in zip(drafts, seeds, strict=True)]
        gone = self._editor.back([_own(draft) for draft in drafts], to, moved)
        return [
            replace(one, noise=draft.noise.again(seed, seen=draft.step, back=to))
            for one, draft, seed in zip(gone, drafts, seeds, strict=True)
        ]


def _own(draft: Draft) -> Draft:
    return replace(draft, noise=_moved(draft.noise, _by(draft.images, draft.instruction)))


def _by(images: tuple[Image, ...], instruction: str) -> int:
    said = "\n".join((instruction, *(image.digest for image in images)))
    return int.from_bytes(hashlib.sha256(said.encode()).digest()[:6], "big")


def _moved(noise: Noise, by: int) -> Noise:
    parent = None if noise.parent is None else _moved(noise.parent, by)
    return replace(noise, seed=noise.seed + by, parent=parent)
