"""Asking: in one process or in several, the rows are the same."""

from functools import cache

import pytest

from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from studies.validity.metric_runner import CacheCounts, ExpertNoise, LocalMetricRunner, ProcessMetricRunner
from studies.validity.metric_selection import select_metrics

SPECS = ("edival-if?dense=true", "edival-cc?protocol=fixed&similarity=l1")


@cache
def samples():
    return [case.sample for case in cases(30, seed=3)]


@pytest.fixture(scope="module")
def metrics():
    return select_metrics(SPECS, scene_experts(), cases(30, seed=3))


def test_several_processes_find_what_one_finds(metrics):
    runner, steps = LocalMetricRunner(scene_experts()), []
    noise = ExpertNoise("misses", 0.4, seed=1)
    with ProcessMetricRunner(2) as processes:
        rows = list(processes.run(metrics, samples(), on_sample=lambda: steps.append(1)))
        assert rows == list(runner.run(metrics, samples()))
        assert len(steps) == len(samples())
        spoilt = list(processes.run(metrics, samples(), noise=noise))
        assert spoilt == list(runner.run(metrics, samples(), noise=noise)) != rows
        counts = processes.cache_counts()
        assert list(processes.run(metrics, samples())) == rows
        assert (
            processes.cache_counts().cache_hits - counts.cache_hits
            == processes.cache_counts().queries - counts.queries
            > 0
        )


def test_rows_come_sample_by_sample_in_order(metrics):
    rows = list(LocalMetricRunner(scene_experts()).run(metrics, samples()[:3]))
    assert [(row.case, row.spec) for row in rows] == [(index, spec) for index in range(3) for spec in SPECS]


def test_what_was_asked_before_is_not_asked_again(metrics):
    runner = LocalMetricRunner(scene_experts())
    assert runner.cache_counts() == CacheCounts()
    list(runner.run(metrics, samples()[:5]))
    first = runner.cache_counts()
    list(runner.run(metrics, samples()[:5]))
    assert runner.cache_counts().queries - runner.cache_counts().cache_hits == first.queries - first.cache_hits > 0


def test_an_expert_that_serves_two_roles_is_counted_once(metrics):
    pixels = scene_experts()
    assert pixels["features"] is pixels["pixels"]
    runner = LocalMetricRunner(pixels)
    list(runner.run(metrics, samples()[:1]))
    assert runner.cache_counts().queries < 30
