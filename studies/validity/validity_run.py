"""A run of the validity study: cases, scores, disagreements with the truth, checks of a release, noise on experts.

Noise is added to cached answers, so that each query reaches the experts once, for any number of kinds and levels.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Literal

from editcritic.benchmarks.common.terminal import echo
from editcritic.benchmarks.sceneedit import cases as scenes
from editcritic.benchmarks.sceneedit.cases import Case
from editcritic.benchmarks.sceneedit.compound_requests import composition_cases, compound_cases
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.reward import Expert

from .metric_selection import (
    EvaluatedMetric,
    ExpertNoise,
    MetricRunner,
    MetricValue,
    ValidityStudy,
    installed_metrics,
    score_all,
    select_metrics,
    spearman,
)
from .oracle import Oracle

PAPER, OFFICIAL = "edival-if?protocol=paper", "edival-if?protocol=official"
DENSE = "edival-if?protocol=paper&dense=true"
CONSISTENCY = "edival-cc?protocol=fixed"
GUARDED = ("edit-balanced", "any-edit")
"""Presets under which no hack may pay. The plot shows the first."""

MIN_AGREEMENT, MAX_TIED, MIN_DRIFT_CORRELATION = 0.97, 0.05, 0.95
GROUP_COUNT, SERIES_COUNT, PAIR_COUNT = 18, 16, 2000
"""Number of groups of equal truth, of series of growing drift, and of pairs of a hack and an honest edit."""

KINDS = ("misses", "false_alarms", "flips", "bias")
LEVELS = (0.0, 0.05, 0.1, 0.2, 0.4)
NOISE_SAMPLE_SIZE = 300
"""Cases of the noise sweep."""

_SWEPT = (
    *("edit-balanced", "any-edit", "any-edit-following", "complex-edit-if?mode=expected"),
    *("complex-edit-ip?mode=expected", "complex-edit-pq?mode=expected", "complex-edit-o?mode=expected"),
    *("dlebench-if?mode=plain", "dlebench-vc?mode=plain", "i2i-instruction-following", "i2i-editing-artifacts"),
    *("i2i-physical-plausibility", "i2i-non-edited-fidelity", "i2i-text-content-style"),
    *("imgedit?protocol=fixed", "viescore-o?protocol=fixed"),
)
"""Beside EdiVal, baselines and guards: one metric for each response format and pipeline. Noise affects the others of a
system in the same way, and each of them takes as long again."""

Cause = Literal["expert", "rule", "unknown"]
"""expert: with perfect experts the metric agrees with the truth. rule: it contradicts it even then. unknown: the oracle
cannot answer the metric's queries."""


# -- disagreements ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TruthDisagreement:
    """A verdict on instruction following that differs from the truth, or is missing. oracle_verdict: the verdict with
    perfect experts.
    """

    case_index: int
    verdict: float | None
    reason: str
    oracle_verdict: float | None
    cause: Cause


@dataclass(frozen=True)
class MetricVerdicts:
    """A binary metric of instruction following, case by case.

    oracle_agreements: cases with the truth's verdict with perfect experts. agreement_without_hacks: share of agreements
    among the cases that are no hacks; None without such cases.
    """

    metric: EvaluatedMetric
    cases: int
    oracle_agreements: int
    agreement_without_hacks: float | None
    disagreements: Sequence[TruthDisagreement]

    @property
    def agreements(self) -> int:
        return self.cases - len(self.disagreements)

    def __str__(self) -> str:
        honest = "" if self.agreement_without_hacks is None else f", without hacks {self.agreement_without_hacks:.1%}"
        oracle = f", with perfect experts {self.oracle_agreements / self.cases:.1%}"
        return f"{self.metric.name}: {self.agreements} of {self.cases}{honest}{oracle}"


def compare_verdicts(study: ValidityStudy, spec: str) -> MetricVerdicts | None:
    """Compare a binary metric with `followed`, also with the oracle; None if it is not in the study."""
    metric = study.get(spec)
    if metric is None:
        return None
    oracle: dict[str, Expert] = dict.fromkeys(("detector", "judge", "reader"), Oracle(study.cases))
    oracle_rows = score_all([metric], (case.sample for case in study.cases), oracle)
    disagreements: list[TruthDisagreement] = []
    oracle_agreements = 0
    for case, row, perfect in zip(study.cases, study.rows[spec], oracle_rows, strict=True):
        truth = float(case.truth.followed)
        oracle_agreements += perfect.value == truth
        if row.value != truth:
            cause: Cause = "unknown" if perfect.value is None else "expert" if perfect.value == truth else "rule"
            disagreements.append(TruthDisagreement(row.case, row.value, row.reason, perfect.value, cause))
    honest = sum(not case.is_hack for case in study.cases)
    wrong = sum(not study.cases[one.case_index].is_hack for one in disagreements)
    share = 1 - wrong / honest if honest else None
    return MetricVerdicts(metric, len(study.cases), oracle_agreements, share, disagreements)


