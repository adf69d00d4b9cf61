"""The noise sweep: how metrics degrade with noise on their experts' recorded answers.

Noise is added to cached answers, so that each query reaches the experts once, for any number of kinds and levels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from editcritic.benchmarks.sceneedit.cases import Case

from .metric_runner import ExpertNoise, MetricRunner
from .metric_selection import EvaluatedMetric
from .study import ValidityStudy

KINDS = ("misses", "false_alarms", "flips", "bias")
LEVELS = (0.05, 0.1, 0.2, 0.4)


_OTHERS = (
    "edit-balanced",
    "any-edit",
    "any-edit-following",
    "complex-edit-if?mode=expected",
    "complex-edit-ip?mode=expected",
    "complex-edit-pq?mode=expected",
    "complex-edit-o?mode=expected",
    "dlebench-if?mode=plain",
    "dlebench-vc?mode=plain",
    "i2i-instruction-following",
    "i2i-editing-artifacts",
    "i2i-physical-plausibility",
    "i2i-non-edited-fidelity",
    "i2i-text-content-style",
    "imgedit?protocol=fixed",
    "viescore-o?protocol=fixed",
)
"""Beside EdiVal, baselines and guards: one metric for each response format and pipeline. Noise affects the others of a
system in the same way, and each of them takes as long again."""


def noise_sweep_metrics(metrics: Sequence[EvaluatedMetric]) -> list[EvaluatedMetric]:
    """The metrics that are evaluated again with noise."""
    systems = ("EdiVal", "baselines", "guards", "others")
    return [metric for metric in metrics if metric.system in systems or metric.spec in _OTHERS]


@dataclass(frozen=True)
class NoiseSweep:
    """statistics: spec -> (kind, level) -> main statistic; level 0 is without noise, for any kind.

    query_count, uncached_count: queries to noisy experts, and those of them that reached the experts underneath.
    """

    cases: int
    levels: Sequence[float]
    statistics: Mapping[str, Mapping[tuple[str, float], float | None]]
    query_count: int
    uncached_count: int


def run_noise_sweep(
    cases: Sequence[Case],
    metrics: Sequence[EvaluatedMetric],
    runner: MetricRunner,
    seed: int,
    *,
    levels: Sequence[float] = LEVELS,
    on_step: Callable[[], None] = lambda: None,
) -> NoiseSweep:
    """Every metric's main statistic under each kind and level of noise. `on_step` is called after each."""
    before = runner.cache_counts()
    clean = _statistics(cases, metrics, runner)
    on_step()
    statistics = {metric.spec: {(kind, 0.0): clean[metric.spec] for kind in KINDS} for metric in metrics}
    for kind in KINDS:
        for level in levels:
            for spec, statistic in _statistics(cases, metrics, runner, ExpertNoise(kind, level, seed)).items():
                statistics[spec][kind, level] = statistic
            on_step()
    after = runner.cache_counts()
    queries, cache_hits = after.queries - before.queries, after.cache_hits - before.cache_hits
    return NoiseSweep(len(cases), (0.0, *levels), statistics, queries, queries - cache_hits)


def _statistics(
    cases: Sequence[Case], metrics: Sequence[EvaluatedMetric], runner: MetricRunner, noise: ExpertNoise | None = None
) -> dict[str, float | None]:
    study = ValidityStudy.of(cases, metrics, runner.run(metrics, (case.sample for case in cases), noise=noise))
    return {metric.spec: study.main_statistic(metric) for metric in metrics}
