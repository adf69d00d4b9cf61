"""Statistics of agreement as figures: functions of how often each case counts, so that intervals are exact and paired.

Each takes observations, one a judgement, with the number of the case it belongs to. A case that is drawn twice counts
twice: the numbers are those of `agreement` on observations repeated as often. NaN (shown as none) where a number is
undefined: no observations, or one side constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..suites.figures import Figure, Numbers

_AT_ONCE = 4_000_000  # numbers of an array that all draws are computed in; more are taken in turn


@dataclass(frozen=True)
class Observed:
    """Pairs of numbers, one a judgement. case: the number of its case, of `cases` in all. without: pairs that lack one.

    x: what a metric says. y: what people say.
    """

    x: Numbers
    y: Numbers
    case: NDArray[np.int64]
    cases: int
    without: int = 0

    @staticmethod
    def of(rows: Sequence[tuple[int, float | None, float | None]], cases: int) -> Observed:
        """rows: (case, x, y); those where one is None are left out, and counted."""
        found = [(case, x, y) for case, x, y in rows if x is not None and y is not None]
        return Observed(
            np.array([x for _, x, _ in found], np.float64),
            np.array([y for _, _, y in found], np.float64),
            np.array([case for case, _, _ in found], np.int64),
            cases,
            len(rows) - len(found),
        )

    def figure(self, of: Callable[[Numbers, Numbers, Numbers], Numbers]) -> Figure:
        """of: weights of observations (draws, n), x (n,), y (n,) -> a number a draw."""

        def at(weights: Numbers) -> Numbers:
            if not len(self.x):
                return np.full(len(weights), np.nan)
            rows = max(1, _AT_ONCE // len(self.x))
            parts = [
                of(weights[start : start + rows][:, self.case], self.x, self.y)
                for start in range(0, len(weights), rows)
            ]
            return np.concatenate(parts)

        return Figure(at, self.cases, len(self.x), self.without)

    def mean(self, of: Callable[[Numbers, Numbers], NDArray[Any]]) -> Figure:
        """The mean of a number an observation: x (n,), y (n,) -> (n,)."""
        sums = np.bincount(self.case, of(self.x, self.y), minlength=self.cases).astype(np.float64)
        counts = np.bincount(self.case, minlength=self.cases).astype(np.float64)
        return Figure.ratio(sums, counts, without=self.without)


# -- how close ---------------------------------------------------------------------------------------------------------


def accuracy(seen: Observed) -> Figure:
    """Share of observations whose two sides are the same label."""
    return seen.mean(lambda x, y: x == y)


def mae(seen: Observed) -> Figure:
    """Mean absolute error."""
    return seen.mean(lambda x, y: np.abs(x - y))


def plcc(seen: Observed) -> Figure:
    """Pearson's linear correlation coefficient, in [-1, 1]."""
    return seen.figure(_pearson)


def srcc(seen: Observed) -> Figure:
    """Spearman's rank correlation coefficient, in [-1, 1]; ties have their mean rank."""

    def at(weights: Numbers, x: Numbers, y: Numbers) -> Numbers:
        return _pearson(weights, mid_ranks(weights, x), mid_ranks(weights, y))

    return seen.figure(at)


def kappa(seen: Observed) -> Figure:
    """Cohen's kappa (1960) of two raters over the labels that occur, in [-1, 1]: 0 for what chance would reach.

    None where either side has one label only: then chance agrees as well as anybody could.
    """
    labels = np.unique(np.concatenate([seen.x, seen.y]))

    def at(weights: Numbers, x: Numbers, y: Numbers) -> Numbers:
        count = weights.sum(axis=1)
        of_x, of_y = (weights @ (side[:, None] == labels).astype(np.float64) for side in (x, y))
        with np.errstate(invalid="ignore", divide="ignore"):
            observed = (weights @ (x == y).astype(np.float64)) / count
            chance = (of_x * of_y).sum(axis=1) / count**2
            constant = (of_x.max(axis=1) == count) | (of_y.max(axis=1) == count)
            found: Numbers = np.where(constant, np.nan, (observed - chance) / (1 - chance))
        return found

    return seen.figure(at)