# -- checks -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReleaseCheck:
    """A measured value against a threshold, which is an upper or a lower bound. note: details."""

    name: str
    measured: float | None
    threshold: float
    is_upper_bound: bool
    note: str

    @property
    def passed(self) -> bool:
        if self.measured is None:
            return False
        return self.measured <= self.threshold if self.is_upper_bound else self.measured >= self.threshold


def check_agreement(verdicts: Mapping[str, MetricVerdicts]) -> list[ReleaseCheck]:
    """Whether instruction following by the paper's protocol agrees with the truth; the released code's in the note."""
    if PAPER not in verdicts:
        return []
    share = verdicts[PAPER].agreements / verdicts[PAPER].cases
    note = "; ".join(map(str, verdicts.values()))
    return [ReleaseCheck("edival-if paper has the truth's verdict", share, MIN_AGREEMENT, False, note)]


def check_ties(metric: EvaluatedMetric, groups: Sequence[Sequence[Case]], runner: MetricRunner) -> ReleaseCheck:
    """Whether dense instruction following distinguishes edits of one request and one truth."""
    tied = pairs = missing = 0
    for values in _values(metric, groups, runner):
        scored = [value for value in values if value is not None]
        missing += len(values) - len(scored)
        pairs += len(scored) * (len(scored) - 1) // 2
        tied += sum(a == b for a, b in combinations(scored, 2))
    note = f"{tied} of {pairs} pairs in {len(groups)} groups; {missing} edits have no value"
    share = tied / pairs if pairs else None
    return ReleaseCheck("pairs of equal truth that dense edival-if ties", share, MAX_TIED, True, note)


Series = Sequence[tuple[float, float]]
"""(severity, value) along growing background drift, of the edits that have a value."""


def measure_drift(
    metric: EvaluatedMetric, series: Sequence[Sequence[Case]], runner: MetricRunner
) -> tuple[list[Series], list[ReleaseCheck]]:
    """Consistency along each series; and whether it falls, by the Spearman of severity with minus the value."""
    points: list[Series] = []
    for cases, values in zip(series, _values(metric, series, runner), strict=True):
        pairs = zip(cases, values, strict=True)
        points.append([(case.severity, value) for case, value in pairs if value is not None])
    missing = sum(map(len, series)) - sum(map(len, points))
    correlations = [spearman([(-value, severity) for severity, value in some]) or 0.0 for some in points]
    note = f"Spearman of severity with less consistency in {len(points)} series; {missing} edits have no value"
    name = "edival-cc falls as the background drifts"
    return points, [
        ReleaseCheck(f"{name}: {which}", of(correlations), MIN_DRIFT_CORRELATION, False, note)
        for which, of in (("mean", fmean), ("lowest", min))
    ]


def _values(
    metric: EvaluatedMetric, groups: Sequence[Sequence[Case]], runner: MetricRunner
) -> list[list[float | None]]:
    rows = iter(runner.run([metric], (case.sample for group in groups for case in group)))
    return [[next(rows).value for _ in group] for group in groups]


@dataclass(frozen=True)
class HackingCheck:
    """A guarded preset on random pairs of a hack and an honest edit. violations: (hack, honest) in the wrong order."""

    preset: str
    check: ReleaseCheck
    violations: Sequence[tuple[MetricValue, MetricValue]]


def measure_hacking(study: ValidityStudy, seed: int, spec: str, count: int = PAIR_COUNT) -> HackingCheck:
    """Whether any hack scores at least as high as an honest edit."""
    rows_and_cases = list(zip(study.rows[spec], study.cases, strict=True))
    hacks = [row for row, case in rows_and_cases if case.is_hack]
    honest = [row for row, case in rows_and_cases if not case.mode and case.truth.followed]
    a, b = ([row for row in rows if row.value is not None] for rows in (hacks, honest))
    rng = random.Random(f"pairs {seed}")
    pairs = [(rng.choice(a), rng.choice(b)) for _ in range(count)] if a and b else []
    violating = {(x, y) for x, y in pairs if (x.value or 0.0) >= (y.value or 0.0)}
    violations = sorted(violating, key=lambda pair: (pair[0].case, pair[1].case))
    note = (
        f"{len(pairs)} random pairs of {len(a)} hacks and {len(b)} honest edits; "
        f"{len(hacks) - len(a)} hacks and {len(honest) - len(b)} honest edits have no value"
    )
    if pairs:
        best, worst = max(row.value or 0.0 for row in a), min(row.value or 0.0 for row in b)
        note += f"; the best hack has {best:.3f}, the worst honest edit {worst:.3f}"
    measured = float(len(violations)) if pairs else None
    return HackingCheck(
        spec, ReleaseCheck(f"pairs in which a hack pays under {spec}", measured, 0.0, True, note), violations
    )


# -- noise ------------------------------------------------------------------------------------------------------------


def noise_sweep_metrics(metrics: Sequence[EvaluatedMetric]) -> list[EvaluatedMetric]:
    """The metrics that are evaluated again with noise."""
    systems = ("EdiVal", "baselines", "guards", "others")
    return [metric for metric in metrics if metric.system in systems or metric.spec in _SWEPT]


