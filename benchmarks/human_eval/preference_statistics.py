"""How well values agree with what people prefer, by the rules of the preference sets.

A pair has a label (1: people prefer the first edit, -1 the second, 0 a tie) and the difference of two values, NaN where
a value is missing. A missing value counts as wrong in every statistic; `lowest` and `highest` of a statistic are its
bounds, with what is missing wrong and right. Where a rule has no place for ties, a difference of 0 is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ..suites.bootstrap import Numbers, Statistic
from .weighted_statistics import PairedObservations, srcc

Missing = Literal["wrong", "right"]

_NEAR_ONE = 1 - 1e-9


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """case: number of its case. label: see above. difference: None where a value is missing."""

    case: int
    label: int
    difference: float | None


def observed(pairs: Sequence[LabelledPair], cases: int) -> PairedObservations:
    """x: differences, NaN where missing. y: labels."""
    return PairedObservations(
        np.array([np.nan if pair.difference is None else pair.difference for pair in pairs], np.float64),
        np.array([pair.label for pair in pairs], np.float64),
        np.array([pair.case for pair in pairs], np.int64),
        cases,
        sum(pair.difference is None for pair in pairs),
    )


def bounded(make: Callable[[Missing], Statistic]) -> Statistic:
    """A statistic that counts what is missing as wrong, with its bounds."""
    wrong = make("wrong")
    return wrong.bounded(wrong, make("right")) if wrong.num_missing else wrong


def answered(pairs: Sequence[LabelledPair], cases: int) -> Statistic:
    """Share of pairs with both values."""
    return replace(observed(pairs, cases).mean(lambda x, _: ~np.isnan(x)), num_missing=0)


def accuracy(pairs: Sequence[LabelledPair], cases: int, tolerance: float = 0.0) -> Statistic:
    """Share of pairs that are right: the preferred edit has the higher value; for a tie, the values differ by less than
    `tolerance`, or not at all."""

    def make(missing: Missing) -> Statistic:
        return observed(pairs, cases).mean(lambda x, y: _right(x, y, tolerance) | (np.isnan(x) & (missing == "right")))

    return bounded(make)


def accuracy_without_ties(pairs: Sequence[LabelledPair], cases: int) -> Statistic:
    """The same over the pairs that are no tie to people."""
    return accuracy([pair for pair in pairs if pair.label], cases)


def accuracy_of_answered(pairs: Sequence[LabelledPair], cases: int) -> Statistic:
    """The same over those of them that have both values: unfair to rewards that answer more of the hard ones."""
    return accuracy([pair for pair in pairs if pair.label and pair.difference is not None], cases)


def accuracy_with_ties(pairs: Sequence[LabelledPair], cases: int) -> Statistic:
    """Accuracy with ties (Deutsch et al., arXiv 2305.14324): a difference of at most a threshold is a tie of the
    reward, and the threshold is that with the highest accuracy on these pairs. In a bootstrap sample it is chosen anew.
    """
    return bounded(lambda missing: _calibrated(pairs, cases, missing))


def _right(x: Numbers, y: Numbers, tolerance: float) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    with np.errstate(invalid="ignore"):
        ties = np.abs(x) < tolerance if tolerance else x == 0
        right: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] = np.where(y == 0, ties, x * y > 0)
    return right


def _calibrated(pairs: Sequence[LabelledPair], cases: int, missing: Missing) -> Statistic:
    def evaluate(weights: Numbers, x: Numbers, y: Numbers) -> Numbers:
        curve, _ = _threshold_curve(weights, x, y, missing)
        with np.errstate(invalid="ignore", divide="ignore"):
            shares: Numbers = curve.max(axis=1) / weights.sum(axis=1)
        return shares

    return observed(pairs, cases).figure(evaluate)


def _threshold_curve(weights: Numbers, x: Numbers, y: Numbers, missing: Missing) -> tuple[Numbers, Numbers]:
    """Weight of the right pairs at each threshold (0, and each absolute difference), and that of the right ties alone.
    weights: (samples, n) -> (samples, thresholds) each."""
    is_missing = np.isnan(x)
    present = np.flatnonzero(~is_missing)
    order = present[np.argsort(np.abs(x[present]), kind="stable")]
    sizes = np.abs(x[order])
    thresholds = np.unique(np.concatenate([[0.0], sizes]))
    ends = np.searchsorted(sizes, thresholds, side="right")  # pairs up to here are ties of the reward
    weighted = weights[:, order]
    zeros = np.zeros((len(weights), 1))
    ties = np.concatenate([zeros, np.cumsum(weighted * (y[order] == 0), axis=1)], axis=1)[:, ends]
    ordered = np.concatenate([zeros, np.cumsum(weighted * (x[order] * y[order] > 0), axis=1)], axis=1)
    right = ties + ordered[:, -1:] - ordered[:, ends]
    if missing == "right":
        right = right + weights[:, is_missing].sum(axis=1, keepdims=True)
    return right, ties


@dataclass(frozen=True, slots=True)
class PairGroup:
    """The pairs of one question to people. complete: whether all its pairs are there; otherwise it is wrong."""

    case: int
    pairs: tuple[LabelledPair, ...]
    complete: bool = True


def groups_right(groups: Sequence[PairGroup], cases: int, *, released: bool = False) -> Statistic:
    """Share of groups whose pairs are all right. For the groups of one pair, a difference of at most a threshold is a
    tie, with the threshold of `accuracy_with_ties`. released: as the released code of EditReward-Bench counts them:
    only the ties of people are judged by the threshold, and preferences by the sign of the difference alone."""
    single = [group.pairs[0] for group in groups if len(group.pairs) == 1 and group.complete]
    others = [group for group in groups if len(group.pairs) > 1 or not group.complete]
    return bounded(lambda missing: _groups_right(single, others, cases, missing, released))


def _groups_right(
    single: Sequence[LabelledPair], others: Sequence[PairGroup], cases: int, missing: Missing, released: bool
) -> Statistic:
    one = observed(single, cases)
    all_right = np.array([_all_right(group, missing) for group in others], np.float64)
    cases_of_others = np.array([group.case for group in others], np.int64)
    missing_groups = one.num_missing + sum(
        group.complete and any(pair.difference is None for pair in group.pairs) for group in others
    )

    def evaluate(weights: Numbers) -> Numbers:
        of_one, of_others = weights[:, one.case_index], weights[:, cases_of_others]
        right = of_others @ all_right if len(others) else np.zeros(len(weights))
        if len(single):
            right = right + _singles_right(of_one, one.x, one.y, missing, released)
        with np.errstate(invalid="ignore", divide="ignore"):
            shares: Numbers = right / (of_one.sum(axis=1) + of_others.sum(axis=1))
        return shares

    return Statistic(evaluate, cases, len(single) + len(others), missing_groups)


def _singles_right(weights: Numbers, x: Numbers, y: Numbers, missing: Missing, released: bool) -> Numbers:
    curve, ties = _threshold_curve(weights, x, y, missing)
    best = curve.argmax(axis=1)  # the lowest of equally good thresholds
    chosen: Numbers = np.take_along_axis(curve, best[:, None], axis=1)[:, 0]
    if not released:
        return chosen
    in_order = (weights * (np.where(np.isnan(x), 0.0, x * y) > 0)).sum(axis=1)
    counted_right = weights[:, np.isnan(x)].sum(axis=1) if missing == "right" else 0.0
    total: Numbers = np.take_along_axis(ties, best[:, None], axis=1)[:, 0] + in_order + counted_right
    return total


def _all_right(group: PairGroup, missing: Missing) -> bool:
    return group.complete and all(
        missing == "right"
        if pair.difference is None
        else pair.label * pair.difference > 0 or pair.label == pair.difference == 0
        for pair in group.pairs
    )


@dataclass(frozen=True, slots=True)
class RatedEdit:
    """case: number of its case. rating: of people. value: None where it is missing."""

    case: int
    rating: float
    value: float | None


def mean_correlation(models: Sequence[Sequence[RatedEdit]], cases: int, *, fisher: bool) -> Statistic:
    """Spearman's correlation of values with ratings, for each model over its edits, averaged over models. fisher: the
    mean of Fisher's z = artanh(r), transformed back. Otherwise as in the released code of VIEScore and EditReward,
    which transforms the mean of r itself by tanh: lower, and what their tables have. A model whose ratings are all
    equal has no correlation and is left out; values that are all equal have one of 0. A missing value counts as wrong:
    it is placed at the end of the order that is farthest from the rating. Without any value there is no correlation."""
    rated = [edits for edits in models if has_correlation(edits)]
    if all(edit.value is None for edits in rated for edit in edits):
        return Statistic(lambda weights: np.full(len(weights), np.nan), cases, 0, sum(map(len, rated)))

    def make(missing: Missing) -> Statistic:
        return mean_of([_correlation(edits, cases, missing) for edits in rated], fisher=fisher)

    return replace(bounded(make), count=sum(map(len, rated)))


def mean_of(correlations: Sequence[Statistic], *, fisher: bool) -> Statistic:
    """The mean of correlations, as in `mean_correlation`."""
    return Statistic.combine(_fisher_mean if fisher else _released_mean, *correlations)


def mean_correlation_of_raters(raters: Sequence[Sequence[RatedEdit]], cases: int, *, fisher: bool) -> Statistic:
    """The mean over raters of each one's correlation with the others: the rating of one is the value of the other."""
    return mean_of([_correlation(edits, cases, "wrong") for edits in raters], fisher=fisher)


