"""Statistics as functions of weights: those of scipy on cases repeated as often as they count, and published ones."""

import warnings
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.benchmarks.human_eval import weighted_statistics
from editcritic.benchmarks.human_eval.weighted_statistics import LEVELS, PairedObservations, alpha
from editcritic.benchmarks.suites.bootstrap import Statistic, bootstrap_weights

GRADES = st.integers(0, 4).map(lambda one: one / 4)
ROWS = st.lists(st.tuples(st.integers(0, 4), GRADES, GRADES), min_size=1, max_size=20)


def scipys(name):
    def correlation(x, y):
        from scipy import stats

        return getattr(stats, name)(x, y).statistic if len(set(x)) > 1 < len(set(y)) else None

    return correlation


def plain_mae(x, y):
    return np.abs(x - y).mean() if len(x) else None


def plain_accuracy(x, y):
    return (x == y).mean() if len(x) else None


def plain_kappa(x, y):
    if not len(set(x)) > 1 < len(set(y)):
        return None
    chance = x.mean() * y.mean() + (1 - x.mean()) * (1 - y.mean())
    return ((x == y).mean() - chance) / (1 - chance)


def plain_f1(x, y):
    return 2 * (x * y).sum() / (x + y).sum() if (x + y).any() else None


NUMBERS = {
    weighted_statistics.plcc: scipys("pearsonr"),
    weighted_statistics.srcc: scipys("spearmanr"),
    weighted_statistics.mae: plain_mae,
}
OF_LABELS = {
    weighted_statistics.accuracy: plain_accuracy,
    weighted_statistics.kappa: plain_kappa,
    weighted_statistics.f1: plain_f1,
}


@given(ROWS, st.lists(st.integers(0, 3), min_size=5, max_size=5))
def test_a_case_that_counts_twice_is_there_twice(rows, counts):
    decisions = [(case, float(x >= 0.5), float(y >= 0.5)) for case, x, y in rows]
    for observed, figures in ((rows, NUMBERS), (decisions, OF_LABELS)):
        repeated = [(x, y) for case, x, y in observed for _ in range(counts[case])]
        x, y = np.array(repeated, float).reshape(-1, 2).T
        for figure, plain in figures.items():
            statistic = figure(PairedObservations.of(observed, 5)).evaluate(np.array([counts], np.float64))[0]
            same(statistic, plain(x, y))


def same(statistic, expected):
    if expected is None:
        assert np.isnan(statistic)
    else:
        assert statistic == pytest.approx(expected, abs=1e-9)


def test_kappa_of_four_labels_by_hand():
    # 10 things: 7 are the same; marginals are (4, 3, 2, 1) and (3, 3, 3, 1), so that chance agrees in 28 of 100.
    x, y = [1, 1, 1, 1, 2, 2, 2, 3, 3, 4], [1, 1, 2, 3, 2, 2, 1, 3, 3, 4]
    seen = PairedObservations.of([(number, *pair) for number, pair in enumerate(zip(x, y, strict=True))], 10)
    agreed, chance = 7 / 10, 28 / 100
    assert weighted_statistics.kappa(seen).value == pytest.approx((agreed - chance) / (1 - chance))


def test_values_that_are_missing_are_counted():
    statistic = weighted_statistics.accuracy(PairedObservations.of([(0, 1.0, 1.0), (1, None, 1.0), (1, 0.0, None)], 2))
    assert (statistic.value, statistic.count, statistic.num_missing) == (1.0, 1, 2)


def test_a_correlation_over_editors_leaves_out_one_without_a_number():
    from scipy import stats

    def figure(*values):
        counts = np.array([value is not None for value in values], np.float64)
        return Statistic.ratio(np.array([value or 0.0 for value in values]), counts)

    xs = [figure(0.1, 0.1), figure(0.5, 0.5), figure(0.6, 0.6), figure(None, None)]
    ys = [figure(1, 1), figure(3, 3), figure(2, 2), figure(9, 9)]
    statistic = weighted_statistics.pearson_over(xs, ys)
    assert statistic.value == pytest.approx(stats.pearsonr([0.1, 0.5, 0.6], [1, 3, 2]).statistic)
    assert (statistic.count, statistic.num_missing) == (3, 1)
    assert weighted_statistics.spearman_over(xs, ys).value == pytest.approx(0.5)


