"""Agreement by the rules of the preference sets: counted by hand, and as the sets' released code counts it."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

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


def pairs(rows: Sequence[tuple[int, float | None]]) -> list[LabelledPair]:
    return [LabelledPair(case, label, difference) for case, (label, difference) in enumerate(rows)]


def drawn(seed: int) -> list[LabelledPair]:
    """40 labels and differences that follow them."""
    rng = random.Random(seed)
    labels = [rng.choice([1, -1, 0]) for _ in range(40)]
    return pairs([(label, round(0.6 * label + rng.gauss(0, 0.5), 3)) for label in labels])


# Labels and differences, on which the functions of EditReward's `eval_bench.py` were run.
MIXED = list(zip([1, -1, 0, 1, 0, -1, 1, 0, -1, 1, 0, -1],
                 [0.5, 0.3, 0.05, 0.02, -0.4, -0.7, -0.1, 0.2, -0.25, 0.9, 0.0, 0.15], strict=True))  # fmt: skip
RELEASED = {0: (0.8, 26 / 27), 1: (0.675, 26 / 29), 2: (0.65, 24 / 27), 3: (0.525, 20 / 24)}
"""Seed -> accuracy with ties, and without ties, as the released code printed them for `drawn(seed)`."""


def test_accuracy_with_ties_is_that_of_the_released_code() -> None:
    assert accuracy_with_ties(pairs(MIXED), 12).value == pytest.approx(0.5833333333333334)
    assert accuracy_without_ties(pairs(MIXED), 12).value == pytest.approx(0.625)


@pytest.mark.parametrize("seed", list(RELEASED))
def test_it_is_on_drawn_pairs_too(seed: int) -> None:
    with_ties, without_ties = RELEASED[seed]
    assert accuracy_with_ties(drawn(seed), 40).value == pytest.approx(with_ties)
    assert accuracy_without_ties(drawn(seed), 40).value == pytest.approx(without_ties)


def test_equal_differences_are_ties_together_or_not_at_all() -> None:
    # EditReward's code for GenAI-Bench takes them one by one and counts 0.75 here; that for its own set counts 0.5.
    assert accuracy_with_ties(pairs([(0, 0.5), (1, 0.5), (0, -0.5), (1, 0.5)]), 4).value == 0.5
    # The former never tries to call nothing a tie, and counts 0 here.
    assert accuracy_with_ties(pairs([(1, 0.5)]), 1).value == 1


def test_the_threshold_is_the_best_one_by_trying_all() -> None:
    rng = np.random.default_rng(3)
    labels = rng.integers(-1, 2, 60)
    differences = np.round(labels * 0.4 + rng.normal(0, 0.6, 60), 1)  # many equal ones
    rules = list(zip(labels, differences, strict=True))
    counted = max(
        np.mean([(abs(d) <= limit) if y == 0 else (abs(d) > limit and y * d > 0) for y, d in rules])
        for limit in [0.0, *np.abs(differences)]
    )
    rows = pairs([(int(y), float(d)) for y, d in zip(labels, differences, strict=True)])
    assert accuracy_with_ties(rows, 60).value == pytest.approx(counted)
    # A bootstrap sample is the same as pairs repeated by their weights, with its own threshold.
    weights = bootstrap_weights(60, 5, seed=1)
    repeated = [[row for row, count in zip(rows, sample, strict=True) for _ in range(int(count))] for sample in weights]
    values = [accuracy_with_ties(sample, 60).value for sample in repeated]
    assert accuracy_with_ties(rows, 60).evaluate(weights) == pytest.approx(values)


def test_a_tie_of_the_reward_is_wrong_where_there_are_no_ties() -> None:
    assert accuracy_without_ties(pairs([(1, 0.0), (-1, -0.1), (0, 0.0)]), 3).value == 0.5


def test_a_tie_of_people_is_right_within_the_tolerance() -> None:
    rows = pairs([(0, 0.0), (0, 9e-6), (0, 2e-5), (1, 1e-7)])
    assert accuracy(rows, 4, tolerance=1e-5).value == 0.75
    assert accuracy(rows, 4).value == 0.5


def test_what_is_missing_is_wrong_and_its_bounds_are_stated() -> None:
    rows = pairs([(1, 1.0), (1, None), (-1, None), (-1, 2.0), (0, None)])
    for statistic, low, high in (
        (accuracy(rows, 5), 0.2, 0.8),
        (accuracy_with_ties(rows, 5), 0.2, 0.8),
        (accuracy_without_ties(rows, 5), 0.25, 0.75),
    ):
        assert statistic.value == pytest.approx(low)
        assert statistic.lowest is not None
        assert statistic.highest is not None
        assert (statistic.lowest.value, statistic.highest.value) == pytest.approx((low, high))
    assert accuracy(rows, 5).num_missing == 3
    assert accuracy_of_answered(rows, 5).value == 0.5
    assert answered(rows, 5).value == 0.4


def test_missing_values_never_pay() -> None:
    rng = np.random.default_rng(0)
    rows = drawn(0)
    for _ in range(20):
        hidden = [pair if rng.random() > 0.3 else LabelledPair(pair.case, pair.label, None) for pair in rows]
        for statistic in (accuracy, accuracy_with_ties, accuracy_without_ties):
            full, partial = statistic(rows, 40).value, statistic(hidden, 40).value
            assert full is not None
            assert partial is not None
            assert partial <= full + 1e-12


# -- groups ------------------------------------------------------------------------------------------------------------


def group(case: int, *rows: tuple[int, float | None], complete: bool = True) -> PairGroup:
    return PairGroup(case, tuple(LabelledPair(case, *row) for row in rows), complete)


def test_a_group_is_right_if_all_its_pairs_are() -> None:
    groups = [
        group(0, (1, 3.0), (1, 5.0), (1, 2.0)),
        group(1, (1, 3.0), (1, -5.0), (1, 2.0)),
        group(2, (1, 3.0), (1, 5.0), (1, 0.0)),
        group(3, (1, 3.0), (1, 5.0), complete=False),
    ]
    assert groups_right(groups, 4).value == 0.25


def test_a_group_with_a_missing_value_is_wrong_or_at_best_as_right_as_the_rest_of_it() -> None:
    statistic = groups_right([group(0, (1, 3.0), (1, None)), group(1, (1, -3.0), (1, None)), group(2, (1, None))], 3)
    assert statistic.value == 0
    assert statistic.num_missing == 3
    assert statistic.highest is not None
    assert statistic.highest.value == pytest.approx(2 / 3)


def test_groups_of_two_share_a_threshold() -> None:
    groups = [group(0, (1, 9.0)), group(1, (0, 2.0)), group(2, (0, -2.5)), group(3, (1, 1.0)), group(4, (-1, -8.0))]
    assert groups_right(groups, 5).value == 0.8  # the preference by 1.0 is a tie then
    assert groups_right(groups, 5, released=True).value == 1.0  # and in order all the same
    assert groups_right([*groups, group(5, (1, 1.0), (1, -1.0))], 6).value == pytest.approx(4 / 6)


# -- ratings -----------------------------------------------------------------------------------------------------------


def edits(ratings: Sequence[float], values: Sequence[float | None]) -> list[RatedEdit]:
    return [RatedEdit(case, *row) for case, row in enumerate(zip(ratings, values, strict=True))]


def test_correlations_are_averaged_over_models_in_both_ways() -> None:
    scipy_stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(2)
    models = [edits(np.round(rng.random(30), 1).tolist(), rng.random(30).tolist()) for _ in range(3)]
    r = [
        scipy_stats.spearmanr([edit.value for edit in model], [edit.rating for edit in model]).statistic
        for model in models
    ]
    assert mean_correlation(models, 30, fisher=True).value == pytest.approx(math.tanh(np.mean(np.arctanh(r))))
    assert mean_correlation(models, 30, fisher=False).value == pytest.approx(math.tanh(np.mean(r)))


def test_a_constant_model_is_left_out_and_a_constant_reward_gains_nothing() -> None:
    good = edits([0, 0.5, 1], [1, 2, 3])
    assert mean_correlation([good, edits([0, 0, 0], [1, 2, 3])], 3, fisher=True).value == pytest.approx(1, abs=1e-6)
    constant = mean_correlation([edits([0, 0.5, 1], [1, 1, 1])], 3, fisher=True)
    assert constant.value == 0
    assert mean_correlation([edits([0, 0, 0], [1, 2, 3])], 3, fisher=True).value is None


def test_a_missing_value_is_farthest_from_its_rating() -> None:
    ratings = [0.0, 0.2, 0.4, 0.6, 1.0]
    statistic = mean_correlation([edits(ratings, [1, 2, 3, 4, None])], 5, fisher=True)
    assert statistic.value == pytest.approx(0.0, abs=1e-9)  # as if the best edit had the lowest value
    assert statistic.num_missing == 1
    assert statistic.highest is not None
    assert statistic.highest.value == pytest.approx(1.0, abs=1e-6)
    half = mean_correlation([edits(ratings, [None, None, 2, None, None])], 5, fisher=True)
    assert half.value is not None
    assert half.value < -0.5


def test_without_any_value_there_is_no_correlation() -> None:
    nothing = mean_correlation([edits([0.0, 0.5, 1.0], [None] * 3)], 3, fisher=True)
    assert (nothing.value, nothing.count, nothing.num_missing) == (None, 0, 3)
