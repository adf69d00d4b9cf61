"""Runs metrics on samples with SceneEdit's experts: in this process, or in several, each with experts of its own.

Experts for small images are bound by Python code, and the threads of one process share one core for it.
"""

from __future__ import annotations

import gc
import multiprocessing
import zlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

from editcritic.benchmarks.sceneedit.experts.expert_noise import CachingExpert, NoisyExpert, wrap_experts
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.reward import EditSample, build

from .metric_selection import EvaluatedMetric, TruthColumn
from .study import MetricValue, score_all


@dataclass(frozen=True, slots=True)
class ExpertNoise:
    """Noise on experts' answers (`NoisyExpert`) of one kind: `misses`, `false_alarms`, `flips` or `bias`, at a level in
    [0, 1].
    """

    kind: str
    level: float
    seed: int


class MetricRunner:
    """Scores samples with metrics, with or without noise on the answers, and caches every answer.

    With several processes a sample always goes to the same one, and metrics are sent as specs. Close it.
    """

    def __init__(self, processes: int = 1) -> None:
        context = multiprocessing.get_context("spawn")
        count = processes if processes > 1 else 0
        self._pools = [ProcessPoolExecutor(1, mp_context=context, initializer=_start) for _ in range(count)]
        self._experts = {} if count else wrap_experts(scene_experts(), CachingExpert)

    def run(
        self, metrics: Sequence[EvaluatedMetric], samples: Iterable[EditSample], noise: ExpertNoise | None = None
    ) -> list[MetricValue]:
        """A row for each sample and metric, in order."""
        numbered = list(enumerate(samples))
        if not self._pools:
            return _scored(metrics, [sample for _, sample in numbered], self._experts, noise)
        shares: list[list[tuple[int, EditSample]]] = [[] for _ in self._pools]
        for index, sample in numbered:
            shares[zlib.crc32(sample.id.encode()) % len(shares)].append((index, sample))
        specs = [(metric.spec, metric.truth_column) for metric in metrics]
        running = [
            pool.submit(_run_metrics, specs, [sample for _, sample in share], noise)
            for pool, share in zip(self._pools, shares, strict=True)
        ]
        rows = [
            replace(row, case=share[row.case][0])
            for share, future in zip(shares, running, strict=True)
            for row in future.result()
        ]
        return sorted(rows, key=lambda row: row.case)

    def cache_counts(self) -> tuple[int, int]:
        """Queries to experts since the start, and those of them that were answered from the cache."""
        each = [pool.submit(_cache_counts).result() for pool in self._pools] or [_counts(self._experts)]
        return sum(queries for queries, _ in each), sum(hits for _, hits in each)

    def close(self) -> None:
        """Stop the processes and cancel pending work."""
        for pool in self._pools:
            pool.shutdown(wait=True, cancel_futures=True)


def _scored(
    metrics: Sequence[EvaluatedMetric],
    samples: Sequence[EditSample],
    experts: Mapping[str, CachingExpert],
    noise: ExpertNoise | None,
) -> list[MetricValue]:
    if noise is None:
        return list(score_all(metrics, samples, experts))
    strength = {noise.kind: noise.level}
    noisy = wrap_experts(experts, lambda expert: NoisyExpert(expert, **strength, seed=noise.seed))
    return list(score_all(metrics, samples, noisy))


def _counts(experts: Mapping[str, CachingExpert]) -> tuple[int, int]:
    unique = set(experts.values())
    return sum(expert.query_count for expert in unique), sum(expert.hit_count for expert in unique)


# -- in the processes -------------------------------------------------------------------------------------------------

_experts: dict[str, CachingExpert] = {}


def _start() -> None:
    gc.set_threshold(50_000, 20, 100)  # the caches are no garbage: scanning them takes a tenth of the time
    _experts.update(wrap_experts(scene_experts(), CachingExpert))


def _run_metrics(
    specs: Sequence[tuple[str, TruthColumn]], samples: Sequence[EditSample], noise: ExpertNoise | None
) -> list[MetricValue]:
    return _scored([EvaluatedMetric(spec, build(spec), truth) for spec, truth in specs], samples, _experts, noise)


def _cache_counts() -> tuple[int, int]:
    return _counts(_experts)
