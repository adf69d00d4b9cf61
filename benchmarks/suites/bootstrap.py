"""Statistics of tables with bootstrap intervals, and tests of the differences of two.

A statistic is a function of the weight of each case: evaluated with weight 1 for every case, and on a thousand
bootstrap samples (percentile bootstrap: Efron 1979), the same for all statistics, so that comparisons are paired. The
simultaneous intervals of a family are single-step max-t (Westfall and Young 1993; Hothorn, Bretz and Westfall 2008).
Clusters, the source images, are resampled; deviations are widened by sqrt(n / (n - 1)) and from normal to Student's
quantiles. Below `MIN_CLUSTERS` there is no interval and no p-value. Of a difference with bounds (missing values), the
intervals hold for both, and the p-values are the larger ones, or 1 if the bounds differ in sign.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...reward.bootstrap_intervals import percentile_interval, student_quantile
from ..common.defaults import BOOTSTRAP_SAMPLES

Numbers = NDArray[np.float64]

SHARE = 0.95
"""Of bootstrap samples, or of a distribution, in an interval."""
MIN_CLUSTERS = 10
"""Fewest clusters for an interval or a p-value: resampling fewer gives intervals that are too narrow."""


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
        """A function of statistics over the same cases, e.g. `combine(lambda a, b: np.sqrt(a * b), if_, cc)`. monotone:
        whether the function grows with each of them."""
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
            return Statistic.combine(np.subtract, a, b)

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
            self, lowest=Statistic.combine(np.fmin, first, second), highest=Statistic.combine(np.fmax, first, second)
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

    def interval(self, weights: Numbers) -> tuple[float, float] | None:
        """The central 95 % interval of the bootstrap samples; None below `MIN_CLUSTERS`, or if fewer than half of the
        samples are defined."""
        return percentile_interval(self.evaluate(weights), SHARE) if self.num_clusters >= MIN_CLUSTERS else None


def bootstrap_weights(cases: int, count: int = BOOTSTRAP_SAMPLES, *, seed: int = 0) -> Numbers:
    """Weight of each case in each bootstrap sample, (count, cases); the same for the same seed."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(cases, np.full(cases, 1 / cases), size=count).astype(np.float64)


def plain_mean(*parts: Numbers) -> Numbers:
    """The unweighted mean of statistics, such as those of types or levels; undefined if one is."""
    mean: Numbers = np.mean(parts, axis=0)
    return mean


