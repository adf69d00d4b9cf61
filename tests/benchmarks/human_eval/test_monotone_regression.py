"""Monotone fits of points and pairs: independent of order, recover known links, and reject invalid input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.human_eval.monotone_regression import (
    MIN_JUDGEMENTS,
    fit_pairs,
    fit_points,
    preference_probability,
)

VALUES = st.one_of(st.sampled_from([0.0, 1.0, 2.0, 3.0, 7.5]), st.floats(-100, 100).map(lambda x: round(x, 2)))
POINTS = st.lists(st.tuples(VALUES, st.sampled_from([0.0, 1 / 3, 1.0])), min_size=MIN_JUDGEMENTS, max_size=60).filter(
    lambda rows: len({x for x, _ in rows}) > 1
)
PAIRS = st.lists(
    st.tuples(VALUES, VALUES, st.sampled_from([0.0, 0.5, 1.0])), min_size=MIN_JUDGEMENTS, max_size=60
).filter(lambda rows: any(a != b for a, b, _ in rows))
SOME = settings(max_examples=25, deadline=None)
NORMAL = np.random.default_rng(0).normal(size=(2, 200))


def of(rows):
    return tuple(np.array(column) for column in zip(*rows, strict=True))


def require_monotone_and_same(fit, other):
    assert (np.diff(fit.x) > 0).all()
    assert (np.diff(fit.y) >= 0).all()
    assert np.array_equal(fit.x, other.x)
    assert np.array_equal(fit.y, other.y)
    assert (fit.held_out, fit.problems) == (other.held_out, other.problems)


@SOME
@given(rows=POINTS, order=st.randoms())
def test_points_give_a_monotone_map_whatever_their_order(rows, order):
    shuffled = rows.copy()
    order.shuffle(shuffled)
    require_monotone_and_same(fit_points(*of(rows)), fit_points(*of(shuffled)))


@SOME
@given(rows=PAIRS, order=st.randoms(), turned=st.sets(st.integers(0, 59)))
def test_neither_order_nor_sides_of_pairs_matter(rows, order, turned):
    other = [(b, a, 1 - t) if place in turned else (a, b, t) for place, (a, b, t) in enumerate(rows)]
    order.shuffle(other)
    require_monotone_and_same(fit_pairs(*of(rows)), fit_pairs(*of(other)))


@SOME
@given(rows=POINTS)
def test_what_is_on_the_scale_already_stays_as_it_is(rows):
    scores, labels = of(rows)
    once = fit_points(scores, labels)
    mapped = np.interp(scores, once.x, once.y)
    if len(np.unique(mapped)) > 1:
        again = fit_points(mapped, labels)
        assert np.interp(mapped, again.x, again.y) == pytest.approx(mapped)


@SOME
@given(rows=POINTS)
def test_a_weight_counts_as_so_many_judgements(rows):
    scores, labels = of(rows)
    weights = np.arange(len(rows)) % 3 + 1
    fit = fit_points(scores, labels, weights=weights)
    each = fit_points(np.repeat(scores, weights), np.repeat(labels, weights))
    assert np.interp(scores, fit.x, fit.y) == pytest.approx(np.interp(scores, each.x, each.y))


def test_each_level_is_worth_its_mean_label_where_that_rises():
    fit = fit_points(np.repeat([1.0, 2.0, 5.0], 10), np.concatenate((np.zeros(10), [0] * 5 + [1] * 5, np.ones(10))))
    assert (fit.x.tolist(), fit.y.tolist()) == ([1.0, 2.0, 5.0], [0.0, 0.5, 1.0])


def test_the_edits_that_are_zero_have_that_mean():
    a, b = NORMAL
    fit, shifted = fit_pairs(a, b, a > b, reference_scores=[0.1, 0.2, 0.9]), fit_pairs(a, b, a > b)
    assert np.interp([0.1, 0.2, 0.9], fit.x, fit.y).mean() == pytest.approx(0)
    assert np.interp([*a, *b], shifted.x, shifted.y).mean() == pytest.approx(0)
    assert np.diff(fit.y) == pytest.approx(np.diff(shifted.y))


def test_people_who_always_agree_give_finite_utilities():
    a, b = NORMAL
    fit = fit_pairs(a, b, a > b)
    assert 3 < fit.y[-1] - fit.y[0] < 50


@pytest.mark.parametrize("rest", [[1.0] * 10 + [0.0] * 10, [0.5] * 20])
def test_two_levels_are_as_far_apart_as_people_say(rest):
    """30 of 40 prefer the higher, where a tie is half a win: log-odds ln 3, held back a little."""
    fit = fit_pairs(np.ones(40), np.zeros(40), [1.0] * 20 + rest, l2=1e-6)
    assert fit.y[-1] - fit.y[0] == pytest.approx(np.log(3), rel=1e-3)


def judges(noise, edits=400, pairs=2000):
    """A utility, two distortions of it with noise, and who wins."""
    rng = np.random.default_rng(0)
    worth = rng.normal(0, 1.5, edits)
    grade = np.round(100 * preference_probability(1.5 * (worth + rng.normal(0, noise, edits))))  # which saturate
    skewed = np.exp(0.8 * (worth + rng.normal(0, noise, edits)))
    i, j = rng.integers(0, edits, (2, pairs))
    return worth, grade, skewed, i, j, rng.random(pairs) < preference_probability(worth[i] - worth[j])


def test_distortions_of_one_utility_come_back_to_it():
    worth, grade, skewed, i, j, won = judges(noise=0.0)
    assert np.corrcoef(grade, skewed)[0, 1] < 0.7
    fits = [fit_pairs(scores[i], scores[j], won, reference_scores=scores) for scores in (grade, skewed)]
    one, other = (np.interp(scores, fit.x, fit.y) for scores, fit in zip((grade, skewed), fits, strict=True))
    wanted = worth - worth.mean()
    assert np.abs(one - other).mean() < 0.08  # of a spread of 1.5
    assert np.abs(one - wanted).mean() < 0.25
    assert np.corrcoef(one, wanted)[0, 1] > 0.98
    for fit in fits:
        assert fit.held_out["map"]["log_loss"] < fit.held_out["line"]["log_loss"] - 0.005
        assert fit.held_out["map"]["accuracy"] > 0.75
        assert not fit.problems


def test_noise_makes_no_steps():
    _, grade, _, i, j, won = judges(noise=0.3, pairs=400)
    fit, rough = (fit_pairs(grade[i], grade[j], won, smoothing=smooth) for smooth in (10.0, 0.0))
    assert (np.diff(fit.y) > 1e-3).all()  # or edits that the judge tells apart would come out equal
    assert (np.diff(rough.y) < 1e-3).any()
    assert fit.held_out["map"]["log_loss"] < rough.held_out["map"]["log_loss"]


@pytest.mark.parametrize("pairs", [60, 2000])
def test_how_smooth_it_is_held_out_judgements_decide(pairs):
    _, grade, _, i, j, won = judges(noise=0.3, pairs=pairs)
    chosen = fit_pairs(grade[i], grade[j], won)
    fixed = [fit_pairs(grade[i], grade[j], won, smoothing=smooth) for smooth in (0.3, 3.0, 30.0)]
    assert chosen.held_out["map"]["log_loss"] == min(one.held_out["map"]["log_loss"] for one in fixed)
    assert chosen.settings["smoothing"] in (0.3, 3.0, 30.0)


def test_a_score_that_people_go_against_gives_a_flat_map_that_says_so():
    a, b = NORMAL
    fit = fit_pairs(a, b, a < b)
    assert fit.y[-1] - fit.y[0] < 0.01
    assert "human labels fall as the score rises" in fit.problems[0]
    assert "not clearly better than a constant" in fit.problems[1]
    assert "is it a cost" in fit_points(a, a < 0).problems[0]


def test_a_score_that_has_nothing_to_do_with_people_says_so():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 300))
    assert any("not clearly better" in one for one in fit_pairs(a, b, rng.random(300) < 0.5).problems)
    assert not fit_pairs(a, b, rng.random(300) < preference_probability(a - b)).problems


def test_groups_are_held_out_together():
    # Each group has a score of its own, which its labels alone could tell.
    scores, labels = np.repeat(np.arange(10.0), 6), np.repeat(np.arange(10) % 2, 6).astype(float)
    apart = fit_points(scores, labels, groups=np.repeat(np.arange(10), 6).tolist())
    assert apart.held_out["folds"] == 5
    assert any("not clearly better" in one for one in apart.problems)
    few = fit_points(scores, labels, groups=["one"] * 30 + ["two"] * 30)
    assert few.held_out == {}
    assert any("is unknown" in one for one in few.problems)


RISING, ONES = np.arange(30.0), np.ones(30)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((RISING[:5], ONES[:5], ONES[:5]), "at least 20 judgements, got 5"),
        ((ONES, ONES, ONES), "every score is 1"),
        ((RISING, RISING, ONES), "nothing to fit"),
        ((RISING, ONES, np.full(30, 2.0)), "from 0 to 1, got 2 to 2"),
        ((RISING, ONES[1:], ONES), "got 30, 29 and 30"),
        ((np.full(30, np.nan), ONES, ONES), "finite"),
        ((ONES, ONES), "every score is 1"),
        ((RISING[:9], ONES[:9]), "got 9"),
        ((RISING, np.full(30, 4.0)), "from 0 to 1, got 4 to 4"),
    ],
)
def test_pairs_and_points_that_make_no_map_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        (fit_pairs if len(arguments) == 3 else fit_points)(*arguments)


@pytest.mark.parametrize("wrong", [{"l2": 0.0}, {"l2": float("nan")}, {"smoothing": -1.0}, {"knots": 1}])
def test_settings_that_make_no_map_are_refused(wrong):
    with pytest.raises(InputError, match="got"):
        fit_pairs(RISING, ONES, ONES, **wrong)
