"""Statistics of tables with bootstrap intervals: functions of the weight of each case.

A statistic is evaluated once with weight 1 for every case, and on a thousand bootstrap samples of the cases (the
percentile bootstrap: Efron 1979). Derived statistics, such as a product or the difference of two editors, use the same
samples, so that comparisons are paired.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...reward.bootstrap_intervals import percentile_interval
from ..common.defaults import BOOTSTRAP_SAMPLES

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Statistic:
    """evaluate: weights of cases (samples, cases) -> a number per sample (samples,), NaN if undefined. cases: how many.

    count: number of values in the mean (of a combination, the smallest count). num_missing: values that are missing,
    and not in the mean. lowest, highest: the same statistic with missing values at the ends of their range; None where
    that makes no difference. support: number of cases that it rests on, all by default. monotone: whether it grows or
    falls with every value; otherwise the ends of their range give no bounds.
    """

    evaluate: Callable[[Numbers], Numbers]
    cases: int
    count: int
    num_missing: int = 0
    lowest: Statistic | None = None
    highest: Statistic | None = None
    support: int | None = None
    monotone: bool = True

    @staticmethod
    def ratio(sums: Numbers, counts: Numbers, *, num_missing: int = 0) -> Statistic:
        """Ratio of the sums of two arrays by case, (cases,): a mean."""

        def evaluate(weights: Numbers) -> Numbers:
            totals = weights @ counts
            with np.errstate(invalid="ignore", divide="ignore"):
                ratios: Numbers = np.where(totals > 0, (weights @ sums) / totals, np.nan)
            return ratios

        support = int(np.count_nonzero(counts))
        return Statistic(evaluate, len(counts), int(counts.sum()), num_missing, support=support)

    @staticmethod
    def mean(values: ArrayLike, case_numbers: ArrayLike, cases: int, *, num_missing: int = 0) -> Statistic:
        """Mean of values (n,). case_numbers: case of each value (n,), of `cases` in all."""
        numbers = np.asarray(case_numbers, np.int64)
        sums = np.bincount(numbers, np.asarray(values, np.float64), minlength=cases).astype(np.float64)
        counts = np.bincount(numbers, minlength=cases).astype(np.float64)
        return Statistic.ratio(sums, counts, num_missing=num_missing)

    @staticmethod
    def correlation(
        xs: Numbers, ys: Numbers, case_numbers: NDArray[np.int64], cases: int, *, num_missing: int = 0
    ) -> Statistic:
        """Pearson's r of pairs (pairs,). case_numbers: case of each pair. NaN if one side is constant."""
        x, y = (side - side.mean() if len(side) else side.astype(np.float64) for side in (xs, ys))
        products = (np.ones(len(x)), x, y, x * x, y * y, x * y)
        sums = np.stack([np.bincount(case_numbers, values, minlength=cases) for values in products], axis=1)

        def evaluate(weights: Numbers) -> Numbers:
            with np.errstate(invalid="ignore", divide="ignore"):
                count, *means = (weights @ sums).T
                mx, my, xx, yy, xy = (part / count for part in means)
                variances = (xx - mx * mx) * (yy - my * my)
                coefficients: Numbers = np.where(variances > 1e-18, (xy - mx * my) / np.sqrt(variances), np.nan)
            return coefficients

        support = len(np.unique(case_numbers))
        return Statistic(evaluate, cases, len(x), num_missing, support=support, monotone=False)

    @staticmethod
    def combine(function: Callable[..., Numbers], *parts: Statistic, monotone: bool = True) -> Statistic:
        """A function of statistics over the same cases, e.g. `combine(lambda a, b: np.sqrt(a * b), if_, cc)`.

        monotone: whether the function grows with each of them.
        """
        return Statistic(
            lambda weights: function(*(part.evaluate(weights) for part in parts)),
            parts[0].cases,
            min(part.count for part in parts),
            sum(part.num_missing for part in parts),
            support=min(part.num_clusters for part in parts),
            monotone=monotone and all(part.monotone for part in parts),
        )

    @staticmethod
    def difference(minuend: Statistic, subtrahend: Statistic) -> Statistic:
        """Difference of two statistics over the same cases; its bounds hold for those of both."""

        def subtract(a: Statistic, b: Statistic) -> Statistic:
            return Statistic.combine(lambda x, y: x - y, a, b)

        difference = subtract(minuend, subtrahend)
        if minuend.lowest is None and subtrahend.lowest is None:
            return difference
        return difference.bounded(
            subtract(minuend.lowest or minuend, subtrahend.highest or subtrahend),
            subtract(minuend.highest or minuend, subtrahend.lowest or subtrahend),
        )

    def bounded(self, first: Statistic, second: Statistic) -> Statistic:
        """This statistic with bounds, if it is monotone. first, second: it with missing values at either end."""
        if first.value == self.value == second.value or not self.monotone:
            return self
        return replace(
            self,
            lowest=Statistic.combine(np.fmin, first, second),
            highest=Statistic.combine(np.fmax, first, second),
        )

    def over_cases(self, indices: NDArray[np.int64], cases: int) -> Statistic:
        """The statistic as one over `cases` cases. indices: the number there of each of its cases."""
        return replace(
            self,
            evaluate=lambda weights: self.evaluate(weights[:, indices]),
            cases=cases,
            lowest=None if self.lowest is None else self.lowest.over_cases(indices, cases),
            highest=None if self.highest is None else self.highest.over_cases(indices, cases),
        )

    @property
    def num_clusters(self) -> int:
        """Number of cases that it rests on."""
        return self.cases if self.support is None else self.support

    @property
    def value(self) -> float | None:
        """The value with weight 1 for every case; None if undefined."""
        number = float(self.evaluate(np.ones((1, self.cases)))[0])
        return None if np.isnan(number) else number

    def interval(self, weights: Numbers, *, share: float = 0.95) -> tuple[float, float] | None:
        """The central interval of the bootstrap samples; None if fewer than half of them are defined."""
        return percentile_interval(self.evaluate(weights), share)


def bootstrap_weights(cases: int, count: int = BOOTSTRAP_SAMPLES, *, seed: int = 0) -> Numbers:
    """Weight of each case in each bootstrap sample, (count, cases); the same for the same seed."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(cases, np.full(cases, 1 / cases), size=count).astype(np.float64)
