"""What an audit found, in words: lines and cells that the terminal and the page share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from ...reward import Score
from ...reward.audit import AuditReport, FamilyFinding
from ...reward.audit.findings import ExpertCost, Mean, Rate
from ..suites.bootstrap import MIN_CLUSTERS

HOW_TO_READ = (
    (
        "Each edit is scored beside variants of it whose right order is known without a truth. A violation is a "
        "variant that scores as high as the edit or higher where it is worse, differently where nothing changed that "
        "matters, or at all where there is nothing to score."
    ),
    (
        "This rests on one assumption: that the edits do what they were asked for. Of an edit that does not, an "
        "unchanged source may rightly score as high."
    ),
    (
        "A rate has its 95 % interval over sources, since variants of one picture are alike. Few sources make it "
        "wide; no violation among few is no proof."
    ),
    (
        "A gain is the variant's score minus the edit's, as a share of the scale: above 0, a policy that is trained "
        "on this reward has a reason to make the variant. A variant without a score counts as the lowest."
    ),
    "No violation means that these hacks do not pay, not that none does.",
)
"""What the figures mean, and on what they rest."""

COLUMNS = ("family", "must be", "violations", "rate (95 %)", "mean gain", "worst")
"""Of the printed table of families: no wider than 80 columns."""

COST_COLUMNS = ("expert", "roles", "queries", "calls", "failed", "seconds", "ms per score")  # of the table of costs
_LONGEST_REASON = 200  # characters
_MOST_FAMILIES = 8  # that are named with what they raised: the figures have all

DEMANDS: Mapping[str, str] = {"lower": "lower", "equal": "equal", "same": "the same", "no_number": "no number"}
"""Of a relation, in a word or two."""


class AuditFigures(Protocol):
    """What tables and charts show: of an `AuditReport`, or of a file of figures."""

    @property
    def reward(self) -> str: ...
    @property
    def overall(self) -> Rate: ...
    @property
    def best_hack(self) -> Mean | None: ...
    @property
    def findings(self) -> Sequence[FamilyFinding]: ...
    @property
    def expert_costs(self) -> Sequence[ExpertCost]: ...
    def sensitivity(self, damages: str) -> Mean | None: ...


def verdict(report: AuditReport) -> str:
    """How often the reward was wrong, and what the best hack would gain; before it, that few sources decide little."""
    has_scores = any(score.value is not None for score in report.edits)
    return verdict_of(report, has_scores=has_scores, num_sources=len(set(report.sources)))


def verdict_of(report: AuditFigures, *, has_scores: bool, num_sources: int) -> str:
    """The same. has_scores: whether any edit has a score."""
    rate = report.overall
    if not rate.trials:
        if not has_scores:
            return "Nothing could be compared: no edit has a score."
        return (
            "Nothing could be compared: each edit has no score or the lowest already, no family applies to it, or "
            "its variants could not be scored."
        )
    sources = f"{num_sources} source{'s' * (num_sources > 1)}"
    few = f"Only {sources}: give 16 or more, or the rates say little. " if num_sources < MIN_CLUSTERS else ""
    return (
        f"{few}{rate.violations:,} of {rate.trials:,} comparisons are violations: {percent(rate.value)} "
        f"({percent(rate.low)} to {percent(rate.high)}). {hack_text(report)}"
    )


def hack_text(report: AuditFigures) -> str:
    """What the best hack of each edit would gain."""
    mean = report.best_hack
    if mean is None:
        return "No variant that must score lower could be compared."
    interval = "" if mean.low is None else f" ({signed(mean.low)} to {signed(mean.high)})"
    if mean.value >= 0:
        return f"A policy would gain {signed(mean.value)} of the scale{interval} by the best hack of each edit."
    return f"The best hack of each edit pays {signed(mean.value)} of the scale{interval}: honest edits pay more."


def facts(report: AuditReport) -> list[tuple[str, str]]:
    """What was audited, and how."""
    unscored = sum(score.value is None for score in report.edits)
    rows = [
        ("reward", report.identity or report.reward),
        ("edits", f"{len(report.ids):,} of {len(set(report.sources)):,} sources"),
        ("variants", f"{len(report.trials):,} of {len(report.families)} families, seed {report.seed}"),
        ("range", range_text(report.range, report.scale)),
        ("tolerance", f"{percent(report.tolerance)} of the scale, where a variant must score as the edit does"),
        ("seconds", f"{report.seconds:.0f}"),
    ]
    reasons_shown = report.stopped
    if unscored:
        reason = _reasons(report.edits)
        rows.insert(2, ("edits without a score", _once(f"{unscored:,}, not compared", reason, report.stopped)))
        reasons_shown += reason
    if failures := report.infrastructure_failures:
        failed = (*report.edits, *(trial.variant for trial in report.trials))
        reason = _reasons([score for score in failed if score.cause == "infrastructure"])
        rows.append(("failures of infrastructure", _once(f"{failures:,}, not compared", reason, reasons_shown)))
    if report.unmade:
        rows.append(("variants left out", unmade_text(report)))
    if report.stopped:
        rows.append(("incomplete", f"{report.stopped}; what was scored by then is reported"))
    return rows


def range_text(limits: tuple[float | None, float | None], scale: float) -> str:
    """The range of a reward; of an unbounded one, what stands for its width."""
    low, high = limits
    if low is not None and high is not None:
        return f"{low:g} to {high:g}"
    known = "unbounded" if low is high else f"from {low:g}" if low is not None else f"to {high:g}"
    return f"{known}; gains are shares of {scale:.3g}, the spread of the scores"


def unmade_text(report: AuditReport) -> str:
    """The variants that could not be made, by family, with what each raised first."""
    first: dict[str, str] = {}
    for one in report.unmade:
        first.setdefault(one.family, one.reason)
    named = list(first.items())[:_MOST_FAMILIES]
    texts = [f"{report.finding(name).unmade} of {name} ({_short(reason)})" for name, reason in named]
    more = [f"and of {len(first) - len(named)} more families"] if len(first) > len(named) else []
    return f"{len(report.unmade):,}, which failed to be made: {', '.join([*texts, *more])}"


def by_violations(report: AuditFigures) -> list[FamilyFinding]:
    """The findings, those with the highest rate of violations first."""
    return sorted(report.findings, key=lambda finding: -(finding.rate.value or 0.0))


def finding_cells(finding: FamilyFinding) -> list[str]:
    """A row of the printed table of families."""
    rate = finding.rate
    return [
        finding.family.name,
        DEMANDS[finding.family.relation],
        f"{rate.violations} of {rate.trials}",
        f"{percent(rate.value)} ({100 * rate.low:.0f} to {100 * rate.high:.0f})",
        mean_text(finding.gain),
        "–" if finding.worst is None else signed(finding.worst),
    ]


def cost_rows(report: AuditFigures) -> Iterator[list[str]]:
    """Rows of the table of costs, the dearest expert first."""
    for cost in report.expert_costs:
        each = "–" if cost.seconds_per_edit is None else f"{1000 * cost.seconds_per_edit:.1f}"
        counts = (f"{count:,}" for count in (cost.queries, cost.calls, cost.failed))
        yield [cost.expert, ", ".join(cost.roles), *counts, f"{cost.seconds:.1f}", each]


def sensitivity_rows(report: AuditFigures) -> list[tuple[str, Mean]]:
    """What damage costs, by what it takes from an edit."""
    rows = ((name, report.sensitivity(name)) for name in ("following", "preservation"))
    return [(name, mean) for name, mean in rows if mean is not None]


def percent(value: float | None) -> str:
    """A share in percent; a dash for None."""
    if value is None:
        return "–"
    decimals = 1 if 0 < value < 0.0995 or 0.99 < value < 1 else 0
    return f"{100 * value:.{decimals}f}\u00a0%"


def signed(value: float | None) -> str:
    """A difference with its sign; a dash for None."""
    if value is None:
        return "–"
    rounded = round(value, 3)
    return f"{rounded:+.3f}".replace("-", "−") if rounded else "0.000"


def rate_text(rate: Rate) -> str:
    """A rate with its interval and the counts."""
    if not rate.trials:
        return "nothing to compare"
    return f"{percent(rate.value)} ({interval_text(rate)}), {rate.violations:,} of {rate.trials:,}"


def interval_text(rate: Rate) -> str:
    """The interval of a rate; a dash where nothing was compared."""
    return f"{percent(rate.low)} to {percent(rate.high)}" if rate.trials else "–"


def mean_text(mean: Mean | None) -> str:
    """A mean with its sign; a dash for None."""
    return signed(None if mean is None else mean.value)


def _reasons(scores: Sequence[Score]) -> str:
    """The most frequent reason of those without a value."""
    counts: dict[str, int] = {}
    for score in scores:
        if score.value is None:
            counts[score.reason] = counts.get(score.reason, 0) + 1
    return _short(max(counts, key=counts.__getitem__))


def _once(text: str, reason: str, elsewhere: str) -> str:
    """The text with its reason, unless that is shown elsewhere."""
    return text if reason.rstrip("…") in elsewhere else f"{text}: {reason}"


def _short(reason: str) -> str:
    return reason if len(reason) <= _LONGEST_REASON else f"{reason[: _LONGEST_REASON - 1]}…"
