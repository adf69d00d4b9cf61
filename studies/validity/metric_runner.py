"""Runs metrics on samples with SceneEdit's experts: in this process, or in several, each with experts of its own.

Experts for small images are bound by Python code, and the threads of one process share one core for it.
"""

from __future__ import annotations

import gc
import multiprocessing
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

from editcritic.benchmarks.sceneedit.cases import Case
from editcritic.benchmarks.sceneedit.experts.expert_noise import CachingExpert, NoisyExpert, wrap_experts
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.reward import EditSample, Engine, Expert, build
from editcritic.reward.engine.answer_log import AnswerLog
from editcritic.reward.metrics.compose import score_with_signature
from editcritic.reward.score import Status

from .metric_selection import BINARY, EvaluatedMetric, TruthColumn, truth_of
from .truth_agreement import accuracy, auc, complete_pairs, kappa, spearman

WINDOW = 1024
"""Programs in flight: about fifty cases."""

FLAWED_COMPOUND = "flawed_compound"


@dataclass(frozen=True, slots=True)
class MetricValue:
    """The value of a metric (by its spec) for a case (by its index)."""

    case: int
    spec: str
    value: float | None
    status: Status
    reason: str


def score_all(
    metrics: Sequence[EvaluatedMetric],
    samples: Iterable[EditSample],
    experts: Mapping[str, Expert],
    log: AnswerLog | None = None,
) -> Iterator[MetricValue]:
    """Every metric on every sample, case by case; answers are shared. log: keeps them.

    All metrics of a sample run concurrently, so that no expert idles until the next metric.
    """
    programs = ((score_with_signature(metric.metric, sample), sample) for sample in samples for metric in metrics)
    with Engine(window=WINDOW, log=log) as engine:
        for number, score in enumerate(engine.run(programs, experts)):
            case, index = divmod(number, len(metrics))
            yield MetricValue(case, metrics[index].spec, score.value, score.status, score.reason)


@dataclass(frozen=True)
class ValidityStudy:
    """Cases, metrics, and every metric's row for every case, in order of the cases."""

    cases: Sequence[Case]
    metrics: Sequence[EvaluatedMetric]
    rows: Mapping[str, Sequence[MetricValue]]

    @staticmethod
    def of(cases: Sequence[Case], metrics: Sequence[EvaluatedMetric], rows: Iterable[MetricValue]) -> ValidityStudy:
        """rows: one for each case and metric, in order of the cases."""
        sorted_rows: dict[str, list[MetricValue]] = {metric.spec: [] for metric in metrics}
        for row in rows:
            sorted_rows[row.spec].append(row)
        return ValidityStudy(cases, metrics, sorted_rows)

    def first(self, count: int) -> ValidityStudy:
        """The study of the first cases only."""
        return ValidityStudy(self.cases[:count], self.metrics, {spec: rows[:count] for spec, rows in self.rows.items()})

    def get(self, spec: str) -> EvaluatedMetric | None:
        return next((metric for metric in self.metrics if metric.spec == spec), None)

    def statuses(self, metric: EvaluatedMetric) -> Counter[Status]:
        return Counter(row.status for row in self.rows[metric.spec])

    def value_truth_pairs(
        self, metric: EvaluatedMetric, truth: TruthColumn, only: Collection[int] | None = None
    ) -> list[tuple[float, float]]:
        """Values and truths of the cases (`only`: at these indices) that have both."""
        rows = [row for row in self.rows[metric.spec] if only is None or row.case in only]
        return complete_pairs([row.value for row in rows], [truth_of(self.cases[row.case], truth) for row in rows])

    def main_statistic(self, metric: EvaluatedMetric, only: Collection[int] | None = None) -> float | None:
        """The metric's main statistic over these cases."""
        pairs = self.value_truth_pairs(metric, metric.truth_column, only)
        return auc(pairs) if metric.main_statistic == "AUC" else spearman(pairs)


# -- tables -----------------------------------------------------------------------------------------------------------


def truth_agreement(study: ValidityStudy, metric: EvaluatedMetric, truth: TruthColumn) -> dict[str, float | None]:
    """Of a metric against one truth, by name. Accuracy and kappa at 0.5, of shares and binary truth; Spearman of graded
    truth. AUC of graded truth splits it at 0.5; `quality` has no such split.
    """
    pairs = study.value_truth_pairs(metric, truth)
    if truth in BINARY:
        share = metric.card.is_unit_range
        return {
            "accuracy": accuracy(pairs) if share else None,
            "kappa": kappa(pairs) if share else None,
            "AUC": auc(pairs),
        }
    return {"Spearman": spearman(pairs), **({"AUC": auc(pairs)} if truth == "overall" else {})}


def kind_of(case: Case) -> str:
    """Its task type; `compound` for several steps, `composition` for several sources."""
    return "composition" if len(case.sample.sources) > 1 else case.task


def kinds(cases: Sequence[Case]) -> list[str]:
    """Task types, then compounds and compositions."""
    names = {kind_of(case) for case in cases}
    return sorted(names, key=lambda kind: (kind in ("compound", "composition"), kind))


def of_kind(study: ValidityStudy, metric: EvaluatedMetric, kind: str) -> tuple[float | None, int]:
    """A metric on the cases of one kind: its main statistic, and the number of cases with a value."""
    members = frozenset(number for number, case in enumerate(study.cases) if kind_of(case) == kind)
    scored = sum(study.rows[metric.spec][number].value is not None for number in members)
    return study.main_statistic(metric, members), scored


def mode_of(case: Case) -> str:
    """Its failure mode; `flawed_compound` for a compound with failed steps."""
    return FLAWED_COMPOUND if case.task == "compound" and case.mode else case.mode


def modes(cases: Sequence[Case]) -> list[str]:
    """Honest edits (empty), flawed ones, then hacks."""
    hacks = {mode_of(case): case.is_hack for case in cases}
    return sorted(hacks, key=lambda mode: (bool(mode), hacks[mode], mode))


def of_mode(study: ValidityStudy, metric: EvaluatedMetric, mode: str) -> tuple[float | None, float | None]:
    """A metric on the edits of one failure mode: its mean, and the share of the scored ones with at least 0.5."""
    both = zip(study.rows[metric.spec], study.cases, strict=True)
    values = [row.value for row, case in both if row.value is not None and mode_of(case) == mode]
    if not values:
        return None, None
    accepted = sum(value >= 0.5 for value in values) / len(values) if metric.card.is_unit_range else None
    return sum(values) / len(values), accepted


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
