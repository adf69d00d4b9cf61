"""The study: every metric on every case with one engine, as plain rows, and their agreement with the truth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from editcritic.benchmarks.sceneedit.cases import Case
from editcritic.reward import EditSample, Engine, Expert
from editcritic.reward.metrics.compose import score_with_signature
from editcritic.reward.score import Status

from .metric_selection import BINARY, TRUTH_COLUMNS, EvaluatedMetric, TruthColumn, truth_of
from .truth_agreement import Coverage, accuracy, auc, complete_pairs, kappa, spearman

ValueTruthPair = tuple[float, float]
"""Value and truth."""


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
    engine: Engine,
    *,
    on_sample: Callable[[], None] = lambda: None,
) -> Iterator[MetricValue]:
    """Every metric on every sample, case by case; answers are shared. `on_sample` is called after each sample.

    All metrics of a sample run concurrently, so that no expert idles until the next metric.
    """
    programs = ((score_with_signature(metric.metric, sample), sample) for sample in samples for metric in metrics)
    for number, score in enumerate(engine.run(programs, experts)):
        case, index = divmod(number, len(metrics))
        yield MetricValue(case, metrics[index].spec, score.value, score.status, score.reason)
        if index == len(metrics) - 1:
            on_sample()


@dataclass(frozen=True)
class ValidityStudy:
    """Cases, metrics, and every metric's row for every case, in order of the cases."""

    cases: Sequence[Case]
    metrics: Sequence[EvaluatedMetric]
    rows: Mapping[str, Sequence[MetricValue]]

    @staticmethod
    def of(cases: Sequence[Case], metrics: Sequence[EvaluatedMetric], rows: Iterable[MetricValue]) -> ValidityStudy:
        """Raises ValueError unless there is a row for each metric and case."""
        sorted_rows: dict[str, list[MetricValue]] = {metric.spec: [] for metric in metrics}
        for row in rows:
            sorted_rows[row.spec].append(row)
        if any([row.case for row in metric_rows] != list(range(len(cases))) for metric_rows in sorted_rows.values()):
            raise ValueError("a study needs one row for each metric and case, in order of the cases")
        return ValidityStudy(cases, metrics, sorted_rows)

    def first(self, count: int) -> ValidityStudy:
        """The study of the first cases only."""
        return ValidityStudy(self.cases[:count], self.metrics, {spec: rows[:count] for spec, rows in self.rows.items()})

    def get(self, spec: str) -> EvaluatedMetric | None:
        return next((metric for metric in self.metrics if metric.spec == spec), None)

    def statuses(self, metric: EvaluatedMetric) -> Coverage:
        return Coverage.of(row.status for row in self.rows[metric.spec])

    def value_truth_pairs(
        self, metric: EvaluatedMetric, truth: TruthColumn, only: Collection[int] | None = None
    ) -> list[ValueTruthPair]:
        """Values and truths of the cases (`only`: at these indices) that have both."""
        rows = [row for row in self.rows[metric.spec] if only is None or row.case in only]
        return complete_pairs([row.value for row in rows], [truth_of(self.cases[row.case], truth) for row in rows])

    def main_statistic(self, metric: EvaluatedMetric, only: Collection[int] | None = None) -> float | None:
        """The metric's main statistic over these cases."""
        pairs = self.value_truth_pairs(metric, metric.truth_column, only)
        return auc(pairs) if metric.main_statistic == "AUC" else spearman(pairs)


# -- tables -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TruthAgreement:
    """A metric against one truth. Accuracy and kappa at 0.5, of shares and binary truth; Spearman of graded truth."""

    truth: TruthColumn
    sample_count: int
    accuracy: float | None = None
    kappa: float | None = None
    spearman: float | None = None
    auc: float | None = None


def truth_agreement(study: ValidityStudy, metric: EvaluatedMetric, truth: TruthColumn) -> TruthAgreement:
    """AUC of graded truth splits it at 0.5; `quality` has no such split."""
    pairs = study.value_truth_pairs(metric, truth)
    if truth in BINARY:
        share = metric.card.is_unit_range
        return TruthAgreement(
            truth, len(pairs), accuracy(pairs) if share else None, kappa(pairs) if share else None, auc=auc(pairs)
        )
    return TruthAgreement(truth, len(pairs), spearman=spearman(pairs), auc=auc(pairs) if truth == "overall" else None)


def by_truth(study: ValidityStudy) -> dict[str, dict[TruthColumn, TruthAgreement]]:
    """Spec -> truth -> agreement."""
    return {
        metric.spec: {truth: truth_agreement(study, metric, truth) for truth in TRUTH_COLUMNS}
        for metric in study.metrics
    }


def kind_of(case: Case) -> str:
    """Its task type; `compound` for several steps, `composition` for several sources."""
    return "composition" if len(case.sample.sources) > 1 else case.task


def mode_of(case: Case) -> str:
    """Its failure mode; `flawed_compound` for a compound with failed steps."""
    return FLAWED_COMPOUND if case.task == "compound" and case.mode else case.mode


FLAWED_COMPOUND = "flawed_compound"


@dataclass(frozen=True, slots=True)
class KindSummary:
    """A metric on the cases of one kind: its main statistic, and the number of cases with a value."""

    value: float | None
    scored: int


def by_task(study: ValidityStudy) -> dict[str, dict[str, KindSummary]]:
    """Spec -> kind of case -> main statistic."""
    summaries: dict[str, dict[str, KindSummary]] = {metric.spec: {} for metric in study.metrics}
    for task in kinds(study.cases):
        of_task = frozenset(number for number, case in enumerate(study.cases) if kind_of(case) == task)
        for metric in study.metrics:
            scored = sum(study.rows[metric.spec][number].value is not None for number in of_task)
            summaries[metric.spec][task] = KindSummary(study.main_statistic(metric, of_task), scored)
    return summaries


def kinds(cases: Sequence[Case]) -> list[str]:
    """Task types, then compounds and compositions."""
    names = {kind_of(case) for case in cases}
    return sorted(names, key=lambda kind: (kind in ("compound", "composition"), kind))


@dataclass(frozen=True, slots=True)
class ModeSummary:
    """A metric on the edits of one failure mode. accepted: share of the scored ones with at least 0.5."""

    scored: int
    mean: float | None
    accepted: float | None


def by_mode(study: ValidityStudy) -> dict[str, dict[str, ModeSummary]]:
    """Spec -> failure mode (empty: honest) -> mean score and share accepted."""
    summaries: dict[str, dict[str, ModeSummary]] = {}
    for metric in study.metrics:
        values: dict[str, list[float]] = defaultdict(list)
        for row, case in zip(study.rows[metric.spec], study.cases, strict=True):
            if row.value is not None:
                values[mode_of(case)].append(row.value)
        summaries[metric.spec] = {
            mode: _mode_summary(values[mode], metric.card.is_unit_range) for mode in modes(study.cases)
        }
    return summaries


def modes(cases: Sequence[Case]) -> list[str]:
    """Honest edits, flawed ones, then hacks."""
    hacks = {mode_of(case): case.is_hack for case in cases}
    return sorted(hacks, key=lambda mode: (bool(mode), hacks[mode], mode))


def _mode_summary(values: Sequence[float], is_share: bool) -> ModeSummary:
    if not values:
        return ModeSummary(0, None, None)
    accepted = sum(value >= 0.5 for value in values) / len(values) if is_share else None
    return ModeSummary(len(values), sum(values) / len(values), accepted)
