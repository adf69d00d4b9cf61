"""What an audit found: a figure for each fault, and which of them are there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .measures import ERROR_RATE, Estimate, mean_over_sources
from .probes import Condition
from .session import Cost

TOLERANCE = 0.01
"""What counts as nothing for a fault whose measure is exactly 0 in a sound judge."""

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault under one condition.

    value: see `measure`; None if no sample has one. low, high: the 95 % interval over sources. found: whether the judge
    has the fault; None if that cannot be told. missing: samples without an answer, and the most frequent reason.
    """

    fault: str
    condition: str
    measure: str
    value: float | None
    low: float | None
    high: float | None
    found: bool | None
    samples: int
    sources: int
    missing: int
    reason: str


@dataclass(frozen=True)
class JudgeAudit:
    """judge: its id. question: what was asked for draws, sizes and words. costs: fault -> what it took.

    reliability: of one answer, by name and reading, in [0, 1]. replies: number of scores by status. exhausted: the
    limit of the budget that was reached, or an empty text. recommendations: what to do, most important first.
    """

    judge: str
    question: str
    samples: int
    sources: int
    findings: Sequence[Finding]
    costs: Mapping[str, Cost]
    reliability: Mapping[str, float | None]
    replies: Mapping[str, int]
    exhausted: str
    recommendations: Sequence[str] = ()

    def of(self, fault: str) -> list[Finding]:
        """The findings of a fault, one for each condition."""
        return [finding for finding in self.findings if finding.fault == fault]

    @property
    def found(self) -> list[str]:
        """The faults that the judge has."""
        return list(dict.fromkeys(finding.fault for finding in self.findings if finding.found))

    @property
    def failures(self) -> int:
        """Scores that failed."""
        return self.replies.get("failed", 0)

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "judge": self.judge,
            "question": self.question,
            "samples": self.samples,
            "sources": self.sources,
            "found": self.found,
            "findings": [asdict(finding) for finding in self.findings],
            "costs": {fault: asdict(cost) for fault, cost in self.costs.items()},
            "reliability": dict(self.reliability),
            "scores": dict(self.replies),
            "exhausted": self.exhausted,
            "recommendations": list(self.recommendations),
        }

    def markdown(self) -> str:
        """The report in Markdown."""
        from .report import markdown

        return markdown(self)

    def html(self) -> str:
        """The report as one page of HTML, without scripts or links."""
        from .report import html

        return html(self)


def findings_of(conditions: Sequence[Condition]) -> list[Finding]:
    """A figure with its 95 % interval for each condition.

    A fault is found where the interval excludes 0 that holds all tested figures together: of each, it covers
    1 - 0.05 / number of tests (Bonferroni). An exact measure is found above `TOLERANCE`.
    """
    tests = sum(not condition.exact for condition in conditions)
    return [_finding(condition, 1 - ERROR_RATE / max(1, tests)) for condition in conditions]


def _finding(condition: Condition, joint: float) -> Finding:
    estimate = mean_over_sources(condition.values, condition.sources, condition.bounds)
    if condition.root and estimate is not None:
        estimate = _root(estimate)
    found: bool | None = None
    if condition.exact and estimate is not None:
        found = estimate.value > TOLERANCE
    elif estimate is not None:
        wide = mean_over_sources(condition.values, condition.sources, condition.bounds, joint)
        if wide is not None and wide.low is not None and wide.high is not None:
            found = wide.low > 0 or wide.high < 0
    return Finding(
        condition.fault,
        condition.condition,
        condition.measure,
        None if estimate is None else estimate.value,
        None if estimate is None else estimate.low,
        None if estimate is None else estimate.high,
        found,
        0 if estimate is None else estimate.samples,
        0 if estimate is None else estimate.sources,
        condition.missing,
        condition.reason,
    )


def _root(estimate: Estimate) -> Estimate:
    low, high = (None if end is None else math.sqrt(max(0.0, end)) for end in (estimate.low, estimate.high))
    return Estimate(math.sqrt(estimate.value), low, high, estimate.samples, estimate.sources)
