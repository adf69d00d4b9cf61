"""Krippendorff's alpha: how far any number of annotators agree, of whom any may have left things out.

K. Krippendorff, Computing Krippendorff's Alpha-Reliability (2011). 1 where all agree, 0 for what chance would give,
below it where they disagree systematically. Things that fewer than two have judged say nothing, and are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..suites.figures import Figure, Numbers

Level = Literal["nominal", "ordinal", "interval"]
LEVELS: tuple[Level, ...] = get_args(Level)

Unit = tuple[int, Sequence[float]]
"""A thing that was judged: the number of its case, and the values it was given."""


def alpha(units: Sequence[Unit], level: Level, cases: int) -> Figure:
    """Alpha of these units. count: how many values it rests on; without: values alone in their unit.

    Two values differ, squared, by: 1 unless they are equal (nominal); their mean ranks (ordinal); themselves
    (interval). None without two values that differ. Raises ValueError for another level.
    """
    if level not in LEVELS:
        raise ValueError(f"unknown level {level!r}: alpha is {', '.join(LEVELS)}")
    told = [(case, list(values)) for case, values in units if len(values) > 1]
    alone = sum(len(values) for _, values in units) - sum(len(values) for _, values in told)
    table = _Table.of(told)
    at = table.nominal if level == "nominal" else table.ordinal if level == "ordinal" else table.interval
    return Figure(_each(at), cases, sum(len(values) for _, values in told), alone)


def _each(at: Callable[[Numbers], float]) -> Callable[[Numbers], Numbers]:
    return lambda weights: np.array([at(row) for row in weights], np.float64)


@dataclass(frozen=True)
class _Table:
    """counts: how often each unit was given each value, (units, values). case: of each unit. size: of each unit."""

    values: Numbers
    counts: Numbers
    case: NDArray[np.int64]
    size: Numbers

    @staticmethod
    def of(units: Sequence[tuple[int, list[float]]]) -> _Table:
        values = np.unique(np.array([value for _, given in units for value in given], np.float64))
        counts = np.zeros((len(units), len(values)))
        for row, (_, given) in enumerate(units):
            np.add.at(counts[row], np.searchsorted(values, given), 1)
        return _Table(values, counts, np.array([case for case, _ in units], np.int64), counts.sum(axis=1))

    def nominal(self, weights: Numbers) -> float:
        counted = weights[self.case]
        total = counted @ self.counts
        n = total.sum()
        apart = self.size**2 - (self.counts**2).sum(axis=1)
        return _alpha(float(counted @ (apart / (self.size - 1))), n**2 - (total**2).sum(), n)

    def ordinal(self, weights: Numbers) -> float:
        total = weights[self.case] @ self.counts
        return self._squared(weights, np.cumsum(total) - total / 2)

    def interval(self, weights: Numbers) -> float:
        return self._squared(weights, self.values - self.values.mean() if len(self.values) else self.values)

    def _squared(self, weights: Numbers, at: Numbers) -> float:
        """Of differences squared: over all pairs of m values they add up to 2 (m sum of squares - square of sum)."""
        counted = weights[self.case]
        total = counted @ self.counts
        n = total.sum()
        apart = 2 * (self.size * (self.counts @ at**2) - (self.counts @ at) ** 2)
        return _alpha(float(counted @ (apart / (self.size - 1))), 2 * (n * (total @ at**2) - (total @ at) ** 2), n)


def _alpha(observed: float, expected: float, n: float) -> float:
    """1 - (observed / n) / (expected / (n (n - 1)))."""
    return float(1 - observed * (n - 1) / expected) if expected > 1e-12 * n * n else float("nan")
