"""Agreement by the rules of the preference sets: counted by hand, and as the sets' released code counts it."""

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from editcritic.benchmarks.human_eval.preference_statistics import (
    LabelledPair,
    PairGroup,
    RatedEdit,
    accuracy,
    accuracy_of_answered,
    accuracy_with_ties,
    accuracy_without_ties,
    answered,
    groups_right,
    mean_correlation,
)
from editcritic.benchmarks.suites.bootstrap import bootstrap_weights


def pairs(*rows: tuple[int, float | None]) -> list[LabelledPair]:
    return [LabelledPair(case, label, difference) for case, (label, difference) in enumerate(rows)]


def drawn(seed: int) -> list[LabelledPair]:
    """40 labels and differences that follow them."""
    rng = random.Random(seed)
    labels = [rng.choice([1, -1, 0]) for _ in range(40)]
    return pairs(*((label, round(0.6 * label + rng.gauss(0, 0.5), 3)) for label in labels))


# Labels and differences, on which the functions of EditReward's `eval_bench.py` were run.
MIXED = pairs(*zip([1, -1, 0, 1, 0, -1, 1, 0, -1, 1, 0, -1],
                   [0.5, 0.3, 0.05, 0.02, -0.4, -0.7, -0.1, 0.2, -0.25, 0.9, 0.0, 0.15], strict=True))  # fmt: skip
RELEASED = [
    (MIXED, 0.5833333333333334, 0.625),
    (drawn(0), 0.8, 26 / 27),
    (drawn(1), 0.675, 26 / 29),
    (drawn(2), 0.65, 24 / 27),
    (drawn(3), 0.525, 20 / 24),
]
"""Pairs, and their accuracy with ties, and without ties, as the released code printed them."""


@pytest.mark.parametrize(("rows", "with_ties", "without_ties"), RELEASED)
def test_accuracy_is_that_of_the_released_code(rows: list[LabelledPair], with_ties: float, without_ties: float) -> None:
    assert accuracy_with_ties(rows, len(rows)).value == pytest.approx(with_ties)
    assert accuracy_without_ties(rows, len(rows)).value == pytest.approx(without_ties)


def test_equal_differences_are_ties_together_or_not_at_all() -> None:
    # EditReward's code for GenAI-Bench takes them one by one and counts 0.75 here; that for its own set counts 0.5.
    assert accuracy_with_ties(pairs((0, 0.5), (1, 0.5), (0, -0.5), (1, 0.5)), 4).value == 0.5
    # The former never tries to call nothing a tie, and counts 0 here.
    assert accuracy_with_ties(pairs((1, 0.5)), 1).value == 1


def test_the_threshold_is_the_best_one_by_trying_all() -> None:
    rng = np.random.default_rng(3)
    labels = rng.integers(-1, 2, 60)
    differences = np.round(labels * 0.4 + rng.normal(0, 0.6, 60), 1)  # many equal ones
    rules = list(zip(labels.tolist(), differences.tolist(), strict=True))
    counted = max(
        np.mean([(abs(d) <= limit) if y == 0 else (abs(d) > limit and y * d > 0) for y, d in rules])
        for limit in [0.0, *np.abs(differences)]
    )
    rows = pairs(*rules)
    assert accuracy_with_ties(rows, 60).value == pytest.approx(counted)
    # A bootstrap sample is the same as pairs repeated by their weights, with its own threshold.
    weights = bootstrap_weights(60, 5, seed=1)
    repeated = [[row for row, count in zip(rows, sample, strict=True) for _ in range(int(count))] for sample in weights]
    values = [accuracy_with_ties(sample, 60).value for sample in repeated]
    assert accuracy_with_ties(rows, 60).evaluate(weights) == pytest.approx(values)


def test_ties_of_the_reward_and_of_people() -> None:
    assert accuracy_without_ties(pairs((1, 0.0), (-1, -0.1), (0, 0.0)), 3).value == 0.5
    rows = pairs((0, 0.0), (0, 9e-6), (0, 2e-5), (1, 1e-7))
    assert (accuracy(rows, 4, tolerance=1e-5).value, accuracy(rows, 4).value) == (0.75, 0.5)


def bounds(statistic: Any) -> tuple[float | None, float | None, float | None]:
    return statistic.value, statistic.lowest.value, statistic.highest.value


def test_what_is_missing_is_wrong_and_its_bounds_are_stated() -> None:
    rows = pairs((1, 1.0), (1, None), (-1, None), (-1, 2.0), (0, None))
    assert bounds(accuracy(rows, 5)) == bounds(accuracy_with_ties(rows, 5)) == pytest.approx((0.2, 0.2, 0.8))
    assert bounds(accuracy_without_ties(rows, 5)) == pytest.approx((0.25, 0.25, 0.75))
    assert accuracy(rows, 5).num_missing == 3
    assert (accuracy_of_answered(rows, 5).value, answered(rows, 5).value) == (0.5, 0.4)


