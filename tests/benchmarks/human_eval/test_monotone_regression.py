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

LEVELS = st.sampled_from([0.0, 1.0, 2.0, 3.0, 7.5])
VALUES = st.one_of(LEVELS, st.floats(-100, 100).map(lambda x: round(x, 2)))
POINTS = st.lists(st.tuples(VALUES, st.sampled_from([0.0, 1 / 3, 1.0])), min_size=MIN_JUDGEMENTS, max_size=60).filter(
    lambda rows: len({x for x, _ in rows}) > 1
)
PAIRS = st.lists(
    st.tuples(VALUES, VALUES, st.sampled_from([0.0, 0.5, 1.0])), min_size=MIN_JUDGEMENTS, max_size=60
).filter(lambda rows: any(a != b for a, b, _ in rows))
SOME = settings(max_examples=25, deadline=None)


def same(first, second):
    return (
        np.array_equal(first.x, second.x)
        and np.array_equal(first.y, second.y)
        and (first.held_out, first.problems) == (second.held_out, second.problems)
    )


def of(rows):
    return tuple(np.array(column) for column in zip(*rows, strict=True))


# -- points -----------------------------------------------------------------------------------------------------------


@SOME
@given(rows=POINTS, order=st.randoms())
def test_points_give_a_monotone_map_whatever_their_order(rows, order):
    fit = fit_points(*of(rows))
    assert (np.diff(fit.x) > 0).all()
    assert (np.diff(fit.y) >= 0).all()
    order.shuffle(rows)
    assert same(fit_points(*of(rows)), fit)


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
    scores = np.repeat([1.0, 2.0, 5.0], 10)
    labels = np.concatenate((np.zeros(10), [0] * 5 + [1] * 5, np.ones(10)))
    fit = fit_points(scores, labels)
    assert (fit.x.tolist(), fit.y.tolist()) == ([1.0, 2.0, 5.0], [0.0, 0.5, 1.0])


# -- pairs ------------------------------------------------------------------------------------------------------------


@SOME
@given(rows=PAIRS, order=st.randoms(), turned=st.sets(st.integers(0, 59)))
def test_neither_order_nor_sides_of_pairs_matter(rows, order, turned):
    fit = fit_pairs(*of(rows))
    assert (np.diff(fit.x) > 0).all()
    assert (np.diff(fit.y) >= 0).all()
    other = [(b, a, 1 - t) if place in turned else (a, b, t) for place, (a, b, t) in enumerate(rows)]
    order.shuffle(other)
    assert same(fit_pairs(*of(other)), fit)


def test_the_edits_that_are_zero_have_that_mean():
    a, b = np.random.default_rng(0).normal(size=(2, 200))
    fit = fit_pairs(a, b, a > b, reference_scores=[0.1, 0.2, 0.9])
    assert np.interp([0.1, 0.2, 0.9], fit.x, fit.y).mean() == pytest.approx(0)
    shifted = fit_pairs(a, b, a > b)
    assert np.interp([*a, *b], shifted.x, shifted.y).mean() == pytest.approx(0)
    assert np.diff(fit.y) == pytest.approx(np.diff(shifted.y))


def test_people_who_always_agree_give_finite_utilities():
    a, b = np.random.default_rng(0).normal(size=(2, 500))
    fit = fit_pairs(a, b, a > b)
    assert 3 < fit.y[-1] - fit.y[0] < 50


def test_two_levels_are_as_far_apart_as_people_say():
    # 30 of 40 prefer the higher: log-odds ln 3, held back a little.
    fit = fit_pairs(np.ones(40), np.zeros(40), [1.0] * 30 + [0.0] * 10, l2=1e-6)
    assert fit.y[-1] - fit.y[0] == pytest.approx(np.log(3), rel=1e-3)
    tied = fit_pairs(np.ones(40), np.zeros(40), [1.0] * 20 + [0.5] * 20, l2=1e-6)
    assert tied.y[-1] - tied.y[0] == pytest.approx(np.log(3), rel=1e-3)  # a tie is half a win


def judges(noise, edits=400, pairs=2000, seed=0):
    """A utility, two distortions of it with noise, and who wins."""
    rng = np.random.default_rng(seed)
    worth = rng.normal(0, 1.5, edits)
    grade = np.round(
        100 * preference_probability(1.5 * (worth + rng.normal(0, noise, edits)))
    )  # whole numbers that saturate
    skewed = np.exp(0.8 * (worth + rng.normal(0, noise, edits)))
    i, j = rng.integers(0, edits, (2, pairs))
    return worth, grade, skewed, i, j, rng.random(pairs) < preference_probability(worth[i] - worth[j])


