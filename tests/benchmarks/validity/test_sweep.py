"""Noise spoils recorded answers: the experts underneath are not asked again."""

import pytest

from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.benchmarks.validity.metrics import chosen
from editcritic.benchmarks.validity.oracle import Oracle
from editcritic.benchmarks.validity.run import remembering
from editcritic.benchmarks.validity.sweep import KINDS, sweep

BACKDROPS = [one for one in cases(60, seed=5) if one.task == "background_change" and one.mode != "pasted_source"]


@pytest.fixture
def experts():
    return remembering(dict.fromkeys(("detector", "judge", "reader"), Oracle(BACKDROPS)))


def test_a_judge_that_is_always_turned_round_is_always_wrong(experts):
    tried = chosen(["edival-if"], experts, BACKDROPS)
    found = sweep(BACKDROPS, tried, experts, 0, levels=(1.0,)).statistics["edival-if"]
    assert {found[kind, 0.0] for kind in KINDS} == {1.0}
    assert (found["flips", 1.0], found["misses", 1.0], found["bias", 1.0]) == (0.0, 1.0, 0.5)


def test_questions_that_were_answered_before_are_not_asked_again(experts):
    tried = chosen(["edival-if"], experts, BACKDROPS)
    first = sweep(BACKDROPS, tried, experts, 0, levels=(0.2,))
    assert first.new == len({one.sample.edited for one in BACKDROPS})
    assert first.asked == first.new * (1 + len(KINDS))
    assert sweep(BACKDROPS, tried, experts, 0, levels=(0.2,)).new == 0


def test_the_same_seed_gives_the_same_noise(experts):
    tried = chosen(["edival-if?dense=true"], experts, BACKDROPS)
    once, again = (sweep(BACKDROPS, tried, experts, 7, levels=(0.4,)).statistics for _ in range(2))
    assert once == again


def test_a_step_is_told_for_every_level_of_every_kind(experts):
    steps = []
    sweep(BACKDROPS[:2], chosen(["edival-if"], experts, BACKDROPS), experts, 0, step=lambda: steps.append(1))
    assert len(steps) == 1 + 4 * 4
