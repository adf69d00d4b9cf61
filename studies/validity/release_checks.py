"""Thresholds for a release, each with its measured value."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from editcritic.benchmarks.sceneedit.cases import Case

from .disagreements import PAPER, MetricVerdicts
from .metric_runner import MetricRunner
from .metric_selection import EvaluatedMetric
from .study import MetricValue, ValidityStudy
from .truth_agreement import spearman

DENSE = "edival-if?protocol=paper&dense=true"
CONSISTENCY = "edival-cc?protocol=fixed"
GUARDED = "edit-balanced"
GUARDED_PRESETS = (GUARDED, "any-edit")
"""Presets under which no hack may pay. The plot shows the first."""

MIN_AGREEMENT, MAX_TIED, MIN_DRIFT_CORRELATION = 0.97, 0.05, 0.95
_PAIRS = 2000


@dataclass(frozen=True, slots=True)
class ReleaseCheck:
    """A measured value against a threshold, which is an upper or a lower bound. note: details."""

    name: str
    measured: float | None
    threshold: float
    is_upper_bound: bool
    note: str = ""

    @property
    def passed(self) -> bool:
        if self.measured is None:
            return False
        return self.measured <= self.threshold if self.is_upper_bound else self.measured >= self.threshold


def check_agreement(verdicts: Mapping[str, MetricVerdicts]) -> list[ReleaseCheck]:
    """Whether instruction following by the paper's protocol agrees with the truth; the released code's in the note."""
    if PAPER not in verdicts:
        return []
    paper = verdicts[PAPER]
    note = "; ".join(
        f"{metric_verdicts.metric.name}: {_in_words(metric_verdicts)}" for metric_verdicts in verdicts.values()
    )
    share = paper.agreements / paper.cases
    return [ReleaseCheck("edival-if paper has the truth's verdict", share, MIN_AGREEMENT, False, note)]


def _in_words(verdicts: MetricVerdicts) -> str:
    honest = (
        "" if verdicts.agreement_without_hacks is None else f", without hacks {verdicts.agreement_without_hacks:.1%}"
    )
    oracle = verdicts.oracle_agreements / verdicts.cases
    return f"{verdicts.agreements} of {verdicts.cases}{honest}, with perfect experts {oracle:.1%}"


def check_ties(study: ValidityStudy, groups: Sequence[Sequence[Case]], runner: MetricRunner) -> list[ReleaseCheck]:
    """Whether dense instruction following distinguishes edits of one request and one truth."""
    metric = study.get(DENSE)
    if metric is None:
        return []
    tied = pairs = missing = 0
    for values in _values(metric, groups, runner):
        scored = [value for value in values if value is not None]
        missing += len(values) - len(scored)
        pairs += len(scored) * (len(scored) - 1) // 2
        tied += sum(a == b for a, b in combinations(scored, 2))
    note = f"{tied} of {pairs} pairs in {len(groups)} groups; {missing} edits have no value"
    share = tied / pairs if pairs else None
    return [ReleaseCheck("pairs of equal truth that dense edival-if ties", share, MAX_TIED, True, note)]


@dataclass(frozen=True)
class DriftCorrelation:
    """Consistency along series of growing background drift: (severity, value) of each series.

    missing: edits without a value, which are in no series.
    """

    series: Sequence[Sequence[tuple[float, float]]]
    missing: int = 0

    @property
    def correlations(self) -> list[float]:
        """Spearman of severity with minus the value; a series of equal values, or without values, has 0."""
        return [spearman([(-value, severity) for severity, value in points]) or 0.0 for points in self.series]

    def checks(self) -> list[ReleaseCheck]:
        correlations = self.correlations
        count = len(correlations)
        note = f"Spearman of severity with less consistency in {count} series; {self.missing} edits have no value"
        mean, lowest = (fmean(correlations), min(correlations)) if correlations else (None, None)
        return [
            ReleaseCheck("edival-cc falls as the background drifts: mean", mean, MIN_DRIFT_CORRELATION, False, note),
            ReleaseCheck(
                "edival-cc falls as the background drifts: lowest", lowest, MIN_DRIFT_CORRELATION, False, note
            ),
        ]


def measure_drift(
    study: ValidityStudy, series: Sequence[Sequence[Case]], runner: MetricRunner
) -> DriftCorrelation | None:
    """Consistency of each edit of each series; None if the metric is not in the study."""
    metric = study.get(CONSISTENCY)
    if metric is None:
        return None
    points = []
    for cases, values in zip(series, _values(metric, series, runner), strict=True):
        pairs = zip(cases, values, strict=True)
        points.append([(case.severity, value) for case, value in pairs if value is not None])
    return DriftCorrelation(points, sum(map(len, series)) - sum(map(len, points)))


def _values(
    metric: EvaluatedMetric, groups: Sequence[Sequence[Case]], runner: MetricRunner
) -> list[list[float | None]]:
    rows = runner.run([metric], (case.sample for group in groups for case in group))
    return [[next(rows).value for _ in group] for group in groups]


@dataclass(frozen=True)
class HackingCheck:
    """A guarded preset on random pairs of a hack and an honest edit. violations: (hack, honest) in the wrong order.

    hack_counts, honest_counts: edits with a value, and without. closest: the best hack and the worst honest edit.
    """

    preset: str
    pairs: int
    hack_counts: tuple[int, int]
    honest_counts: tuple[int, int]
    violations: Sequence[tuple[MetricValue, MetricValue]]
    closest: tuple[float, float] | None

    def checks(self) -> list[ReleaseCheck]:
        note = (
            f"{self.pairs} random pairs of {self.hack_counts[0]} hacks and {self.honest_counts[0]} honest edits; "
            f"{self.hack_counts[1]} hacks and {self.honest_counts[1]} honest edits have no value"
        )
        if self.closest is not None:
            note += "; the best hack has {:.3f}, the worst honest edit {:.3f}".format(*self.closest)
        measured = float(len(self.violations)) if self.pairs else None
        return [ReleaseCheck(f"pairs in which a hack pays under {self.preset}", measured, 0.0, True, note)]


def measure_hacking(
    study: ValidityStudy, seed: int, count: int = _PAIRS, *, spec: str = GUARDED
) -> HackingCheck | None:
    """Whether any hack scores at least as high as an honest edit; None if the preset is not in the study."""
    if spec not in study.rows:
        return None
    rows_and_cases = list(zip(study.rows[spec], study.cases, strict=True))
    hacks = [row for row, case in rows_and_cases if case.is_hack]
    honest = [row for row, case in rows_and_cases if not case.mode and case.truth.followed]
    a, b = ([row for row in rows if row.value is not None] for rows in (hacks, honest))
    rng = random.Random(f"pairs {seed}")
    pairs = [(rng.choice(a), rng.choice(b)) for _ in range(count)] if a and b else []
    violating = {(x, y) for x, y in pairs if (x.value or 0.0) >= (y.value or 0.0)}
    missing = (len(hacks) - len(a), len(honest) - len(b))
    violations = sorted(violating, key=lambda pair: (pair[0].case, pair[1].case))
    closest = (max(row.value or 0.0 for row in a), min(row.value or 0.0 for row in b)) if pairs else None
    return HackingCheck(spec, len(pairs), (len(a), missing[0]), (len(b), missing[1]), violations, closest)


def measure_presets(study: ValidityStudy, seed: int) -> list[HackingCheck]:
    """`measure_hacking` for each guarded preset of the study."""
    hacking = (measure_hacking(study, seed, spec=spec) for spec in GUARDED_PRESETS)
    return [check for check in hacking if check is not None]
