"""Verdicts on instruction following that the truth contradicts, each with its cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from editcritic.reward import Engine, Expert

from .metric_selection import EvaluatedMetric
from .oracle import Oracle
from .study import MetricValue, ValidityStudy, score_all

PAPER, OFFICIAL = "edival-if?protocol=paper", "edival-if?protocol=official"

Cause = Literal["expert", "rule", "unknown"]
"""expert: with perfect experts the metric agrees with the truth. rule: it contradicts it even then. unknown: the oracle
cannot answer the metric's queries."""


@dataclass(frozen=True, slots=True)
class TruthDisagreement:
    """A verdict that differs from the truth, or is missing. oracle_verdict: the verdict with perfect experts."""

    case_index: int
    spec: str
    verdict: float | None
    reason: str
    oracle_verdict: float | None
    oracle_reason: str
    cause: Cause


@dataclass(frozen=True)
class MetricVerdicts:
    """A binary metric of instruction following, case by case.

    agreements: cases with the truth's verdict. oracle_agreements: the same with perfect experts.
    agreement_without_hacks: share of agreements among the cases that are no hacks; None without such cases.
    """

    metric: EvaluatedMetric
    cases: int
    agreements: int
    oracle_agreements: int
    agreement_without_hacks: float | None
    disagreements: Sequence[TruthDisagreement]

    def due_to(self, cause: Cause) -> list[TruthDisagreement]:
        return [disagreement for disagreement in self.disagreements if disagreement.cause == cause]


def compare_verdicts(study: ValidityStudy, spec: str) -> MetricVerdicts | None:
    """Compare a binary metric with `followed`, also with the oracle; None if it is not in the study."""
    metric = study.get(spec)
    if metric is None:
        return None
    oracle: dict[str, Expert] = dict.fromkeys(("detector", "judge", "reader"), Oracle(study.cases))
    with Engine() as engine:
        oracle_rows = list(score_all([metric], (case.sample for case in study.cases), oracle, engine))
    disagreements: list[TruthDisagreement] = []
    oracle_agreements = 0
    for case, row, oracle_row in zip(study.cases, study.rows[spec], oracle_rows, strict=True):
        truth = float(case.truth.followed)
        oracle_agreements += oracle_row.value == truth
        if row.value != truth:
            disagreements.append(_cause(row, oracle_row, truth))
    count = len(study.cases)
    honest_count = sum(not case.is_hack for case in study.cases)
    honest_errors = sum(not study.cases[disagreement.case_index].is_hack for disagreement in disagreements)
    honest_agreement = 1 - honest_errors / honest_count if honest_count else None
    return MetricVerdicts(metric, count, count - len(disagreements), oracle_agreements, honest_agreement, disagreements)


def _cause(row: MetricValue, oracle_row: MetricValue, truth: float) -> TruthDisagreement:
    cause: Cause = "unknown" if oracle_row.value is None else "expert" if oracle_row.value == truth else "rule"
    return TruthDisagreement(row.case, row.spec, row.value, row.reason, oracle_row.value, oracle_row.reason, cause)