def has_correlation(edits: Sequence[RatedEdit]) -> bool:
    """Whether their ratings differ."""
    return len({edit.rating for edit in edits}) > 1


def _correlation(edits: Sequence[RatedEdit], cases: int, missing: Missing) -> Statistic:
    ratings = np.array([edit.rating for edit in edits], np.float64)
    middle = float(np.median(ratings))
    worst = np.where(ratings > middle, -np.inf, np.inf)
    values = [
        (worst[number] if missing == "wrong" else -worst[number]) if edit.value is None else edit.value
        for number, edit in enumerate(edits)
    ]
    places = np.array([edit.case for edit in edits], np.int64)
    # Ranks stand for the values: no arithmetic with infinite ones.
    ranks = np.unique(np.array(values, np.float64), return_inverse=True)[1].astype(np.float64)
    plain = srcc(PairedObservations(ranks, ratings, places, cases))
    num_missing = sum(edit.value is None for edit in edits)
    return replace(plain, evaluate=lambda weights: np.nan_to_num(plain.evaluate(weights)), num_missing=num_missing)


def _fisher_mean(*correlations: Numbers) -> Numbers:
    mean: Numbers = np.tanh(np.mean(np.arctanh(np.clip(correlations, -_NEAR_ONE, _NEAR_ONE)), axis=0))
    return mean


def _released_mean(*correlations: Numbers) -> Numbers:
    mean: Numbers = np.tanh(np.mean(correlations, axis=0))
    return mean
