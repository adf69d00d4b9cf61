"""Pictures to edit, and editors watched while they edit them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from editcritic.integrations.diffusers import editor_of
from editcritic.reward import Image
from editcritic.verifiers.editor import Draft, Noise, StepwiseEditor

STEPS = 4
WISHES = ("Make it winter", "Remove the red cup", "Turn the small lamp beside the window into a candle")
SEEDS = (3, 4, 5)


def picture(seed: int, size: int = 32) -> Image:
    """Noise, which differs everywhere."""
    return Image.of(np.random.default_rng(seed).integers(0, 256, (size, size, 3), dtype=np.uint8))


def sources(count: int = 3) -> list[tuple[Image, ...]]:
    return [(picture(seed),) for seed in range(count)]


def generators(seeds: Sequence[int] = SEEDS) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(seed) for seed in seeds]


def stepwise(pipeline: Any, steps: int = STEPS, **settings: Any) -> StepwiseEditor:
    editor = editor_of(pipeline, num_inference_steps=steps, **settings)
    assert isinstance(editor, StepwiseEditor)
    return editor


def in_pieces(
    editor: StepwiseEditor,
    noises: Sequence[Noise],
    images: Sequence[tuple[Image, ...]],
    wishes: Sequence[str],
    stops: Sequence[int] = (1, 3, STEPS),
) -> tuple[list[Draft], list[Image]]:
    """The drafts at the last stop, and what they look like there."""
    drafts, pictures = list(editor.begin(images, wishes, noises)), []
    for stop in stops:
        moved = editor.advance(drafts, stop)
        drafts, pictures = [draft for draft, _ in moved], [made for _, made in moved]
    return drafts, pictures


def apart(some: Sequence[Image], others: Sequence[Image]) -> int:
    """The largest difference of two lists of pictures, of 255."""
    pairs = zip(some, others, strict=True)
    return max(int(np.abs(a.pixels.astype(int) - b.pixels.astype(int)).max()) for a, b in pairs)


def rows_seen(model: torch.nn.Module, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Filled with the number of rows of each pass through a model, until the test ends."""
    seen: list[int] = []
    forward = type(model).forward

    def watched(self: Any, *given: Any, **named: Any) -> Any:
        seen.append(len(given[0] if given else named["hidden_states"]))
        return forward(self, *given, **named)

    monkeypatch.setattr(type(model), "forward", watched)
    return seen


def steps_seen(scheduler: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[torch.Tensor, Any, torch.Tensor]]:
    """Filled with the model's output, the timestep and the state before each step of a solver, until the test ends."""
    seen: list[tuple[torch.Tensor, Any, torch.Tensor]] = []
    step = type(scheduler).step

    def watched(self: Any, output: torch.Tensor, timestep: Any, sample: torch.Tensor, *given: Any, **named: Any) -> Any:
        seen.append((output.clone(), timestep, sample.clone()))
        return step(self, output, timestep, sample, *given, **named)

    monkeypatch.setattr(type(scheduler), "step", watched)
    return seen
