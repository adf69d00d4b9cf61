"""The metrics of the report: every installed one that these experts can serve; their scores, and how far they agree."""

from __future__ import annotations

import gc
import multiprocessing
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal, get_args

from editcritic.benchmarks.common.optional_imports import bench_library
from editcritic.benchmarks.common.reward_catalogue import list_rewards
from editcritic.benchmarks.human_eval import weighted_statistics
from editcritic.benchmarks.human_eval.weighted_statistics import PairedObservations
from editcritic.benchmarks.sceneedit.cases import Case
from editcritic.benchmarks.sceneedit.experts.expert_noise import CachingExpert, NoisyExpert, wrap_experts
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.reward import Card, EditSample, Engine, Expert, SpecError, build
from editcritic.reward.engine.answer_log import AnswerLog
from editcritic.reward.metrics import Metric
from editcritic.reward.metrics.compose import score_with_signature
from editcritic.reward.queries.expert import unbound_roles, unsuitable_experts
from editcritic.reward.score import Status

VARIANTS = (
    "edival-if?protocol=paper&dense=true",
    "edival-if?protocol=official&dense=true",
    "edival-cc?protocol=fixed&similarity=l1",
)
"""Compared beside each metric's protocols, if the metric itself is."""

TruthColumn = Literal["followed", "kept", "overall", "clean", "quality"]
"""The truth that scores are compared with. clean: the edit is no hack. quality: minus the severity of a `degraded`
image."""
TRUTH_COLUMNS: tuple[TruthColumn, ...] = get_args(TruthColumn)

_TRUTH_OF: Mapping[str, TruthColumn] = {
    "following": "followed",
    "consistency": "kept",
    "overall": "overall",
    "quality": "quality",
    "cheating": "clean",
    "": "overall",
}
BINARY: tuple[TruthColumn, ...] = ("followed", "clean")

DEGRADED = "degraded"
"""The mode that degrades only the look of an image."""

SYSTEMS: Mapping[str, str] = {
    "edival-": "EdiVal",
    "complex-edit-": "Complex-Edit",
    "dlebench-": "DLEBench",
    "i2i-multi-": "I2I-Bench, several sources",
    "i2i-": "I2I-Bench",
    "imgedit": "ImgEdit-Bench",
    "viescore-": "VIEScore",
    "clip-": "baselines",
    "judge-": "baselines",
    "edit-reward": "baselines",
    "edit-score": "baselines",
    "any-edit-": "parts of any-edit",
    "guard": "guards",
}
"""Prefix of metric names -> system."""

MAX_SAMPLES = 4
"""Draws that are averaged where a metric samples: more take longer and change its figures little."""

PRESETS = ("edit-balanced", "any-edit", "small-object", "compound", "multi-turn", "multi-reference")
_ORDER = (
    *("EdiVal", "Complex-Edit", "DLEBench", "I2I-Bench", "I2I-Bench, several sources", "ImgEdit-Bench", "VIEScore"),
    *("baselines", "presets", "parts of any-edit", "guards", "others"),
)


@dataclass(frozen=True, slots=True)
class EvaluatedMetric:
    """A metric of the report. spec: what it is built from, its name there. truth_column: what it is compared with."""

    spec: str
    metric: Metric
    truth_column: TruthColumn

    @property
    def card(self) -> Card:
        return self.metric.card

    @property
    def name(self) -> str:
        """The spec in short, as in `edival-if paper dense`."""
        name, _, query = self.spec.partition("?")
        options = (option.partition("=") for option in query.split("&") if option)
        values = (key if value == "true" else f"{key}={value}" if key == "n" else value for key, _, value in options)
        return " ".join([name, *values])

    @property
    def system(self) -> str:
        """Its system, as in `Complex-Edit`; `others` for metrics of other packages."""
        name = self.spec.partition("?")[0]
        if name in PRESETS:
            return "presets"
        return next((system for start, system in SYSTEMS.items() if name.startswith(start)), "others")

    @property
    def main_statistic(self) -> Literal["AUC", "Spearman"]:
        """The one statistic, of its own truth column, that represents it."""
        return "AUC" if self.truth_column in BINARY else "Spearman"


def installed_metrics(
    experts: Mapping[str, Expert], cases: Sequence[Case]
) -> tuple[list[EvaluatedMetric], dict[str, str]]:
    """The metrics that these experts can serve on these cases; and of the others, by name, the reason."""
    metrics: list[EvaluatedMetric] = []
    skipped: dict[str, str] = {}
    for reward in list_rewards():
        if reward.card is None:
            composition = f"a composition, which takes its metrics from a file ({', '.join(reward.options)})"
            skipped[reward.name] = reward.problem or composition
            continue
        if reason := _skip_reason(reward.card, experts, cases):
            skipped[reward.name] = reason
            continue
        choices = [
            [f"{option}={value}" for value in values] if option in reward.options and values else [""]
            for option, values in (("protocol", reward.card.protocols), ("mode", reward.card.modes))
        ]
        option_strings = ["&".join(filter(None, combination)) for combination in product(*choices)]
        specs = [f"{reward.name}?{value}" if value else reward.name for value in option_strings]
        specs = [
            f"{spec}&n={MAX_SAMPLES}" if spec.endswith("mode=numeric") and "n" in reward.options else spec
            for spec in specs
        ]
        specs += [spec for spec in VARIANTS if spec.partition("?")[0] == reward.name]
        metrics += [_evaluated_metric(spec, build(spec), cases) for spec in specs]
    return sorted(metrics, key=lambda metric: _ORDER.index(metric.system)), skipped


