"""What a measurement of a judge found: a figure for each fault with its interval, and which of them are there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ....reward.bootstrap_intervals import Numbers, percentile_interval, resampled_rows
from .questions import Cost

ERROR_RATE = 0.05  # probability that a measurement reports any fault of a judge without one


@dataclass(frozen=True, slots=True)
class Estimate:
    """value: the mean over samples. low, high: its interval; None for fewer than two sources."""

    value: float
    low: float | None
    high: float | None
    samples: int
    sources: int


def mean_over_sources(
    values: Sequence[float], sources: Sequence[str], bounds: tuple[float, float], share: float = 0.95
) -> Estimate | None:
    """The mean of a number for each sample, with the interval that holds `share` of its bootstrap over sources.
    sources: of each sample. bounds: the lowest and the highest number possible. None without samples."""
    if not values:
        return None
    totals: Mapping[str, list[float]] = {source: [0.0, 0.0] for source in sources}
    for value, source in zip(values, sources, strict=True):
        totals[source][0] += value
        totals[source][1] += 1
    table = np.array(list(totals.values()))
    sums, counts = table[:, 0], table[:, 1]
    mean = float(np.mean(values))
    low, high = bounds
    if len(sums) < 2:
        return Estimate(mean, None, None, len(values), len(sums))
    weight = counts.mean()
    all_sums = np.concatenate([sums, [low * weight, high * weight]])
    all_counts = np.concatenate([counts, [weight, weight]])
    rows = resampled_rows(len(all_sums), np.random.default_rng(0))
    resampled: Numbers = all_sums[rows].sum(axis=-1) / all_counts[rows].sum(axis=-1)
    interval = percentile_interval(resampled, share)
    assert interval is not None  # every bootstrap sample has sources, and so samples
    shift = mean - float(all_sums.sum() / all_counts.sum())
    return Estimate(mean, max(low, interval[0] + shift), min(high, interval[1] + shift), len(values), len(sums))


def excess_change(answers: Sequence[float], variants: Sequence[float], repeats: Sequence[float]) -> float:
    """How much more an answer changes with the condition than by asking again, in [-1, 1]. answers: to the plain
    question; only the first is compared. variants: under the condition. repeats: to the plain question, asked again."""
    first = answers[0]
    changed = sum(abs(value - first) for value in variants) / len(variants)
    by_itself = sum(abs(value - first) for value in repeats) / len(repeats) if repeats else 0.0
    return changed - by_itself


def reliability(rows: Sequence[Sequence[float]]) -> float | None:
    """The share of the variance of one answer that lies between samples, in [0, 1]: the intraclass correlation ICC(1)
    of a one-way analysis of variance (Shrout and Fleiss 1979). rows: the answers of each sample, as many of each. None
    for fewer than two samples or answers, or if all are equal."""
    if len(rows) < 2 or len(rows[0]) < 2:
        return None
    table = np.array(rows, np.float64)
    count, answers = table.shape
    means = table.mean(axis=1)
    between = answers * float(((means - table.mean()) ** 2).sum()) / (count - 1)
    within = float(((table - means[:, None]) ** 2).sum()) / (count * (answers - 1))
    total = between + (answers - 1) * within
    return None if total <= 0 else max(0.0, (between - within) / total)


SIGNED, SHARE = (-1.0, 1.0), (0.0, 1.0)  # ranges of a sample's number


@dataclass(frozen=True)
class Condition:
    """A fault under one condition. measure: what the number says. values, sources: of every sample with one. missing:
    samples without. bounds: of a number. exact: any value above a hundredth is the fault, since a sound judge has
    exactly 0; otherwise its interval has to exclude 0. root: the figure is the root of the mean."""

    fault: str
    condition: str
    measure: str
    values: Sequence[float]
    sources: Sequence[str]
    missing: int = 0
    reason: str = ""
    bounds: tuple[float, float] = SIGNED
    exact: bool = False
    root: bool = False


TOLERANCE = 0.01  # what counts as nothing for a fault whose measure is exactly 0 in a sound judge
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault under one condition. value: see `measure`; None if no sample has one. low, high: the 95 % interval over
    sources. found: whether the judge has the fault; None if that cannot be told. missing: samples without an answer,
    and the most frequent reason."""

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
class JudgeFaults:
    """judge: its id. question: what was asked for draws, sizes and words. costs: fault -> what it took. reliability: of
    one answer, by name and reading, in [0, 1]. replies: number of scores by status. exhausted: the limit of the budget
    that was reached, or an empty text. recommendations: what to do, most important first."""

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
        from .runner import markdown

        return markdown(self)

    def html(self) -> str:
        """The report as one page of HTML, without scripts or links."""
        from .runner import html

        return html(self)


def findings_of(conditions: Sequence[Condition]) -> list[Finding]:
    """A figure with its 95 % interval for each condition. A fault is found where the interval excludes 0 that holds all
    tested figures together: of each, it covers 1 - 0.05 / number of tests (Bonferroni). An exact measure is found above
    `TOLERANCE`."""
    tests = sum(not condition.exact for condition in conditions)
    return [_finding(condition, 1 - ERROR_RATE / max(1, tests)) for condition in conditions]


def _finding(condition: Condition, joint: float) -> Finding:
    estimate = mean_over_sources(condition.values, condition.sources, condition.bounds)
    if condition.root and estimate is not None:
        low, high = (None if end is None else math.sqrt(max(0.0, end)) for end in (estimate.low, estimate.high))
        estimate = Estimate(math.sqrt(estimate.value), low, high, estimate.samples, estimate.sources)
    named, lacking = (condition.fault, condition.condition, condition.measure), (condition.missing, condition.reason)
    if estimate is None:
        return Finding(*named, None, None, None, None, 0, 0, *lacking)
    found: bool | None = None
    if condition.exact:
        found = estimate.value > TOLERANCE
    else:
        wide = mean_over_sources(condition.values, condition.sources, condition.bounds, joint)
        if wide is not None and wide.low is not None and wide.high is not None:
            found = wide.low > 0 or wide.high < 0
    interval = (estimate.value, estimate.low, estimate.high)
    return Finding(*named, *interval, found, estimate.samples, estimate.sources, *lacking)
