"""Noise spoils recorded answers: the experts underneath are not asked again."""

import pytest

from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.benchmarks.sceneedit.compositions import composition_cases
from editcritic.benchmarks.sceneedit.compounds import compound_cases
from editcritic.benchmarks.sceneedit.critics import experts
from editcritic.benchmarks.validity.desk import Desk
from editcritic.benchmarks.validity.metrics import chosen, installed
from editcritic.benchmarks.validity.oracle import Oracle
from editcritic.benchmarks.validity.sweep import KINDS, sweep, swept

BACKDROPS = [one for one in cases(60, seed=5) if one.task == "background_change" and one.mode != "pasted_source"]


EXPERTS = dict.fromkeys(("detector", "judge", "reader"), Oracle(BACKDROPS))


@pytest.fixture
def desk():
    return Desk(EXPERTS)


def test_a_judge_that_is_always_turned_round_is_always_wrong(desk):
    tried = chosen(["edival-if"], EXPERTS, BACKDROPS)
    found = sweep(BACKDROPS, tried, desk, 0, levels=(1.0,)).statistics["edival-if"]
    assert {found[kind, 0.0] for kind in KINDS} == {1.0}
    assert (found["flips", 1.0], found["misses", 1.0], found["bias", 1.0]) == (0.0, 1.0, 0.5)


def test_questions_that_were_answered_before_are_not_asked_again(desk):
    tried = chosen(["edival-if"], EXPERTS, BACKDROPS)
    first = sweep(BACKDROPS, tried, desk, 0, levels=(0.2,))
    assert first.new == len({one.sample.edited for one in BACKDROPS})
    assert first.asked == first.new * (1 + len(KINDS))
    assert sweep(BACKDROPS, tried, desk, 0, levels=(0.2,)).new == 0


def test_the_same_seed_gives_the_same_noise(desk):
    tried = chosen(["edival-if?dense=true"], EXPERTS, BACKDROPS)
    once, again = (sweep(BACKDROPS, tried, desk, 7, levels=(0.4,)).statistics for _ in range(2))
    assert once == again


def test_a_step_is_told_for_every_level_of_every_kind(desk):
    steps = []
    sweep(BACKDROPS[:2], chosen(["edival-if"], EXPERTS, BACKDROPS), desk, 0, step=lambda: steps.append(1))
    assert len(steps) == 1 + 4 * 4


def test_one_metric_of_each_form_and_pipeline_is_swept_and_all_of_edival():
    tried, _ = installed(experts(), [*cases(9), *compound_cases(1), *composition_cases(1)])
    found = swept(tried)
    assert {one.spec for one in tried if one.system == "EdiVal"} < {one.spec for one in found}
    assert {one.system for one in found} == {one.system for one in tried} - {"I2I-Bench, several sources"}
    assert 3 * len(found) < 2 * len(tried)
    assert {"complex-edit-o?mode=expected", "dlebench-vc?mode=plain", "i2i-text-content-style"} < {
        one.spec for one in found
    }