def on_one_scale(scores, zero, i, j, won):
    fit = fit_pairs(scores[i], scores[j], won, reference_scores=scores[zero])
    return np.interp(scores, fit.x, fit.y), fit


def test_distortions_of_one_utility_come_back_to_it():
    worth, grade, skewed, i, j, won = judges(noise=0.0)
    one, first = on_one_scale(grade, slice(None), i, j, won)
    other, second = on_one_scale(skewed, slice(None), i, j, won)
    wanted = worth - worth.mean()
    assert np.corrcoef(grade, skewed)[0, 1] < 0.7
    assert np.abs(one - other).mean() < 0.08  # of a spread of 1.5
    assert np.abs(one - wanted).mean() < 0.25
    assert np.corrcoef(one, wanted)[0, 1] > 0.98
    for fit in (first, second):
        assert fit.held_out["map"]["log_loss"] < fit.held_out["line"]["log_loss"] - 0.005
        assert fit.held_out["map"]["accuracy"] > 0.75
        assert not fit.problems


def test_judges_with_noise_differ_by_their_noise_and_no_more():
    noise = 0.3
    _, grade, skewed, i, j, won = judges(noise)
    one, _ = on_one_scale(grade, slice(None), i, j, won)
    other, _ = on_one_scale(skewed, slice(None), i, j, won)
    apart = np.sqrt(np.mean((one - other) ** 2))
    assert apart < 1.15 * np.sqrt(2) * noise
    assert np.corrcoef(one, other)[0, 1] > 0.93 > 0.7 > np.corrcoef(grade, skewed)[0, 1]


# -- what cannot be, or is of little use -------------------------------------------------------------------------------


def test_a_score_that_people_go_against_gives_a_flat_map_that_says_so():
    a, b = np.random.default_rng(0).normal(size=(2, 200))
    fit = fit_pairs(a, b, a < b)
    assert fit.y[-1] - fit.y[0] < 0.01
    assert "human labels fall as the score rises" in fit.problems[0]
    assert "not clearly better than a constant" in fit.problems[1]
    points = fit_points(a, a < 0)
    assert "is it a cost" in points.problems[0]


def test_a_score_that_has_nothing_to_do_with_people_says_so():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 300))
    assert any("not clearly better" in one for one in fit_pairs(a, b, rng.random(300) < 0.5).problems)
    assert not fit_pairs(a, b, rng.random(300) < preference_probability(a - b)).problems


def test_groups_are_held_out_together():
    # Each group has a score of its own, which its labels alone could tell.
    scores = np.repeat(np.arange(10.0), 6)
    labels = np.repeat(np.arange(10) % 2, 6).astype(float)
    apart = fit_points(scores, labels, groups=np.repeat(np.arange(10), 6).tolist())
    assert apart.held_out["folds"] == 5
    assert any("not clearly better" in one for one in apart.problems)
    few = fit_points(scores, labels, groups=["one"] * 30 + ["two"] * 30)
    assert few.held_out == {}
    assert any("is unknown" in one for one in few.problems)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.arange(5.0), np.ones(5), np.ones(5)), "at least 20 judgements, got 5"),
        ((np.ones(30), np.ones(30), np.ones(30)), "every score is 1"),
        ((np.arange(30.0), np.arange(30.0), np.ones(30)), "nothing to fit"),
        ((np.arange(30.0), np.ones(30), np.full(30, 2.0)), "from 0 to 1, got 2 to 2"),
        ((np.arange(30.0), np.ones(29), np.ones(30)), "got 30, 29 and 30"),
        ((np.full(30, np.nan), np.ones(30), np.ones(30)), "finite"),
    ],
)
def test_pairs_that_make_no_map_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        fit_pairs(*arguments)


def test_points_that_make_no_map_are_refused():
    for scores, labels, message in [
        (np.ones(30), np.ones(30), "every score is 1"),
        (np.arange(9.0), np.ones(9), "got 9"),
        (np.arange(30.0), np.full(30, 4.0), "from 0 to 1, got 4 to 4"),
    ]:
        with pytest.raises(InputError, match=message):
            fit_points(scores, labels)


@pytest.mark.parametrize("wrong", [{"l2": 0.0}, {"l2": float("nan")}, {"smoothing": -1.0}, {"knots": 1}])
def test_settings_that_make_no_map_are_refused(wrong):
    with pytest.raises(InputError, match="got"):
        fit_pairs(np.arange(30.0), np.ones(30), np.ones(30), **wrong)


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
    losses = [one.held_out["map"]["log_loss"] for one in fixed]
    assert chosen.held_out["map"]["log_loss"] == min(losses)
    assert chosen.settings["smoothing"] in (0.3, 3.0, 30.0)
