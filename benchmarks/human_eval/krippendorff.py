"""Krippendorff's alpha: agreement of any number of annotators, with missing ratings.

K. Krippendorff, Computing Krippendorff's Alpha-Reliability (2011). 1 is perfect agreement, 0 is chance, below 0 is
systematic disagreement. Units with fewer than two ratings are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..suites.bootstrap import Numbers, Statistic

Level = Literal["nominal", "ordinal", "interval"]
LEVELS: tuple[Level, ...] = get_args(Level)

Unit = tuple[int, Sequence[float]]
"""A rated unit: the index of its case, and its ratings."""


def alpha(units: Sequence[Unit], level: Level, cases: int) -> Statistic:
    """Alpha of these units. count: ratings used; num_missing: ratings that are alone in their unit.

    The squared difference of two values is 1 unless they are equal (nominal), that of their mean ranks (ordinal), or
    that of the values (interval). None if all values are equal. Raises ValueError for another level.
    """
    if level not in LEVELS:
        raise ValueError(f"unknown level {level!r}: alpha is {', '.join(LEVELS)}")
    judged = [(case, list(values)) for case, values in units if len(values) > 1]
    num_single = sum(len(values) for _, values in units) - sum(len(values) for _, values in judged)
    table = _Table.of(judged)
    value_at = table.nominal if level == "nominal" else table.ordinal if level == "ordinal" else table.interval
    return Statistic(_value_counts(value_at), cases, sum(len(values) for _, values in judged), num_single)


def _value_counts(value_at: Callable[[Numbers], float]) -> Callable[[Numbers], Numbers]:
    return lambda weights: np.array([value_at(row) for row in weights], np.float64)


@dataclass(frozen=True)
class _Table:
    """counts: ratings per unit and value, (units, values). case: case index of each unit. size: ratings per unit."""

    values: Numbers
    counts: Numbers
    case: NDArray[np.int64]
    size: Numbers

    @staticmethod
    def of(units: Sequence[tuple[int, list[float]]]) -> _Table:
        values = np.unique(np.array([value for _, ratings in units for value in ratings], np.float64))
        counts = np.zeros((len(units), len(values)))
        for row, (_, ratings) in enumerate(units):
            np.add.at(counts[row], np.searchsorted(values, ratings), 1)
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

    def _squared(self, weights: Numbers, positions: Numbers) -> float:
        """Alpha of squared differences: over all pairs of m values they sum to 2 (m sum of squares - square of sum)."""
        counted = weights[self.case]
        total = counted @ self.counts
        n = total.sum()
        apart = 2 * (self.size * (self.counts @ positions**2) - (self.counts @ positions) ** 2)
        return _alpha(
            float(counted @ (apart / (self.size - 1))), 2 * (n * (total @ positions**2) - (total @ positions) ** 2), n
        )


def _alpha(observed: float, expected: float, n: float) -> float:
    """1 - (observed / n) / (expected / (n (n - 1)))."""
    return float(1 - observed * (n - 1) / expected) if expected > 1e-12 * n * n else float("nan")
