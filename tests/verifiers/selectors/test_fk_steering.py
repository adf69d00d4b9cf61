"""Particles: weights and resampling by hand, and what a filter makes."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import Score
from editcritic.verifiers import BestOf, Budget, Journal, Look, Noise, Run, Staged, Want, select
from editcritic.verifiers.particles import Particle, Particles, effective, normalised, offset, systematic

from ..reward.fakes import picture
from .editors import Painter, Plain, graded, judge, scenes
from .test_halving import winner, worth

WEIGHTS = st.lists(st.floats(0, 1), min_size=1, max_size=12).filter(lambda found: sum(found) > 1e-6)


def particles(values, **known):
    """At step 2, with previews of these values; None: a preview without a value."""
    (scene,) = scenes(1)
    found = []
    for seed, value in enumerate(values):
        score = Score.abstained("blurred") if value is None else Score.of(value)
        staged = Staged(Want(f"{seed}", scene, scene, Noise(seed)), 2, looks=(Look(2, picture(), score),))
        found.append(Particle(staged, **{name: numbers[seed] for name, numbers in known.items()}))
    return found


# -- weights ----------------------------------------------------------------------------------------------------------


def test_the_weight_of_a_difference_is_the_gain_since_the_last_preview():
    row = particles([0.5, 0.2], accounted=[4 * 0.1, 4 * 0.3])
    after = Particles(strength=4.0)._weighed(row, 2)
    assert [one.log_weight for one in after] == pytest.approx([4 * 0.4, 4 * -0.1])
    assert [one.accounted for one in after] == pytest.approx([4 * 0.5, 4 * 0.2])


def test_the_weight_of_a_maximum_is_that_of_the_best_preview_so_far():
    row = particles([0.5, 0.2], peak=[0.1, 0.3])
    after = Particles(strength=4.0, potential="max")._weighed(row, 2)
    assert [one.log_weight for one in after] == pytest.approx([4 * 0.5, 4 * 0.3])


def test_differences_add_up_to_the_last_reward_whatever_came_before():
    filtering = Particles(strength=3.0)
    row = particles([0.9, 0.1])
    for values in ([0.9, 0.1], [0.2, 0.4]):
        looked = particles(values)
        row = filtering._weighed(
            [Particle(new.staged, one.log_weight, one.accounted) for new, one in zip(looked, row, strict=True)], 2
        )
    assert [one.log_weight for one in row] == pytest.approx([3 * 0.2, 3 * 0.4])


@pytest.mark.parametrize("potential", ["difference", "max"])
def test_a_particle_without_a_value_keeps_its_share_of_the_weight(potential):
    row = particles([0.9, None, 0.1], log_weight=[0.0, math.log(2), 0.0])
    before = normalised([one.log_weight for one in row])
    after = normalised([one.log_weight for one in Particles(potential=potential)._weighed(row, 2)])
    assert before[1] == pytest.approx(0.5)
    assert after[1] == pytest.approx(0.5)
    assert after[0] / after[2] == pytest.approx(math.exp(10 * 0.8))


def test_a_preview_without_a_value_is_made_good_by_the_next_one():
    filtering = Particles(strength=2.0)
    first = filtering._weighed(particles([0.6, None]), 2)
    later = [replace(one, staged=new.staged) for one, new in zip(first, particles([0.6, 0.6]), strict=True)]
    second = normalised([one.log_weight for one in filtering._weighed(later, 2)])
    assert second == pytest.approx([0.5, 0.5])


def test_where_nothing_has_a_value_nothing_changes():
    after = Particles()._weighed(particles([None, None]), 2)
    assert [one.log_weight for one in after] == [0.0, 0.0]


def test_those_that_failed_or_were_left_behind_have_no_weight():
    row = particles([0.5, 0.5, 0.5])
    (scene,) = scenes(1)
    row[0] = Particle(Staged(Want("0", scene, scene, Noise(0)), 1, problem="no paint"))
    row[1] = Particle(Staged(Want("1", scene, scene, Noise(1)), 1))
    assert normalised([one.log_weight for one in Particles()._weighed(row, 2)]).tolist() == [0, 0, 1]


def test_no_strength_is_too_much_for_the_weights():
    after = Particles(strength=1e6)._weighed(particles([0.9, 0.8, -0.5]), 2)
    assert normalised([one.log_weight for one in after]).tolist() == [1, 0, 0]


def test_the_effective_sample_size_by_hand():
    assert effective(np.array([0.25] * 4)) == 4
    assert effective(np.array([1.0, 0, 0, 0])) == 1
    assert effective(np.array([0.5, 0.25, 0.25])) == pytest.approx(8 / 3)


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
    assert systematic(np.array(weights), first).tolist() == counts


@given(WEIGHTS, st.floats(0, 1, exclude_max=True))
def test_everyone_is_drawn_within_one_of_what_its_weight_says(found, first):
    weights = np.array(found) / sum(found)
    counts = systematic(weights, first)
    assert counts.sum() == len(weights)
    assert (np.abs(counts - len(weights) * weights) < 1 + 1e-9).all()
    assert not counts[weights == 0].any()


def test_resampling_is_unbiased():
    weights = np.array([0.07, 0.53, 0.0, 0.4])
    counts = [systematic(weights, first) for first in (np.arange(1000) + 0.5) / 1000]
    assert np.mean(counts, 0) == pytest.approx(4 * weights, abs=2e-3)


def test_survivors_stay_in_their_places_and_copies_take_those_of_the_dropped():
    row = particles(
        [0.1, 0.2, 0.3, 0.4], log_weight=[1.0, 2, 3, 4], accounted=[1.0, 2, 3, 4], peak=[0.1, 0.2, 0.3, 0.4]
    )
    run = Run(Painter(), graded(), seed=5)
    after = Particles(back=1)._resampled(run, row, np.array([0, 1, 0, 3]), 0)
    assert [one.staged.want.id for one in after] == ["3.1.1", "1", "3.1.2", "3"]
    assert after[1].staged is row[1].staged
    assert after[3].staged is row[3].staged
    for place in (0, 2):
        noise = after[place].staged.want.noise
        assert (noise.parent, noise.seen, noise.back) == (row[3].staged.want.noise, 2, 1)
        assert after[place].staged.want.parent == "3"
        assert (after[place].staged.step, after[place].staged.looks) == (1, ())
        assert (after[place].accounted, after[place].peak) == (4, 0.4)
    assert len({one.staged.want.noise.seed for one in after}) == 4
    assert {one.log_weight for one in after} == {0}


def test_the_random_number_follows_from_seed_sample_and_step():
    found = {offset(seed, name, step) for seed in (-1, 0) for name in "ab" for step in (2, 4)}
    assert len(found) == 8
    assert all(0 <= one < 1 for one in found)
    assert offset(0, "a", 2) in found


# -- runs -------------------------------------------------------------------------------------------------------------


def test_with_all_weight_on_one_it_takes_all_the_evaluations_it_may():
    painter, expert = Painter(), judge()
    filtering = Particles(8, (2, 4), strength=1e6, resample_below=1.0)
    (found,) = select(filtering, scenes(1), editor=painter, reward=graded(expert))
    assert filtering.cost(8) == 8 * 8 + 2 * 7
    assert painter.evaluated == found.spent.evaluations == 78
    assert found.spent.judge_calls == 3 * 8
    made = [one for one in found.candidates if one.fate == "made"]
    assert len(found.candidates) == 8 + 7 + 7
    assert len(made) == 8
    assert found.winner == max(made, key=worth)
    assert len({one.noise.seed for one in found.candidates}) == 22


def test_with_hardly_any_weight_it_is_best_of_n():
    filtered = select(Particles(8, strength=1e-9), scenes(3), editor=Painter(), reward=graded())
    whole = select(BestOf(8), scenes(3), editor=Painter(), reward=graded())
    assert [winner(one).id for one in filtered] == [winner(one).id for one in whole]
    assert filtered.spent.evaluations == whole.spent.evaluations


@pytest.mark.parametrize("potential", ["difference", "max"])
def test_steering_finds_better_pictures_than_it_began_with(potential):
    found = select(Particles(8, potential=potential), scenes(30), editor=Painter(), reward=graded())
    means = [np.mean([worth(one) for one in each.candidates if one.fate == "made"]) for each in found]
    assert np.mean(means) > 0.6  # of what is uniform without steering


def test_a_small_budget_begins_fewer_particles():
    painter = Painter()
    found = select(Particles(8), scenes(2), editor=painter, reward=graded(), budget=Budget(evaluations=100))
    assert all("5 of 8" in one.notes[0] for one in found)  # 5 * 8 + 2 * 4 = 48
    assert painter.evaluated == found.spent.evaluations <= 96
    assert all(one.winner is not None for one in found)


def test_a_failed_particle_never_wins_and_its_place_is_filled():
    painter = Painter(bad_seeds={2, 4, 6})
    (found,) = select(Particles(8, resample_below=1.0), scenes(1), editor=painter, reward=graded())
    assert [one.id for one in found.candidates if one.fate == "failed"] == ["2", "4", "6"]
    assert sum(one.fate == "made" for one in found.candidates) == 8
    assert winner(found).noise.seed not in (2, 4, 6)


def test_those_that_failed_are_no_reason_to_resample():
    painter = Painter(bad_seeds={1, 2, 3, 4, 5})
    (found,) = select(Particles(8, strength=1e-9), scenes(1), editor=painter, reward=graded())
    assert [one.fate for one in found.candidates].count("made") == 3
    assert len(found.candidates) == 8


def test_running_again_makes_and_asks_nothing():
    painter, expert, journal = Painter(), judge(), Journal()
    first = select(Particles(), scenes(2), editor=painter, reward=graded(expert), journal=journal)
    calls, seen = len(painter.calls), expert.seen.total()
    again = select(Particles(), scenes(2), editor=painter, reward=graded(expert), journal=journal)
    assert again.selections == first.selections
    assert (len(painter.calls), expert.seen.total()) == (calls, seen)


@pytest.mark.parametrize(
    "given",
    [
        {"n": 0},
        {"checkpoints": ()},
        {"checkpoints": (2, 2)},
        {"back": 2},
        {"strength": 0},
        {"strength": math.inf},
        {"potential": "sum"},
        {"resample_below": 1.5},
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(given):
    with pytest.raises(ValueError, match="got"):
        Particles(**given)


def test_an_editor_that_cannot_stop_is_refused():
    with pytest.raises(TypeError, match="cannot stop"):
        select(Particles(), scenes(1), editor=Plain(Painter()), reward=graded())
