"""Editors as selection sees them: something that makes a picture of pictures, words and a seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..reward import EditSample, Image


class EditorFailed(RuntimeError):
    """An editor that raised for every picture it was asked for: there is no point in going on."""


@runtime_checkable
class Editor(Protocol):
    """Makes edited pictures, many at a time.

    `id` names the model and every setting that its pictures depend on, for the journal. `evaluations` is what one
    picture takes, in steps of the denoiser (0 where that means nothing). `batch` is how many pictures a call may ask
    for.
    """

    @property
    def id(self) -> str: ...

    @property
    def evaluations(self) -> int: ...

    @property
    def batch(self) -> int: ...

    def edit(
        self,
        images: Sequence[tuple[Image, ...]],
        instructions: Sequence[str],
        seeds: Sequence[int],
        *,
        history: Sequence[tuple[EditSample, ...]] | None = None,
    ) -> Sequence[Image]:
        """A picture an item: `images` holds the sources of each, `history` its earlier turns, oldest first.

        A picture depends on its own item only, and an item makes the same picture every time. Raises whatever it
        likes; the candidates concerned have failed then, with that reason.
        """
        ...


@dataclass(frozen=True, slots=True)
class Noise:
    """What a candidate is made from, as a recipe.

    Without a `parent`: the normal noise that the editor draws from `seed`. With a `radius` in (0, 1]: the parent's
    noise times sqrt(1 - radius^2) and fresh noise times radius, which is normal noise again. With `seen` and `back`:
    what the parent looks like at step `seen`, with fresh noise on it as there is at step `back`.
    """

    seed: int
    parent: Noise | None = None
    radius: float = 0.0
    seen: int = 0
    back: int = 0

    def __post_init__(self) -> None:
        if self.parent is not None and not (0 < self.radius <= 1 or 0 <= self.back <= self.seen > 0):
            raise ValueError(
                f"noise is made of other noise within a radius in (0, 1] or by going back from a step, got {self!r}"
            )

    def near(self, seed: int, radius: float) -> Noise:
        """A neighbour: as far away as `radius` says, in the direction that `seed` draws."""
        return Noise(seed, self, radius=radius)

    def again(self, seed: int, *, seen: int, back: int) -> Noise:
        """Another way on from what was to be seen at step `seen`, from step `back`."""
        return Noise(seed, self, seen=seen, back=back)

    @property
    def start(self) -> int:
        """The step it starts at; what it cost to get there is the parent's business."""
        return self.back

    def describe(self) -> list[Any]:
        """As JSON; equal for equal recipes."""
        if self.parent is None:
            return [self.seed]
        return [self.seed, self.parent.describe(), self.radius, self.seen, self.back]


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """A picture half made: what is asked for, and where the denoiser stands. `step` evaluations are done.

    arrays: the editor's own business (latents, the state of a random generator), as numpy arrays, so that a journal
    can keep them.
    """

    images: tuple[Image, ...]
    instruction: str
    noise: Noise
    step: int
    arrays: Mapping[str, NDArray[Any]]
    history: tuple[EditSample, ...] = ()


@runtime_checkable
class StepwiseEditor(Editor, Protocol):
    """An editor that can stop half-way, show what it is about to make, and go on later: what saves work.

    Going from 0 to `evaluations` in whatever stages makes the picture that `edit` makes of the noise's seed.
    """

    def begin(
        self,
        images: Sequence[tuple[Image, ...]],
        instructions: Sequence[str],
        noises: Sequence[Noise],
        *,
        history: Sequence[tuple[EditSample, ...]] | None = None,
    ) -> Sequence[Draft]:
        """Drafts at step 0, without an evaluation. `noises` are fresh ones or neighbours."""
        ...

    def advance(self, drafts: Sequence[Draft], until: int) -> Sequence[tuple[Draft, Image]]:
        """The drafts at step `until`, and what the picture is expected to become; the picture itself at the last step.

        Takes `until` less the draft's step in evaluations. All drafts stand at one step before `until`.
        """
        ...

    def back(self, drafts: Sequence[Draft], to: int, seeds: Sequence[int]) -> Sequence[Draft]:
        """Fresh noise on what the drafts were expected to become, as much as there is at step `to`."""
        ...


FLOAT = np.float32
"""Of latents in `Draft.arrays`: wide enough for whatever narrower type a pipeline computes in."""
