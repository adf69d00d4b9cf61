"""Particles: weights and resampling by hand, and what a filter makes."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import Score
from editcritic.verifiers import BestOfN, Budget
from editcritic.verifiers.selection import CandidateRequest, NoiseSpec, PartialCandidate, Preview, SelectionRun
from editcritic.verifiers.selectors.fk_steering import (
    FKSteering,
    Particle,
    effective_sample_size,
    normalize_log_weights,
    resampling_uniform,
    systematic_resample,
)

from ...reward.fakes import picture
from ..numpy_editor import Painter, graded, judge, pick, scenes, won, worth

WEIGHTS = st.lists(st.floats(0, 1), min_size=1, max_size=12).filter(lambda result: sum(result) > 1e-6)


def particles(values, potential="difference", scale=10.0, lowest=0.0, **fields):
    """At step 2, with previews of these values (None: one without a value), and weighed by them."""
    (scene,) = scenes(1)
    row = []
    for seed, value in enumerate(values):
        score = Score.abstained("blurred") if value is None else Score.of(value)
        request = CandidateRequest(f"{seed}", scene, scene, NoiseSpec(seed))
        staged = PartialCandidate(request, 2, previews=(Preview(2, picture(), score),))
        row.append(Particle(staged, **{name: numbers[seed] for name, numbers in fields.items()}))
    return row, FKSteering(reward_scale=scale, potential=potential)._weighed(row, 2, lowest)


def log_weights(row):
    return [one.log_weight for one in row]


def shares(row):
    return normalize_log_weights(log_weights(row))


def test_weights_are_gains_since_the_last_preview_or_the_best_preview_so_far():
    _, after = particles([0.5, 0.2], scale=4.0, log_potential=[4 * 0.1, 4 * 0.3])
    assert log_weights(after) == pytest.approx([4 * 0.4, 4 * -0.1])
    assert [one.log_potential for one in after] == pytest.approx([4 * 0.5, 4 * 0.2])
    _, after = particles([0.5, 0.2], "max", scale=4.0, max_reward=[0.1, 0.3])
    assert log_weights(after) == pytest.approx([4 * 0.5, 4 * 0.3])


@pytest.mark.parametrize("potential", ["difference", "max"])
def test_a_preview_without_a_value_weighs_as_the_lowest_value_would(potential):
    fields = {"log_weight": [0.0, math.log(2), 0.0], "max_reward": [0.3, 0.4, 0.5], "log_potential": [1.0, 2.0, 3.0]}
    unknown, lowest = (particles([0.9, v, 0.1], potential, lowest=-0.5, **fields)[1] for v in (None, -0.5))
    assert log_weights(unknown) == log_weights(lowest)
    assert [one.log_potential for one in unknown] == [one.log_potential for one in lowest]


def test_weights_without_a_lowest_value_and_of_any_strength():
    assert shares(particles([0.9, None, -7.0], lowest=None)[1])[1] == 0
    assert shares(particles([0.9, 0.8, -0.5], scale=1e6, lowest=-1.0)[1]).tolist() == [1, 0, 0]


@given(
    st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=2, max_size=8),
    st.sampled_from(["difference", "max"]),
    st.sampled_from([0.0, None]),
)
def test_no_particles_gain_weight_by_previews_without_a_value(drawn, potential, lowest):
    best = max(value for value, _ in drawn)
    hidden = [number for number, (value, hides) in enumerate(drawn) if hides and value < best]
    values = [value for value, _ in drawn]
    unknown = [None if number in hidden else value for number, value in enumerate(values)]
    known, less = (shares(particles(row, potential, lowest=lowest)[1])[hidden].sum() for row in (values, unknown))
    assert less <= known + 1e-12


def test_those_that_failed_or_were_left_behind_have_no_weight():
    row, _ = particles([0.5, 0.5, 0.5])
    row[0] = Particle(replace(row[0].partial, step=1, previews=(), error="no paint"))
    row[1] = Particle(replace(row[1].partial, step=1, previews=()))
    assert shares(FKSteering()._weighed(row, 2, 0.0)).tolist() == [0, 0, 1]


def test_the_effective_sample_size_by_hand():
    assert effective_sample_size(np.array([0.25] * 4)) == 4
    assert effective_sample_size(np.array([1.0, 0, 0, 0])) == 1
    assert effective_sample_size(np.array([0.5, 0.25, 0.25])) == pytest.approx(8 / 3)


@pytest.mark.parametrize(
    ("weights", "first", "counts"),
    [
        ([0.5, 0.25, 0.25], 0.0, [2, 1, 0]),  # drawn at 0, 1/3, 2/3
        ([0.5, 0.25, 0.25], 0.25, [2, 0, 1]),  # at 1/12, 5/12, 9/12, where the second ends and the third begins
        ([0.5, 0.25, 0.25], 0.9, [1, 1, 1]),  # at 0.3, 0.633, 0.967
        ([0.0, 1.0, 0.0], 0.99, [0, 3, 0]),
        ([0.25, 0.25, 0.25, 0.25], 0.7, [1, 1, 1, 1]),
        ([0.5, 0.5], 1 - 2**-53, [1, 1]),  # at 0.5 and where rounding says 1, which is nobody's
    ],
)
def test_systematic_resampling_by_hand(weights, first, counts):
    assert systematic_resample(np.array(weights), first).tolist() == counts


@given(WEIGHTS, st.floats(0, 1, exclude_max=True))
def test_everyone_is_drawn_within_one_of_what_its_weight_says(result, first):
    weights = np.array(result) / sum(result)
    counts = systematic_resample(weights, first)
    assert counts.sum() == len(weights)
    assert (np.abs(counts - len(weights) * weights) < 1 + 1e-9).all()
    assert not counts[weights == 0].any()


def test_survivors_stay_in_their_places_and_copies_take_those_of_the_dropped():
    numbers = [1.0, 2, 3, 4]
    row, _ = particles([0.1, 0.2, 0.3, 0.4], log_weight=numbers, log_potential=numbers, max_reward=[0.1, 0.2, 0.3, 0.4])
    run = SelectionRun(Painter(), graded(), seed=5)
    after = FKSteering(renoise_steps=1)._resampled(run, row, np.array([0, 1, 0, 3]), 0)
    assert [one.partial.request.id for one in after] == ["3.1.1", "1", "3.1.2", "3"]
    assert [after[place].partial is row[place].partial for place in range(4)] == [False, True, False, True]
    for one in (after[0], after[2]):
        noise = one.partial.request.noise
        assert (noise.parent, noise.preview_step, noise.restart_step) == (row[3].partial.request.noise, 2, 1)
        assert (one.partial.request.parent, one.partial.step, one.partial.previews) == ("3", 1, ())
        assert (one.log_potential, one.max_reward) == (4, 0.4)
    assert len({one.partial.request.noise.seed for one in after}) == 4
    assert {one.log_weight for one in after} == {0}


def test_the_random_number_follows_from_seed_sample_and_step():
    result = {resampling_uniform(seed, name, step) for seed in (-1, 0) for name in "ab" for step in (2, 4)}
    assert len(result) == 8
    assert all(0 <= one < 1 for one in result)
    assert resampling_uniform(0, "a", 2) in result


def test_with_all_weight_on_one_it_takes_all_the_evaluations_it_may():
    painter, expert = Painter(), judge()
    filtering = FKSteering(8, (2, 4), reward_scale=1e6, ess_threshold=1.0)
    (result,) = pick(filtering, editor=painter, reward=graded(expert))
    assert filtering.nfe_cost(8) == 8 * 8 + 2 * 7
    assert painter.evaluated == result.spent.nfe == 78
    assert result.spent.judge_calls == 3 * 8
    made = [one for one in result.candidates if one.status == "made"]
    assert len(result.candidates) == 8 + 7 + 7
    assert len(made) == 8
    assert result.winner == max(made, key=worth)
    assert len({one.noise.seed for one in result.candidates}) == 22


def test_with_hardly_any_weight_it_is_best_of_n():
    filtered, whole = pick(FKSteering(8, reward_scale=1e-9), 3), pick(BestOfN(8), 3)
    assert [won(one).id for one in filtered] == [won(one).id for one in whole]
    assert filtered.spent.nfe == whole.spent.nfe


@pytest.mark.parametrize("potential", ["difference", "max"])
def test_steering_finds_better_pictures_than_it_began_with(potential):
    result = pick(FKSteering(8, potential=potential), 30)
    means = [np.mean([worth(one) for one in each.candidates if one.status == "made"]) for each in result]
    assert np.mean(means) > 0.6  # of what is uniform without steering


def test_a_small_budget_begins_fewer_particles():
    painter = Painter()
    result = pick(FKSteering(8), 2, editor=painter, budget=Budget(nfe=100))
    assert all("5 of 8" in one.notes[0] for one in result)  # 5 * 8 + 2 * 4 = 48
    assert painter.evaluated == result.spent.nfe <= 96
    assert all(one.winner is not None for one in result)


def test_a_failed_particle_never_wins_and_its_place_is_filled_if_there_is_reason_to_resample():
    (result,) = pick(FKSteering(8, ess_threshold=1.0), editor=Painter(bad_seeds={2, 4, 6}))
    assert [one.id for one in result.candidates if one.status == "failed"] == ["2", "4", "6"]
    assert sum(one.status == "made" for one in result.candidates) == 8
    assert won(result).noise.seed not in (2, 4, 6)
    (result,) = pick(FKSteering(8, reward_scale=1e-9), editor=Painter(bad_seeds={1, 2, 3, 4, 5}))
    assert [one.status for one in result.candidates].count("made") == 3
    assert len(result.candidates) == 8


def test_differences_add_up_to_the_last_reward_whatever_came_before():
    _, first = particles([0.9, 0.1], scale=3.0)
    kept = {name: [getattr(one, name) for one in first] for name in ("log_weight", "log_potential")}
    assert log_weights(particles([0.2, 0.4], scale=3.0, **kept)[1]) == pytest.approx([3 * 0.2, 3 * 0.4])


def test_a_preview_without_a_value_is_made_good_by_the_next_one():
    _, first = particles([0.6, None], scale=2.0)
    kept = {name: [getattr(one, name) for one in first] for name in ("log_weight", "log_potential", "max_reward")}
    assert shares(particles([0.6, 0.6], scale=2.0, **kept)[1]) == pytest.approx([0.5, 0.5])
