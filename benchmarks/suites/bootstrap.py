"""Numbers of tables, with intervals: functions of how often each case counts.

A figure is computed once as it is, every case counting once, and a thousand times with cases drawn with replacement
(the percentile bootstrap: Efron 1979). Whatever is made of figures, a root of a product or a difference of two editors
on the same cases, has its interval of the same draws, so that comparisons are paired.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

DRAWS = 1000


@dataclass(frozen=True)
class Figure:
    """at: weights of cases (draws, cases) -> a number a draw (draws,), NaN where there is none. cases: how many.

    count: what the number is a mean over (the smallest such count, of a combination). without: what had no value, and
    is not in it.
    """

    at: Callable[[Numbers], Numbers]
    cases: int
    count: int
    without: int = 0

    @staticmethod
    def ratio(sums: Numbers, counts: Numbers, *, without: int = 0) -> Figure:
        """Sum over sum, each given by case, (cases,): a mean over whatever is counted."""

        def at(weights: Numbers) -> Numbers:
            over = weights @ counts
            with np.errstate(invalid="ignore", divide="ignore"):
                found: Numbers = np.where(over > 0, (weights @ sums) / over, np.nan)
            return found

        return Figure(at, len(counts), int(counts.sum()), without)

    @staticmethod
    def correlation(xs: Numbers, ys: Numbers, of: NDArray[np.int64], cases: int, *, without: int = 0) -> Figure:
        """Pearson's r of pairs (pairs,), each belonging to the case with that number; none where one side is even."""
        x, y = (side - side.mean() if len(side) else side.astype(np.float64) for side in (xs, ys))
        products = (np.ones(len(x)), x, y, x * x, y * y, x * y)
        sums = np.stack([np.bincount(of, values, minlength=cases) for values in products], axis=1)

        def at(weights: Numbers) -> Numbers:
            with np.errstate(invalid="ignore", divide="ignore"):
                count, *means = (weights @ sums).T
                mx, my, xx, yy, xy = (part / count for part in means)
                spread = (xx - mx * mx) * (yy - my * my)
                found: Numbers = np.where(spread > 1e-18, (xy - mx * my) / np.sqrt(spread), np.nan)
            return found

        return Figure(at, cases, len(x), without)

    @staticmethod
    def of(function: Callable[..., Numbers], *parts: Figure) -> Figure:
        """A function of other figures over the same cases, as in `Figure.of(lambda a, b: np.sqrt(a * b), if_, cc)`."""
        return Figure(
            lambda weights: function(*(part.at(weights) for part in parts)),
            parts[0].cases,
            min(part.count for part in parts),
            sum(part.without for part in parts),
        )

    @property
    def value(self) -> float | None:
        """With every case counting once; None where there is no number."""
        found = float(self.at(np.ones((1, self.cases)))[0])
        return None if np.isnan(found) else found

    def interval(self, weights: Numbers, *, share: float = 0.95) -> tuple[float, float] | None:
        """The middle share of what draws give; None where fewer than half of them give a number."""
        found = self.at(weights)
        found = found[~np.isnan(found)]
        if len(found) * 2 < len(weights) or not len(found):
            return None
        low, high = np.quantile(found, [(1 - share) / 2, (1 + share) / 2])
        return float(low), float(high)


def draws(cases: int, count: int = DRAWS, *, seed: int = 0) -> Numbers:
    """How often each case counts in each draw, (count, cases); the same for the same seed."""
    chance = np.random.default_rng(seed)
    return chance.multinomial(cases, np.full(cases, 1 / cases), size=count).astype(np.float64)
