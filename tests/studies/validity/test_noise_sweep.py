"""Noise is put on cached answers: the experts underneath are not queried again."""

import pytest

from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.benchmarks.sceneedit.compound_requests import composition_cases, compound_cases
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from studies.validity.metric_runner import LocalMetricRunner
from studies.validity.metric_selection import installed_metrics, select_metrics
from studies.validity.noise_sweep import KINDS, noise_sweep_metrics, run_noise_sweep
from studies.validity.oracle import Oracle


@pytest.fixture(scope="module")
def backdrops():
    return [one for one in cases(60, seed=5) if one.task == "background_change" and one.mode != "pasted_source"]


@pytest.fixture(scope="module")
def experts(backdrops):
    return dict.fromkeys(("detector", "judge", "reader"), Oracle(backdrops))


@pytest.fixture
def runner(experts):
    return LocalMetricRunner(experts)


def test_a_judge_that_is_always_turned_round_is_always_wrong(backdrops, experts, runner):
    metrics = select_metrics(["edival-if"], experts, backdrops)
    statistics = run_noise_sweep(backdrops, metrics, runner, 0, levels=(1.0,)).statistics["edival-if"]
    assert {statistics[kind, 0.0] for kind in KINDS} == {1.0}
    assert (statistics["flips", 1.0], statistics["misses", 1.0], statistics["bias", 1.0]) == (0.0, 1.0, 0.5)


def test_questions_that_were_answered_before_are_not_asked_again(backdrops, experts, runner):
    metrics = select_metrics(["edival-if"], experts, backdrops)
    first = run_noise_sweep(backdrops, metrics, runner, 0, levels=(0.2,))
    assert first.uncached_count == len({one.sample.edited for one in backdrops})
    assert first.query_count == first.uncached_count * (1 + len(KINDS))
    assert run_noise_sweep(backdrops, metrics, runner, 0, levels=(0.2,)).uncached_count == 0


def test_the_same_seed_gives_the_same_noise(backdrops, experts, runner):
    metrics = select_metrics(["edival-if?dense=true"], experts, backdrops)
    once, again = (run_noise_sweep(backdrops, metrics, runner, 7, levels=(0.4,)).statistics for _ in range(2))
    assert once == again


def test_a_step_is_told_for_every_level_of_every_kind(backdrops, experts, runner):
    steps = []
    run_noise_sweep(
        backdrops[:2], select_metrics(["edival-if"], experts, backdrops), runner, 0, on_step=lambda: steps.append(1)
    )
    assert len(steps) == 1 + 4 * 4


def test_one_metric_of_each_form_and_pipeline_is_swept_and_all_of_edival():
    metrics, _ = installed_metrics(scene_experts(), [*cases(9), *compound_cases(1), *composition_cases(1)])
    swept = noise_sweep_metrics(metrics)
    assert {one.spec for one in metrics if one.system == "EdiVal"} < {one.spec for one in swept}
    assert {one.system for one in swept} == {one.system for one in metrics} - {"I2I-Bench, several sources"}
    assert 3 * len(swept) < 2 * len(metrics)
    assert {"complex-edit-o?mode=expected", "dlebench-vc?mode=plain", "i2i-text-content-style"} < {
        one.spec for one in swept
    }
