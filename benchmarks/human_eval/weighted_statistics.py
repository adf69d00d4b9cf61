"""Agreement statistics as functions of case weights, so that bootstrap intervals are exact and paired.

Each takes observations, one per judgement, with the index of its case. A case of weight 2 counts twice, as if its
observations were repeated. NaN (shown as none) if a statistic is undefined: no observations, or one side constant.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..suites.bootstrap import Numbers, Statistic

_MAX_BLOCK_SIZE = 4_000_000  # elements of an array over bootstrap samples; larger ones are split


@dataclass(frozen=True)
class PairedObservations:
    """Pairs of numbers, one per judgement. x: value of a metric. y: human label. case_index: index of the case, of
    `cases` in all. num_missing: number of incomplete pairs."""

    x: Numbers
    y: Numbers
    case_index: NDArray[np.int64]
    cases: int
    num_missing: int = 0

    @staticmethod
    def of(rows: Sequence[tuple[int, float | None, float | None]], cases: int) -> PairedObservations:
        """rows: (case, x, y); rows with None are left out and counted."""
        complete = [(case, x, y) for case, x, y in rows if x is not None and y is not None]
        return PairedObservations(
            np.array([x for _, x, _ in complete], np.float64),
            np.array([y for _, _, y in complete], np.float64),
            np.array([case for case, _, _ in complete], np.int64),
            cases,
            len(rows) - len(complete),
        )

    def figure(self, function: Callable[[Numbers, Numbers, Numbers], Numbers]) -> Statistic:
        """function: weights of observations (samples, n), x (n,), y (n,) -> one number per sample."""

        def evaluate(weights: Numbers) -> Numbers:
            if not len(self.x):
                return np.full(len(weights), np.nan)
            rows = max(1, _MAX_BLOCK_SIZE // len(self.x))
            parts = [
                function(weights[start : start + rows][:, self.case_index], self.x, self.y)
                for start in range(0, len(weights), rows)
            ]
            return np.concatenate(parts)

        return Statistic(evaluate, self.cases, len(self.x), self.num_missing)

    def mean(self, function: Callable[[Numbers, Numbers], NDArray[Any]]) -> Statistic:
        """The mean of a function of each observation: x (n,), y (n,) -> (n,)."""
        return Statistic.mean(function(self.x, self.y), self.case_index, self.cases, num_missing=self.num_missing)


def mean_by_case(rows: Sequence[tuple[int, float | None]], cases: int) -> Statistic:
    """The mean of values, each with the index of its case. None is left out and counted."""
    return PairedObservations.of([(case, value, 0.0) for case, value in rows], cases).mean(lambda x, _: x)


def accuracy(pairs: PairedObservations) -> Statistic:
    """Share of observations with equal labels."""
    return pairs.mean(lambda x, y: x == y)


def equal_pairs(units: Sequence[tuple[int, Sequence[float]]], cases: int) -> Statistic:
    """Share of the pairs of ratings of one unit that are equal. units: the index of the case, and the ratings. Counted
    by value: the pairs of ten thousand annotators are fifty million."""
    equal, pairs = np.zeros(cases), np.zeros(cases)
    for case, ratings in units:
        pairs[case] += math.comb(len(ratings), 2)
        equal[case] += sum(math.comb(count, 2) for count in Counter(ratings).values())
    return Statistic.ratio(equal, pairs)


def mae(pairs: PairedObservations) -> Statistic:
    """Mean absolute error."""
    return pairs.mean(lambda x, y: np.abs(x - y))


def plcc(pairs: PairedObservations) -> Statistic:
    """Pearson's linear correlation coefficient, in [-1, 1]."""
    return pairs.figure(_pearson)


def srcc(pairs: PairedObservations) -> Statistic:
    """Spearman's rank correlation coefficient, in [-1, 1]; ties get their mean rank."""

    def evaluate(weights: Numbers, x: Numbers, y: Numbers) -> Numbers:
        return _pearson(weights, weighted_mid_ranks(weights, x), weighted_mid_ranks(weights, y))

    return pairs.figure(evaluate)


def kappa(pairs: PairedObservations) -> Statistic:
    """Cohen's kappa (1960) of two raters over the labels that occur, in [-1, 1]: 0 is chance. None if either side has
    one label only: then chance agreement is perfect."""
    labels = np.unique(np.concatenate([pairs.x, pairs.y]))

    def evaluate(weights: Numbers, x: Numbers, y: Numbers) -> Numbers:
        count = weights.sum(axis=1)
        of_x, of_y = (weights @ (side[:, None] == labels).astype(np.float64) for side in (x, y))
        with np.errstate(invalid="ignore", divide="ignore"):
            observed = (weights @ (x == y).astype(np.float64)) / count
            chance = (of_x * of_y).sum(axis=1) / count**2
            constant = (of_x.max(axis=1) == count) | (of_y.max(axis=1) == count)
            values: Numbers = np.where(constant, np.nan, (observed - chance) / (1 - chance))
        return values

    return pairs.figure(evaluate)


