"""Best of N: as many candidates as allowed, and the one with the highest score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..reward import EditSample
from .candidate import Selection
from .run import Run


@dataclass(frozen=True)
class BestOf:
    """`n` candidates a sample, from the seeds that follow the run's. More of them never lower the chosen value."""

    n: int = 16

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"best-of-n takes one candidate or more, got {self.n}")

    def __call__(self, run: Run, samples: Sequence[EditSample]) -> list[Selection]:
        made = run.rounds([[run.want(sample, number) for number in range(self.n)] for sample in samples])
        return [run.selection(sample, found, self.n) for sample, found in zip(samples, made, strict=True)]