@pytest.mark.parametrize("statistic", [accuracy, accuracy_with_ties, accuracy_without_ties])
def test_missing_values_never_pay(statistic: object) -> None:
    assert callable(statistic)
    rng = np.random.default_rng(0)
    rows = drawn(0)
    for _ in range(20):
        hidden = [pair if rng.random() > 0.3 else LabelledPair(pair.case, pair.label, None) for pair in rows]
        assert statistic(hidden, 40).value <= statistic(rows, 40).value + 1e-12


def groups(*all_rows: Sequence[tuple[int, float | None]]) -> list[PairGroup]:
    """Of pairs; a group that ends with a pair without a label is not complete."""
    return [
        PairGroup(case, tuple(LabelledPair(case, *row) for row in rows if row[0]), rows[-1][0] != 0)
        for case, rows in enumerate(all_rows)
    ]


def test_a_group_is_right_if_all_its_pairs_are() -> None:
    rows: list[list[tuple[int, float | None]]] = [
        [(1, 3.0), (1, 5.0), (1, 2.0)],
        [(1, 3.0), (1, -5.0), (1, 2.0)],
        [(1, 3.0), (1, 5.0), (1, 0.0)],
        [(1, 3.0), (1, 5.0), (0, None)],
    ]
    assert groups_right(groups(*rows), 4).value == 0.25


def test_a_group_with_a_missing_value_is_wrong_or_at_best_as_right_as_the_rest_of_it() -> None:
    statistic = groups_right(groups([(1, 3.0), (1, None)], [(1, -3.0), (1, None)], [(1, None)]), 3)
    assert bounds(statistic)[::2] == pytest.approx((0, 2 / 3))
    assert statistic.num_missing == 3


def test_groups_of_two_share_a_threshold() -> None:
    rows = [(1, 9.0), (0, 2.0), (0, -2.5), (1, 1.0), (-1, -8.0)]
    some = [PairGroup(case, (LabelledPair(case, *row),), True) for case, row in enumerate(rows)]
    assert groups_right(some, 5).value == 0.8  # the preference by 1.0 is a tie then
    assert groups_right(some, 5, released=True).value == 1.0  # and in order all the same
    longer = PairGroup(5, (LabelledPair(5, 1, 1.0), LabelledPair(5, 1, -1.0)), True)
    assert groups_right([*some, longer], 6).value == pytest.approx(4 / 6)


def edits(ratings: Sequence[float], values: Sequence[float | None]) -> list[RatedEdit]:
    return [RatedEdit(case, *row) for case, row in enumerate(zip(ratings, values, strict=True))]


def test_correlations_are_averaged_over_models_in_both_ways() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(2)
    columns = [(np.round(rng.random(30), 1).tolist(), rng.random(30).tolist()) for _ in range(3)]
    r = [stats.spearmanr(values, ratings).statistic for ratings, values in columns]
    models = [edits(*both) for both in columns]
    assert mean_correlation(models, 30, fisher=True).value == pytest.approx(math.tanh(np.mean(np.arctanh(r))))
    assert mean_correlation(models, 30, fisher=False).value == pytest.approx(math.tanh(np.mean(r)))


def test_a_constant_model_is_left_out_and_a_constant_reward_gains_nothing() -> None:
    good, flat = edits([0, 0.5, 1], [1, 2, 3]), edits([0, 0, 0], [1, 2, 3])
    assert mean_correlation([good, flat], 3, fisher=True).value == pytest.approx(1, abs=1e-6)
    assert mean_correlation([edits([0, 0.5, 1], [1, 1, 1])], 3, fisher=True).value == 0
    assert mean_correlation([flat], 3, fisher=True).value is None


def test_a_missing_value_is_farthest_from_its_rating() -> None:
    ratings = [0.0, 0.2, 0.4, 0.6, 1.0]
    statistic = mean_correlation([edits(ratings, [1, 2, 3, 4, None])], 5, fisher=True)
    assert bounds(statistic)[::2] == pytest.approx((0.0, 1.0), abs=1e-6)  # as if the best edit had the lowest value
    assert statistic.num_missing == 1
    half = mean_correlation([edits(ratings, [None, None, 2, None, None])], 5, fisher=True)
    assert (half.value or 0.0) < -0.5
    nothing = mean_correlation([edits([0.0, 0.5, 1.0], [None] * 3)], 3, fisher=True)
    assert (nothing.value, nothing.count, nothing.num_missing) == (None, 0, 3)
