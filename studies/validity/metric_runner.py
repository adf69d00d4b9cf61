"""Runs metrics on samples: in this process, or in several, each with experts of its own.

Experts for small images are bound by Python code, and the threads of one process share one core for it.
"""

from __future__ import annotations

import gc
import multiprocessing
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Protocol

from editcritic.benchmarks.sceneedit.experts.expert_noise import CachingExpert, NoisyExpert, wrap_experts
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.reward import EditSample, Engine, Expert, build

from .metric_selection import EvaluatedMetric
from .study import MetricValue, score_all

WINDOW = 1024
"""Programs in flight: about fifty cases."""

_CHUNK = 20
"""Cases that are sent to a process at a time."""

Step = Callable[[], None]


@dataclass(frozen=True, slots=True)
class ExpertNoise:
    """Noise on experts' answers (`NoisyExpert`) of one kind: `misses`, `false_alarms`, `flips` or `bias`, at a level in
    [0, 1]. Processes get it by pickling.
    """

    kind: str
    level: float
    seed: int

    def apply_to(self, experts: Mapping[str, Expert]) -> dict[str, Expert]:
        """These experts with noise."""
        return wrap_experts(experts, lambda expert: NoisyExpert(expert, **{self.kind: self.level}, seed=self.seed))


@dataclass(frozen=True, slots=True)
class CacheCounts:
    """Queries to experts, and those of them that were answered from the cache."""

    queries: int = 0
    cache_hits: int = 0


class MetricRunner(Protocol):
    """Scores samples with metrics, with or without noise on the answers, and caches every answer."""

    def run(
        self,
        metrics: Sequence[EvaluatedMetric],
        samples: Iterable[EditSample],
        *,
        noise: ExpertNoise | None = None,
        on_sample: Step = lambda: None,
    ) -> Iterator[MetricValue]:
        """A row for each sample and metric, in order. `on_sample` is called after each sample."""

    def cache_counts(self) -> CacheCounts:
        """Counts of all experts, since the start."""


class LocalMetricRunner:
    """Runs in this process. Repeated queries are answered from the cache, under noise too."""

    def __init__(self, experts: Mapping[str, Expert]) -> None:
        self._experts = wrap_experts(experts, CachingExpert)

    def run(
        self,
        metrics: Sequence[EvaluatedMetric],
        samples: Iterable[EditSample],
        *,
        noise: ExpertNoise | None = None,
        on_sample: Step = lambda: None,
    ) -> Iterator[MetricValue]:
        """See `MetricRunner`."""
        experts = self._experts if noise is None else noise.apply_to(self._experts)
        with Engine(window=WINDOW) as engine:
            yield from score_all(metrics, samples, experts, engine, on_sample=on_sample)

    def cache_counts(self) -> CacheCounts:
        """See `MetricRunner`."""
        unique_experts = set(self._experts.values())
        return CacheCounts(
            sum(expert.query_count for expert in unique_experts), sum(expert.hit_count for expert in unique_experts)
        )


class ProcessMetricRunner:
    """Runs in several processes with SceneEdit's experts. A sample always goes to the same process, which caches its
    answers.

    Metrics are sent as specs. Close it, or use it in a `with` statement.
    """

    def __init__(self, processes: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pools = [ProcessPoolExecutor(1, mp_context=context, initializer=_init_worker) for _ in range(processes)]

    def run(
        self,
        metrics: Sequence[EvaluatedMetric],
        samples: Iterable[EditSample],
        *,
        noise: ExpertNoise | None = None,
        on_sample: Step = lambda: None,
    ) -> Iterator[MetricValue]:
        """See `MetricRunner`."""
        shares: list[list[tuple[int, EditSample]]] = [[] for _ in self._pools]
        for index, sample in enumerate(samples):
            shares[zlib.crc32(sample.id.encode()) % len(shares)].append((index, sample))
        specs = [(metric.spec, metric.truth_column) for metric in metrics]
        pending: dict[Future[list[MetricValue]], list[int]] = {}
        for pool, share in zip(self._pools, shares, strict=True):
            for start in range(0, len(share), _CHUNK):
                chunk = share[start : start + _CHUNK]
                future = pool.submit(_run_metrics, specs, [sample for _, sample in chunk], noise)
                pending[future] = [index for index, _ in chunk]
        rows: dict[int, list[MetricValue]] = {index: [] for places in pending.values() for index in places}
        for future in as_completed(pending):
            for row in future.result():
                index = pending[future][row.case]
                rows[index].append(replace(row, case=index))
            for _ in pending[future]:
                on_sample()
        for index in sorted(rows):
            yield from rows[index]

    def cache_counts(self) -> CacheCounts:
        """See `MetricRunner`."""
        each = [pool.submit(_cache_counts).result() for pool in self._pools]
        return CacheCounts(sum(counts.queries for counts in each), sum(counts.cache_hits for counts in each))

    def close(self) -> None:
        """Stop the processes and cancel pending work."""
        for pool in self._pools:
            pool.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> ProcessMetricRunner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# -- in the processes -------------------------------------------------------------------------------------------------

_runner: LocalMetricRunner | None = None


def _init_worker() -> None:
    global _runner  # noqa: PLW0603  (a process has one runner, and its pool no other place for it)
    gc.set_threshold(50_000, 20, 100)  # the caches are no garbage: scanning them takes a tenth of the time
    _runner = LocalMetricRunner(scene_experts())


def _run_metrics(
    specs: Sequence[tuple[str, str]], samples: Sequence[EditSample], noise: ExpertNoise | None
) -> list[MetricValue]:
    assert _runner is not None
    metrics = [EvaluatedMetric(spec, build(spec), truth) for spec, truth in specs]  # type: ignore[arg-type]
    return list(_runner.run(metrics, samples, noise=noise))


def _cache_counts() -> CacheCounts:
    assert _runner is not None
    return _runner.cache_counts()