def f1(seen: Observed) -> Figure:
    """Harmonic mean of precision and recall of the label 1, in [0, 1]; none where neither side has it."""

    def at(weights: Numbers, x: Numbers, y: Numbers) -> Numbers:
        yes_x, yes_y = (x == 1).astype(np.float64), (y == 1).astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            found: Numbers = 2 * (weights @ (yes_x * yes_y)) / (weights @ (yes_x + yes_y))
        return found

    return seen.figure(at)


# -- over figures ------------------------------------------------------------------------------------------------------


def pearson_over(xs: Sequence[Figure], ys: Sequence[Figure]) -> Figure:
    """Pearson's correlation of two figures over things that have both, models say. Things without a number are left out
    of a draw.
    """
    return _over(xs, ys, lambda x, y: (x, y))


def spearman_over(xs: Sequence[Figure], ys: Sequence[Figure]) -> Figure:
    """The same by ranks."""
    return _over(xs, ys, lambda x, y: (_ranked(x), _ranked(y)))


def _over(
    xs: Sequence[Figure], ys: Sequence[Figure], seen: Callable[[Numbers, Numbers], tuple[Numbers, Numbers]]
) -> Figure:
    if len(xs) != len(ys) or not xs:
        raise ValueError(f"a correlation is over things that have both, got {len(xs)} and {len(ys)}")

    def at(weights: Numbers) -> Numbers:
        x, y = (np.stack([one.at(weights) for one in side], axis=1) for side in (xs, ys))
        there = ~(np.isnan(x) | np.isnan(y))
        found = np.full(len(weights), np.nan)
        for draw in range(len(weights)):
            found[draw] = _plain(*seen(x[draw, there[draw]], y[draw, there[draw]]))
        return found

    without = sum(one.value is None or two.value is None for one, two in zip(xs, ys, strict=True))
    return Figure(at, xs[0].cases, len(xs) - without, without)


def _plain(x: Numbers, y: Numbers) -> float:
    return float(_pearson(np.ones((1, len(x))), x, y)[0]) if len(x) > 1 else float("nan")


def _ranked(x: Numbers) -> Numbers:
    found: Numbers = mid_ranks(np.ones((1, len(x))), x)[0] if len(x) else x
    return found


# -- what they are made of ---------------------------------------------------------------------------------------------


def mid_ranks(weights: Numbers, values: Numbers) -> Numbers:
    """The mean rank of each value among observations that count `weights` times, (draws, n) and (n,) -> (draws, n)."""
    distinct, of = np.unique(values, return_inverse=True)
    many = np.zeros((len(distinct), len(weights)))
    np.add.at(many, of, weights.T)
    ranks: Numbers = (np.cumsum(many, axis=0) - many / 2)[of].T
    return ranks


def _pearson(weights: Numbers, x: Numbers, y: Numbers) -> Numbers:
    """x, y: (n,), or (draws, n) where they differ from draw to draw."""
    count = weights.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        off_x, off_y = (side - (weights * side).sum(axis=1, keepdims=True) / count for side in (x, y))
        covered, in_x, in_y = ((weights * part).sum(axis=1) for part in (off_x * off_y, off_x**2, off_y**2))
        scale = (
            (weights * np.square(np.broadcast_to(x, weights.shape))).sum(axis=1),
            (weights * np.square(np.broadcast_to(y, weights.shape))).sum(axis=1),
        )
        even = (in_x <= 1e-20 * scale[0]) | (in_y <= 1e-20 * scale[1])  # constant, but for rounding
        found: Numbers = np.where(even, np.nan, np.clip(covered / np.sqrt(in_x * in_y), -1, 1))
    return found
