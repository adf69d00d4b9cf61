"""Particles: weights and resampling by hand, and what a filter makes."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import Score
from editcritic.verifiers import BestOfN, Budget, Journal, select
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
from ..numpy_editor import Painter, Plain, graded, judge, scenes
from .test_halving import winner, worth

WEIGHTS = st.lists(st.floats(0, 1), min_size=1, max_size=12).filter(lambda result: sum(result) > 1e-6)


def particles(values, **fields):
    """At step 2, with previews of these values; None: a preview without a value."""
    (scene,) = scenes(1)
    result = []
    for seed, value in enumerate(values):
        score = Score.abstained("blurred") if value is None else Score.of(value)
        staged = PartialCandidate(
            CandidateRequest(f"{seed}", scene, scene, NoiseSpec(seed)), 2, previews=(Preview(2, picture(), score),)
        )
        result.append(Particle(staged, **{name: numbers[seed] for name, numbers in fields.items()}))
    return result


# -- weights ----------------------------------------------------------------------------------------------------------


def test_the_weight_of_a_difference_is_the_gain_since_the_last_preview():
    row = particles([0.5, 0.2], log_potential=[4 * 0.1, 4 * 0.3])
    after = FKSteering(reward_scale=4.0)._weighed(row, 2, 0.0)
    assert [one.log_weight for one in after] == pytest.approx([4 * 0.4, 4 * -0.1])
    assert [one.log_potential for one in after] == pytest.approx([4 * 0.5, 4 * 0.2])


def test_the_weight_of_a_maximum_is_that_of_the_best_preview_so_far():
    row = particles([0.5, 0.2], max_reward=[0.1, 0.3])
    after = FKSteering(reward_scale=4.0, potential="max")._weighed(row, 2, 0.0)
    assert [one.log_weight for one in after] == pytest.approx([4 * 0.5, 4 * 0.3])


def test_differences_add_up_to_the_last_reward_whatever_came_before():
    filtering = FKSteering(reward_scale=3.0)
    row = particles([0.9, 0.1])
    for values in ([0.9, 0.1], [0.2, 0.4]):
        looked = particles(values)
        row = filtering._weighed(
            [Particle(new.partial, one.log_weight, one.log_potential) for new, one in zip(looked, row, strict=True)],
            2,
            0.0,
        )
    assert [one.log_weight for one in row] == pytest.approx([3 * 0.2, 3 * 0.4])


@pytest.mark.parametrize("potential", ["difference", "max"])
def test_a_preview_without_a_value_weighs_as_the_lowest_value_would(potential):
    filtering = FKSteering(potential=potential)
    fields = {"log_weight": [0.0, math.log(2), 0.0], "max_reward": [0.3, 0.4, 0.5], "log_potential": [1.0, 2.0, 3.0]}
    unknown, lowest = (filtering._weighed(particles([0.9, v, 0.1], **fields), 2, -0.5) for v in (None, -0.5))
    assert [one.log_weight for one in unknown] == [one.log_weight for one in lowest]
    assert [one.log_potential for one in unknown] == [one.log_potential for one in lowest]


def test_a_preview_without_a_value_has_no_weight_where_nothing_is_the_lowest():
    after = FKSteering()._weighed(particles([0.9, None, -7.0]), 2, None)
    assert normalize_log_weights([one.log_weight for one in after])[1] == 0


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
    filtering = FKSteering(potential=potential)
    shares = [
        normalize_log_weights([one.log_weight for one in filtering._weighed(particles(row), 2, lowest)])[hidden].sum()
        for row in (values, unknown)
    ]
    assert shares[1] <= shares[0] + 1e-12


def test_a_preview_without_a_value_is_made_good_by_the_next_one():
    filtering = FKSteering(reward_scale=2.0)
    first = filtering._weighed(particles([0.6, None]), 2, 0.0)
    later = [replace(one, partial=new.partial) for one, new in zip(first, particles([0.6, 0.6]), strict=True)]
    second = normalize_log_weights([one.log_weight for one in filtering._weighed(later, 2, 0.0)])
    assert second == pytest.approx([0.5, 0.5])


def test_where_nothing_has_a_value_nothing_changes():
    after = FKSteering()._weighed(particles([None, None]), 2, 0.0)
    assert [one.log_weight for one in after] == [0.0, 0.0]


def test_those_that_failed_or_were_left_behind_have_no_weight():
    row = particles([0.5, 0.5, 0.5])
    (scene,) = scenes(1)
    row[0] = Particle(PartialCandidate(CandidateRequest("0", scene, scene, NoiseSpec(0)), 1, error="no paint"))
    row[1] = Particle(PartialCandidate(CandidateRequest("1", scene, scene, NoiseSpec(1)), 1))
    assert normalize_log_weights([one.log_weight for one in FKSteering()._weighed(row, 2, 0.0)]).tolist() == [0, 0, 1]


def test_no_strength_is_too_much_for_the_weights():
    after = FKSteering(reward_scale=1e6)._weighed(particles([0.9, 0.8, -0.5]), 2, -1.0)
    assert normalize_log_weights([one.log_weight for one in after]).tolist() == [1, 0, 0]


def test_the_effective_sample_size_by_hand():
    assert effective_sample_size(np.array([0.25] * 4)) == 4
    assert effective_sample_size(np.array([1.0, 0, 0, 0])) == 1
    assert effective_sample_size(np.array([0.5, 0.25, 0.25])) == pytest.approx(8 / 3)


# -- resampling -------------------------------------------------------------------------------------------------------


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


def test_resampling_is_unbiased():
    weights = np.array([0.07, 0.53, 0.0, 0.4])
    counts = [systematic_resample(weights, first) for first in (np.arange(1000) + 0.5) / 1000]
    assert np.mean(counts, 0) == pytest.approx(4 * weights, abs=2e-3)


def test_survivors_stay_in_their_places_and_copies_take_those_of_the_dropped():
    row = particles(
        [0.1, 0.2, 0.3, 0.4], log_weight=[1.0, 2, 3, 4], log_potential=[1.0, 2, 3, 4], max_reward=[0.1, 0.2, 0.3, 0.4]
    )
    run = SelectionRun(Painter(), graded(), seed=5)
    after = FKSteering(renoise_steps=1)._resampled(run, row, np.array([0, 1, 0, 3]), 0)
    assert [one.partial.request.id for one in after] == ["3.1.1", "1", "3.1.2", "3"]
    assert after[1].partial is row[1].partial
    assert after[3].partial is row[3].partial
    for place in (0, 2):
        noise = after[place].partial.request.noise
        assert (noise.parent, noise.preview_step, noise.restart_step) == (row[3].partial.request.noise, 2, 1)
        assert after[place].partial.request.parent == "3"
        assert (after[place].partial.step, after[place].partial.previews) == (1, ())
        assert (after[place].log_potential, after[place].max_reward) == (4, 0.4)
    assert len({one.partial.request.noise.seed for one in after}) == 4
    assert {one.log_weight for one in after} == {0}


def test_the_random_number_follows_from_seed_sample_and_step():
    result = {resampling_uniform(seed, name, step) for seed in (-1, 0) for name in "ab" for step in (2, 4)}
    assert len(result) == 8
    assert all(0 <= one < 1 for one in result)
    assert resampling_uniform(0, "a", 2) in result


# -- runs -------------------------------------------------------------------------------------------------------------


def test_with_all_weight_on_one_it_takes_all_the_evaluations_it_may():
    painter, expert = Painter(), judge()
    filtering = FKSteering(8, (2, 4), reward_scale=1e6, ess_threshold=1.0)
    (result,) = select(filtering, scenes(1), editor=painter, reward=graded(expert))
    assert filtering.nfe_cost(8) == 8 * 8 + 2 * 7
    assert painter.evaluated == result.spent.nfe == 78
    assert result.spent.judge_calls == 3 * 8
    made = [one for one in result.candidates if one.status == "made"]
    assert len(result.candidates) == 8 + 7 + 7
    assert len(made) == 8
    assert result.winner == max(made, key=worth)
    assert len({one.noise.seed for one in result.candidates}) == 22


def test_with_hardly_any_weight_it_is_best_of_n():
    filtered = select(FKSteering(8, reward_scale=1e-9), scenes(3), editor=Painter(), reward=graded())
    whole = select(BestOfN(8), scenes(3), editor=Painter(), reward=graded())
    assert [winner(one).id for one in filtered] == [winner(one).id for one in whole]
    assert filtered.spent.nfe == whole.spent.nfe


@pytest.mark.parametrize("potential", ["difference", "max"])
def test_steering_finds_better_pictures_than_it_began_with(potential):
    result = select(FKSteering(8, potential=potential), scenes(30), editor=Painter(), reward=graded())
    means = [np.mean([worth(one) for one in each.candidates if one.status == "made"]) for each in result]
    assert np.mean(means) > 0.6  # of what is uniform without steering


def test_a_small_budget_begins_fewer_particles():
    painter = Painter()
    result = select(FKSteering(8), scenes(2), editor=painter, reward=graded(), budget=Budget(nfe=100))
    assert all("5 of 8" in one.notes[0] for one in result)  # 5 * 8 + 2 * 4 = 48
    assert painter.evaluated == result.spent.nfe <= 96
    assert all(one.winner is not None for one in result)


def test_a_failed_particle_never_wins_and_its_place_is_filled():
    painter = Painter(bad_seeds={2, 4, 6})
    (result,) = select(FKSteering(8, ess_threshold=1.0), scenes(1), editor=painter, reward=graded())
    assert [one.id for one in result.candidates if one.status == "failed"] == ["2", "4", "6"]
    assert sum(one.status == "made" for one in result.candidates) == 8
    assert winner(result).noise.seed not in (2, 4, 6)


def test_those_that_failed_are_no_reason_to_resample():
    painter = Painter(bad_seeds={1, 2, 3, 4, 5})
    (result,) = select(FKSteering(8, reward_scale=1e-9), scenes(1), editor=painter, reward=graded())
    assert [one.status for one in result.candidates].count("made") == 3
    assert len(result.candidates) == 8


def test_running_again_makes_and_asks_nothing():
    painter, expert, journal = Painter(), judge(), Journal()
    first = select(FKSteering(), scenes(2), editor=painter, reward=graded(expert), journal=journal)
    calls, seen = len(painter.calls), expert.seen.total()
    again = select(FKSteering(), scenes(2), editor=painter, reward=graded(expert), journal=journal)
    assert again.selections == first.selections
    assert (len(painter.calls), expert.seen.total()) == (calls, seen)


@pytest.mark.parametrize(
    "options",
    [
        {"n": 0},
        {"checkpoints": ()},
        {"checkpoints": (2, 2)},
        {"renoise_steps": 2},
        {"reward_scale": 0},
        {"reward_scale": math.inf},
        {"potential": "sum"},
        {"ess_threshold": 1.5},
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(options):
    with pytest.raises(ValueError, match="got"):
        FKSteering(**options)


def test_an_editor_that_cannot_stop_is_refused():
    with pytest.raises(TypeError, match="not a StepwiseEditor"):
        select(FKSteering(), scenes(1), editor=Plain(Painter()), reward=graded())