def f1(pairs: PairedObservations) -> Statistic:
    """Harmonic mean of precision and recall of the label 1, in [0, 1]; none if neither side has it."""

    def evaluate(weights: Numbers, x: Numbers, y: Numbers) -> Numbers:
        yes_x, yes_y = (x == 1).astype(np.float64), (y == 1).astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            values: Numbers = 2 * (weights @ (yes_x * yes_y)) / (weights @ (yes_x + yes_y))
        return values

    return pairs.figure(evaluate)


def pearson_over(xs: Sequence[Statistic], ys: Sequence[Statistic]) -> Statistic:
    """Pearson's correlation of two statistics over groups, e.g. models. Groups without a value are left out of a
    bootstrap sample."""
    return _over_groups(xs, ys, lambda x: x)


def spearman_over(xs: Sequence[Statistic], ys: Sequence[Statistic]) -> Statistic:
    """Spearman's correlation of two statistics over groups."""
    return _over_groups(xs, ys, lambda x: weighted_mid_ranks(np.ones((1, len(x))), x)[0])


def _over_groups(
    xs: Sequence[Statistic], ys: Sequence[Statistic], transform: Callable[[Numbers], Numbers]
) -> Statistic:
    if len(xs) != len(ys) or not xs:
        raise ValueError(f"a correlation needs two values per group, got {len(xs)} and {len(ys)}")

    def evaluate(weights: Numbers) -> Numbers:
        x, y = (np.stack([statistic.evaluate(weights) for statistic in side], axis=1) for side in (xs, ys))
        present = ~(np.isnan(x) | np.isnan(y))
        values = np.full(len(weights), np.nan)
        for index, is_there in enumerate(present):
            if is_there.sum() > 1:
                sides = (transform(side[index, is_there]) for side in (x, y))
                values[index] = _pearson(np.ones((1, is_there.sum())), *sides)[0]
        return values

    num_missing = sum(statistic.value is None or other.value is None for statistic, other in zip(xs, ys, strict=True))
    return Statistic(evaluate, xs[0].cases, len(xs) - num_missing, num_missing)


def weighted_mid_ranks(weights: Numbers, values: Numbers) -> Numbers:
    """The mean rank of each value among weighted observations, (samples, n) and (n,) -> (samples, n)."""
    distinct, inverse = np.unique(values, return_inverse=True)
    counts = np.zeros((len(distinct), len(weights)))
    np.add.at(counts, inverse, weights.T)
    ranks: Numbers = (np.cumsum(counts, axis=0) - counts / 2)[inverse].T
    return ranks


def _pearson(weights: Numbers, x: Numbers, y: Numbers) -> Numbers:
    """x, y: (n,), or (samples, n) if they differ between samples."""
    count = weights.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        off_x, off_y = (side - (weights * side).sum(axis=1, keepdims=True) / count for side in (x, y))
        covered, in_x, in_y = ((weights * part).sum(axis=1) for part in (off_x * off_y, off_x**2, off_y**2))
        of_x, of_y = ((weights * np.square(side)).sum(axis=1) for side in (x, y))
        even = (in_x <= 1e-20 * of_x) | (in_y <= 1e-20 * of_y)  # constant, but for rounding
        correlations: Numbers = np.where(even, np.nan, np.clip(covered / np.sqrt(in_x * in_y), -1, 1))
    return correlations


Level = Literal["nominal", "ordinal", "interval"]
LEVELS: tuple[Level, ...] = get_args(Level)

Unit = tuple[int, Sequence[float]]  # a rated unit: the index of its case, and its ratings


def alpha(units: Sequence[Unit], level: Level, cases: int) -> Statistic:
    """Alpha of these units. count: ratings used; num_missing: ratings that are alone in their unit. The squared
    difference of two values is 1 unless they are equal (nominal), that of their mean ranks (ordinal), or that of the
    values (interval). None if all values are equal. Raises ValueError for another level."""
    if level not in LEVELS:
        raise ValueError(f"unknown level {level!r}: alpha is {', '.join(LEVELS)}")
    judged = [(case, list(values)) for case, values in units if len(values) > 1]
    num_single = sum(len(values) for _, values in units) - sum(len(values) for _, values in judged)
    table = _Table.of(judged)
    value_at = table.nominal if level == "nominal" else table.ordinal if level == "ordinal" else table.interval

    def evaluate(weights: Numbers) -> Numbers:
        return np.array([value_at(row) for row in weights], np.float64)

    return Statistic(evaluate, cases, sum(len(values) for _, values in judged), num_single)


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
        expected = 2 * (n * (total @ positions**2) - (total @ positions) ** 2)
        return _alpha(float(counted @ (apart / (self.size - 1))), expected, n)


def _alpha(observed: float, expected: float, n: float) -> float:
    """1 - (observed / n) / (expected / (n (n - 1)))."""
    return float(1 - observed * (n - 1) / expected) if expected > 1e-12 * n * n else float("nan")