@dataclass(frozen=True)
class NoiseSweep:
    """statistics: spec -> (kind, level) -> main statistic; level 0 is without noise, for any kind.

    query_count, uncached_count: queries to noisy experts, and those of them that reached the experts underneath.
    """

    cases: int
    metrics: Sequence[EvaluatedMetric]
    statistics: Mapping[str, Mapping[tuple[str, float], float | None]]
    query_count: int
    uncached_count: int


def run_noise_sweep(
    cases: Sequence[Case],
    metrics: Sequence[EvaluatedMetric],
    runner: MetricRunner,
    seed: int,
    levels: Sequence[float] = LEVELS,
) -> NoiseSweep:
    """Every metric's main statistic under each kind and level of noise."""
    queries_before, hits_before = runner.cache_counts()
    statistics: dict[str, dict[tuple[str, float], float | None]] = {metric.spec: {} for metric in metrics}
    clean = ValidityStudy.of(cases, metrics, runner.run(metrics, (case.sample for case in cases)))
    for kind in KINDS:
        for level in levels:
            study = clean
            if level:
                noise = ExpertNoise(kind, level, seed)
                study = ValidityStudy.of(cases, metrics, runner.run(metrics, (case.sample for case in cases), noise))
            for metric in metrics:
                statistics[metric.spec][kind, level] = study.main_statistic(metric)
    queries, hits = runner.cache_counts()
    asked = queries - queries_before
    return NoiseSweep(len(cases), metrics, statistics, asked, asked - (hits - hits_before))


# -- the run ----------------------------------------------------------------------------------------------------------


@dataclass
class ValidityResult:
    """Everything that a run computed.

    study: of all cases: the edits first, then compounds and compositions. edit_count: the number of edits; checks and
    noise are of them alone. skipped: metrics that are not compared, with the reason. seconds: by step.
    """

    seed: int
    study: ValidityStudy
    edit_count: int
    skipped: Mapping[str, str]
    verdicts: Mapping[str, MetricVerdicts]
    checks: Sequence[ReleaseCheck]
    drift: Sequence[Series]
    hacking: Sequence[HackingCheck]
    sweep: NoiseSweep | None
    seconds: Mapping[str, float]

    @property
    def exit_code(self) -> int:
        return int(not all(check.passed for check in self.checks))


def run(
    count: int, seed: int, *, size: int = 64, specs: Sequence[str] = (), noise: bool = True, processes: int = 1
) -> ValidityResult:
    """Compare the installed metrics, or those of `specs`, with the truth of `count` edits, and of a tenth as many
    compounds and compositions.

    size: of the images, in pixels a side. processes: they change only the time. Raises `SpecError` for a spec that
    cannot be compared here. A check without its metric is skipped.
    """
    clock = _Clock()
    edits = scenes.cases(count, seed=seed, size=size)
    extra = max(1, count // 10)
    compounds, composed = (make(extra, seed=seed, size=size) for make in (compound_cases, composition_cases))
    cases, experts = [*edits, *compounds, *composed], scene_experts()
    metrics, skipped = (select_metrics(specs, experts, cases), {}) if specs else installed_metrics(experts, cases)
    clock.done("drawing")
    runner = MetricRunner(processes)
    try:
        study = ValidityStudy.of(cases, metrics, runner.run(metrics, (case.sample for case in cases)))
        clock.done("scoring")
        single = study.first(count)
        compared = {spec: compare_verdicts(single, spec) for spec in (PAPER, OFFICIAL)}
        verdicts = {spec: found for spec, found in compared.items() if found is not None}
        checks = check_agreement(verdicts)
        if dense := study.get(DENSE):
            checks.append(check_ties(dense, scenes.same_truth_groups(GROUP_COUNT, seed=seed, size=size), runner))
        drift: list[Series] = []
        if consistency := study.get(CONSISTENCY):
            series = scenes.drift_series(SERIES_COUNT, seed=seed, size=size)
            drift, drift_checks = measure_drift(consistency, series, runner)
            checks += drift_checks
        hacking = [measure_hacking(single, seed, spec) for spec in GUARDED if spec in study.rows]
        checks += [one.check for one in hacking]
        clock.done("checking")
        sweep = None
        if noise:
            sampled = random.Random(f"sweep {seed}").sample(edits, min(NOISE_SAMPLE_SIZE, len(edits)))
            sweep = run_noise_sweep(sampled, metrics if specs else noise_sweep_metrics(metrics), runner, seed)
            clock.done("noise")
    finally:
        runner.close()
    return ValidityResult(seed, study, count, skipped, verdicts, checks, drift, hacking, sweep, clock.seconds)


class _Clock:
    """Seconds of each step, which are told as it ends."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._start = time.perf_counter()

    def done(self, step: str) -> None:
        self.seconds[step] = time.perf_counter() - self._start
        self._start = time.perf_counter()
        echo(f"{step}: {self.seconds[step]:.1f} s")
