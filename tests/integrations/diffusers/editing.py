"""Images to edit, and editors watched while they edit them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from editcritic.integrations.diffusers import make_editor
from editcritic.reward import Image
from editcritic.verifiers.selection.editor import DenoisingState, NoiseSpec, StepwiseEditor

STEPS = 4
WISHES = ("Make it winter", "Remove the red cup", "Turn the small lamp beside the window into a candle")
SEEDS = (3, 4, 5)
KONTEXT = {"height": 32, "width": 32, "max_area": 32**2, "_auto_resize": False, "max_sequence_length": 24}
"""Arguments by which Kontext's pipeline makes small pictures."""


def picture(seed: int, size: int = 32) -> Image:
    """Noise, which differs everywhere."""
    return Image.of(np.random.default_rng(seed).integers(0, 256, (size, size, 3), dtype=np.uint8))


def sources(count: int = 3) -> list[tuple[Image, ...]]:
    return [(picture(seed),) for seed in range(count)]


def generators(seeds: Sequence[int] = SEEDS) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(seed) for seed in seeds]


def stepwise(pipeline: Any, steps: int = STEPS, **settings: Any) -> StepwiseEditor:
    editor = make_editor(pipeline, num_inference_steps=steps, **settings)
    assert isinstance(editor, StepwiseEditor)
    return editor


def in_pieces(
    editor: StepwiseEditor,
    noises: Sequence[NoiseSpec],
    images: Sequence[tuple[Image, ...]],
    wishes: Sequence[str],
    stops: Sequence[int] = (1, 3, STEPS),
) -> tuple[list[DenoisingState], list[Image]]:
    """The drafts at the last stop, and what they look like there."""
    states, pictures = list(editor.begin(images, wishes, noises)), []
    for stop in stops:
        advanced = editor.advance(states, stop)
        states, pictures = [state for state, _ in advanced], [image for _, image in advanced]
    return states, pictures


def apart(some: Sequence[Image], others: Sequence[Image]) -> int:
    """The largest difference of two lists of images, of 255."""
    pairs = zip(some, others, strict=True)
    return max(int(np.abs(a.pixels.astype(int) - b.pixels.astype(int)).max()) for a, b in pairs)


def rows_seen(model: torch.nn.Module, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Filled with the number of rows of each pass through a model, until the test ends."""
    row_counts: list[int] = []
    forward = type(model).forward

    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        row_counts.append(len(args[0] if args else kwargs["hidden_states"]))
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(type(model), "forward", watched)
    return row_counts


def steps_seen(scheduler: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[torch.Tensor, Any, torch.Tensor]]:
    """Filled with the model's output, the timestep and the state before each step of a solver, until the test ends."""
    steps: list[tuple[torch.Tensor, Any, torch.Tensor]] = []
    step = type(scheduler).step

    def watched(self: Any, output: torch.Tensor, timestep: Any, sample: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        steps.append((output.clone(), timestep, sample.clone()))
        return step(self, output, timestep, sample, *args, **kwargs)

    monkeypatch.setattr(type(scheduler), "step", watched)
    return steps
