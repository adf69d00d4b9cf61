"""Best-of-N sampling: the candidate with the highest score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...reward import EditSample
from ..selection.candidate import Selection
from ..selection.selection_run import SelectionRun


@dataclass(frozen=True)
class BestOfN:
    """`n` candidates per sample, from consecutive seeds. A larger n never lowers the chosen value."""

    n: int = 16

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"best-of-n needs at least one candidate, got {self.n}")

    def __call__(self, run: SelectionRun, samples: Sequence[EditSample]) -> list[Selection]:
        rows = run.generate_interleaved(
            [[run.request(sample, number) for number in range(self.n)] for sample in samples]
        )
        return [
            run.make_selection(sample, candidates, self.n) for sample, candidates in zip(samples, rows, strict=True)
        ]
