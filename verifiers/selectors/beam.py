"""Beam search over the steps of a compound instruction: several images are kept after each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...reward import EditSample
from ..selection.candidate import Selection
from ..selection.selection_run import SelectionRun
from .sequential import check_count, compound_step, run_stepwise


@dataclass(frozen=True)
class BeamSearch:
    """`n` candidates per step in all, of which the best `width` with different images are kept.

    The candidates of a step continue the images of the step before round-robin, the best one first, so that a beam of
    any width costs as much as `SequentialEditing(n)`. `parent` is the candidate that a candidate continues; `steps` is
    the path to the winner. Everything else is as in `SequentialEditing`, which equals a `width` of 1.
    """

    width: int = 2
    n: int = 4

    def __post_init__(self) -> None:
        check_count(type(self).__name__, self.n)
        if not 1 <= self.width <= self.n:
            raise ValueError(f"a beam's width is from 1 to its {self.n} candidates per step, got {self.width}")

    def __call__(self, run: SelectionRun, samples: Sequence[EditSample]) -> list[Selection]:
        return run_stepwise(run, samples, compound_step, n=self.n, width=self.width)
