"""Beam search over the steps of a compound instruction: several pictures go on after each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..reward import EditSample
from .candidate import Selection
from .run import Run
from .sequential import check_count, compound_step, walk


@dataclass(frozen=True)
class Beam:
    """`n` candidates a step in all, of which the best `width` with different pictures go on.

    The candidates of a step go on from the pictures of the step before in turn, the best one first, so that a beam of
    any width costs what `Sequential(n)` does. Each has the candidate it goes on from as its `parent`; `steps` is the
    path that led to the winner. Steps, what they are judged by, and how a selection ends: as in `Sequential`, which a
    `width` of 1 is.
    """

    width: int = 2
    n: int = 4

    def __post_init__(self) -> None:
        check_count(type(self).__name__, self.n)
        if not 1 <= self.width <= self.n:
            raise ValueError(f"a beam's width is from 1 to its {self.n} candidates a step, got {self.width}")

    def __call__(self, run: Run, samples: Sequence[EditSample]) -> list[Selection]:
        return walk(run, samples, compound_step, n=self.n, width=self.width)