def metrics_by_system(metrics: Sequence[EvaluatedMetric]) -> dict[str, list[EvaluatedMetric]]:
    """System -> its metrics, in the report's order."""
    return {
        system: members for system in _ORDER if (members := [metric for metric in metrics if metric.system == system])
    }


def select_metrics(specs: Iterable[str], experts: Mapping[str, Expert], cases: Sequence[Case]) -> list[EvaluatedMetric]:
    """These metrics. Raises `SpecError` for one that cannot be built or compared here."""
    metrics = []
    for spec in dict.fromkeys(specs):
        metric = build(spec)
        if not isinstance(getattr(metric, "card", None), Card):
            raise SpecError(f"{spec} is not a metric: it has no card")
        if reason := _skip_reason(metric.card, experts, cases):
            raise SpecError(f"{spec} cannot be compared here: {reason}")
        metrics.append(_evaluated_metric(spec, metric, cases))
    return metrics


def _evaluated_metric(spec: str, metric: Any, cases: Sequence[Case]) -> EvaluatedMetric:
    truth = _TRUTH_OF[metric.card.aspect]
    if truth == "quality" and not any(case.mode == DEGRADED for case in cases):
        truth = "overall"
    return EvaluatedMetric(spec, metric, truth)


def _skip_reason(card: Card, experts: Mapping[str, Expert], cases: Sequence[Case]) -> str:
    if unbound := unbound_roles(experts, card.roles):
        return f"no expert for the role {', '.join(unbound)}"
    if unsuitable := unsuitable_experts(experts, card.kinds):
        return "; ".join(unsuitable.values())
    missing = [
        name for name in card.requires if all(getattr(case.sample, name) in (None, "", (), {}) for case in cases)
    ]
    return f"no case has the field {', '.join(missing)}" if missing else ""


def truth_of(case: Case, truth: TruthColumn) -> float | bool | None:
    """The truth that a score of this case is compared with."""
    match truth:
        case "followed":
            return case.truth.followed
        case "kept":
            return case.truth.kept
        case "overall":
            return case.truth.overall
        case "clean":
            return not case.is_hack
        case "quality":
            return -case.severity if case.mode in ("", DEGRADED) else None


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


Value = float | bool | None
Pairs = Sequence[tuple[float, float]]
"""(value, truth) of each sample that has both."""


def complete_pairs(values: Iterable[Value], truths: Iterable[Value]) -> list[tuple[float, float]]:
    """The pairs that have both. Raises ValueError where the numbers of values and truths differ."""
    both = zip(values, truths, strict=True)
    return [(float(value), float(truth)) for value, truth in both if value is not None and truth is not None]


def accuracy(pairs: Pairs) -> float | None:
    """Share of pairs on one side of 0.5: both at it or above, or both below."""
    if not pairs:
        return None
    return sum((value >= 0.5) == (truth >= 0.5) for value, truth in pairs) / len(pairs)


def kappa(pairs: Pairs) -> float | None:
    """Cohen's kappa (1960) of the two sides of 0.5, in [-1, 1]: 0 for chance agreement.

    None where either side is constant.
    """
    decisions = [(0, float(value >= 0.5), float(truth >= 0.5)) for value, truth in pairs]
    return weighted_statistics.kappa(PairedObservations.of(decisions, 1)).value


def spearman(pairs: Pairs) -> float | None:
    """Spearman's rank correlation, in [-1, 1]; ties have their mean rank."""
    values, truths = [value for value, _ in pairs], [truth for _, truth in pairs]
    if len(set(values)) < 2 or len(set(truths)) < 2:
        return None
    return float(bench_library("scipy.stats").spearmanr(values, truths).statistic)


def auc(pairs: Pairs) -> float | None:
    """Probability that a pair with a truth above 0.5 has the higher value than one with a truth at it or
    below.

    In [0, 1]; ties count half. None where one of the two classes is missing. A yes is 1.0 and a no 0.0.
    """
    yes = [value for value, truth in pairs if truth > 0.5]
    no = [value for value, truth in pairs if truth <= 0.5]
    if not yes or not no:
        return None
    higher = float(bench_library("scipy.stats").mannwhitneyu(yes, no, method="asymptotic").statistic)
    return higher / (len(yes) * len(no))