# Krippendorff (2011), example C: four observers, twelve units; 0 is a missing rating.
OBSERVERS = (
    (1, 2, 3, 3, 2, 1, 4, 1, 2, 0, 0, 0),
    (1, 2, 3, 3, 2, 2, 4, 1, 2, 5, 0, 3),
    (0, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 0),
    (1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, 0),
)


def units(*observers):
    return [
        (unit, [rating for rating in ratings if rating]) for unit, ratings in enumerate(zip(*observers, strict=True))
    ]


@pytest.mark.parametrize(("level", "expected"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_of_the_published_example(level, expected):
    statistic = alpha(units(*OBSERVERS), level, 12)
    assert statistic.value == pytest.approx(expected, abs=0.0005)
    assert (statistic.count, statistic.num_missing) == (40, 1)


def test_alpha_of_two_observers_as_published():
    yes_no = ((1, 2, 1, 1, 1, 1, 1, 1, 2, 1), (2, 2, 2, 1, 1, 2, 1, 1, 1, 1))
    assert alpha(units(*yes_no), "nominal", 10).value == pytest.approx(0.095, abs=0.0005)
    letters = [[ord(letter) for letter in word] for word in ("aabbdcccedda", "babbbccceddd")]
    assert alpha(units(*letters), "nominal", 12).value == pytest.approx(0.692, abs=0.0005)


def test_alpha_of_yes_and_no_is_the_same_on_every_level():
    two = units((1, 2, 2, 1, 2), (1, 2, 1, 1, 2))
    assert len({f"{alpha(two, level, 5).value:.12f}" for level in LEVELS}) == 1


def test_alpha_counts_a_unit_drawn_twice_as_two():
    once, twice = units(*OBSERVERS), [*units(*OBSERVERS), *units(*OBSERVERS)[:3]]
    weights = np.array([[2.0] * 3 + [1.0] * 9])
    for level in LEVELS:
        doubled = alpha([(number, ratings) for number, (_, ratings) in enumerate(twice)], level, 15)
        assert alpha(once, level, 12).evaluate(weights)[0] == pytest.approx(doubled.value)


def test_alpha_of_annotators_who_never_differ_is_one_and_of_one_value_none():
    assert alpha(units((1, 2, 3), (1, 2, 3)), "ordinal", 3).value == 1.0
    assert alpha(units((1, 1, 1), (1, 1, 1)), "nominal", 3).value is None
    assert alpha([], "interval", 3).value is None


def test_intervals_come_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        low, high = alpha(units(*OBSERVERS), "nominal", 12).interval(bootstrap_weights(12)) or (1, 0)
        assert low < 0.743 < high
        for figure in (*NUMBERS, *OF_LABELS):
            figure(PairedObservations.of([(0, 1.0, 1.0), (1, 0.0, 0.0), (2, 0.0, 1.0)], 3)).interval(
                bootstrap_weights(3)
            )


@given(
    st.lists(st.tuples(st.integers(0, 2), st.lists(st.sampled_from([-1.0, -0.0, 0.0, 1.0]), max_size=5)), max_size=6)
)
def test_equal_pairs_of_ratings_are_counted_as_one_by_one(units):
    rows = [(case, a, b) for case, ratings in units for a, b in combinations(ratings, 2)]
    expected = weighted_statistics.accuracy(PairedObservations.of(rows, 3))
    counted = weighted_statistics.equal_pairs(units, 3)
    assert (counted.value, counted.count, counted.num_clusters) == (
        expected.value,
        expected.count,
        expected.num_clusters,
    )
    weights = bootstrap_weights(3, 20)
    assert np.array_equal(counted.evaluate(weights), expected.evaluate(weights), equal_nan=True)


def test_ratings_of_a_hundred_thousand_annotators_are_counted():
    assert weighted_statistics.equal_pairs([(0, [0.0, 1.0] * 50_000)], 1).count == 100_000 * 99_999 // 2