def pooled_mean(means: Sequence[ArrayLike], counts: Sequence[ArrayLike]) -> Numbers:
    """The mean over all values of several groups, from the mean and the count of each; one without values is ignored.
    NaN without values at all."""
    sizes = np.stack([np.asarray(count, np.float64) for count in counts])
    sums = np.where(sizes > 0, np.stack([np.asarray(mean, np.float64) for mean in means]) * sizes, 0.0)
    total = sizes.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        pooled: Numbers = np.where(total > 0, sums.sum(axis=0) / total, np.nan)
    return pooled


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Difference of two editors in a column, first minus second; None if undefined. low, high, p: 95 % interval and
    p-value of this pair alone. simultaneous_low, simultaneous_high, adjusted_p: those of all pairs of the column
    jointly (see the module). cases: number of compared cases."""

    first: str
    second: str
    column: str
    value: float | None
    low: float | None
    high: float | None
    p: float | None
    simultaneous_low: float | None
    simultaneous_high: float | None
    adjusted_p: float | None
    cases: int

    @property
    def is_significant(self) -> bool:
        """Whether the simultaneous interval excludes zero."""
        low, high = self.simultaneous_low, self.simultaneous_high
        return low is not None and high is not None and not low <= 0 <= high


@dataclass(frozen=True, slots=True)
class SignificanceTest:
    """Test of a statistic against zero; fields as in `PairedDifference`."""

    value: float | None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    simultaneous_low: float | None = None
    simultaneous_high: float | None = None
    adjusted_p: float | None = None

    def scaled(self, scale: float) -> SignificanceTest:
        """In another unit."""
        names = ("value", "low", "high", "simultaneous_low", "simultaneous_high")
        numbers = {name: getattr(self, name) for name in names}
        return replace(self, **{name: None if one is None else scale * one for name, one in numbers.items()})


def significance_tests(
    figures: Sequence[Statistic], weights: Numbers, clusters: Sequence[int]
) -> list[SignificanceTest]:
    """Test each statistic against zero, alone and jointly with the others (single-step max-t). clusters: number of
    clusters in each statistic. A p-value is the share of bootstrap samples at least as far from the estimate as the
    estimate from zero, in standard errors, with the estimate itself counted: never less than 1 / (samples + 1)."""
    tests = _test_family(figures, weights, clusters)
    if all(figure.lowest is None for figure in figures):
        return tests
    lowest = _test_family([figure.lowest or figure for figure in figures], weights, clusters)
    highest = _test_family([figure.highest or figure for figure in figures], weights, clusters)
    return [
        test if figure.lowest is None else _over_bounds(test, low, high)
        for figure, test, low, high in zip(figures, tests, lowest, highest, strict=True)
    ]


def _over_bounds(test: SignificanceTest, low: SignificanceTest, high: SignificanceTest) -> SignificanceTest:
    """A test whose verdict holds wherever the missing values are."""
    if test.p is None or low.p is None or high.p is None:
        return SignificanceTest(test.value)
    undecided = low.value is None or high.value is None or low.value * high.value <= 0

    def all_of(name: str) -> list[float]:
        return [getattr(item, name) for item in (test, low, high)]

    return SignificanceTest(
        test.value,
        min(all_of("low")),
        max(all_of("high")),
        1.0 if undecided else max(all_of("p")),
        min(all_of("simultaneous_low")),
        max(all_of("simultaneous_high")),
        1.0 if undecided else max(all_of("adjusted_p")),
    )


def _test_family(figures: Sequence[Statistic], weights: Numbers, clusters: Sequence[int]) -> list[SignificanceTest]:
    values = [figure.value for figure in figures]
    usable = [
        n
        for n, figure in enumerate(figures)
        if values[n] is not None and clusters[n] >= MIN_CLUSTERS and figure.interval(weights) is not None
    ]
    if not usable:
        return [SignificanceTest(value) for value in values]
    estimates = np.array([values[n] for n in usable], np.float64)
    widening = np.array([small_sample_factor(clusters[n]) for n in usable])
    samples = np.stack([figures[n].evaluate(weights) for n in usable])
    standard_errors = np.nanstd(samples, axis=1)
    standard_errors[standard_errors < 1e-12 * (1 + np.abs(estimates))] = 0
    with np.errstate(invalid="ignore", divide="ignore"):
        deviations = np.where(
            standard_errors[:, None] > 0,
            widening[:, None] * np.abs(samples - estimates[:, None]) / standard_errors[:, None],
            0.0,
        )
        observed = np.where(
            standard_errors > 0, np.abs(estimates) / standard_errors, np.where(estimates == 0, 0.0, np.inf)
        )
    deviations = np.nan_to_num(deviations, nan=0.0)
    max_deviations = deviations.max(axis=0)
    critical_value = float(np.quantile(max_deviations, SHARE))
    tests = {}
    for row, n in enumerate(usable):
        low, high = figures[n].interval(weights) or (None, None)
        estimate, factor, half_width = float(estimates[row]), widening[row], critical_value * standard_errors[row]
        tests[n] = SignificanceTest(
            values[n],
            None if low is None else float(estimate + factor * (low - estimate)),
            None if high is None else float(estimate + factor * (high - estimate)),
            _p_value(deviations[row], observed[row]),
            float(estimate - half_width),
            float(estimate + half_width),
            _p_value(max_deviations, observed[row]),
        )
    return [tests.get(n, SignificanceTest(value)) for n, value in enumerate(values)]


def small_sample_factor(clusters: int) -> float:
    """The factor by which bootstrap deviations of a statistic of n clusters are too small: sqrt(n / (n - 1)), times the
    ratio of the quantiles of Student's t and the normal distribution at `SHARE`."""
    normal = NormalDist().inv_cdf((1 + SHARE) / 2)
    return float(sqrt(clusters / (clusters - 1)) * student_quantile(normal, clusters - 1) / normal)


def _p_value(deviations: Numbers, observed: float) -> float:
    return float((1 + np.count_nonzero(deviations >= observed)) / (1 + len(deviations)))
