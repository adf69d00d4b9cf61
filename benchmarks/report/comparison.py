"""Compare two results of a suite: differences in provenance, changed items, and significance.

Means are compared on the items with a value in both, paired by case; intervals and p-values are those of
`suites.bootstrap`, with all metrics as one family. They hold wherever in its range each missing value was,
also of items without an output. Scores that are all 0 or 1 also get McNemar's exact test (1947) of equal numbers of
changes in both directions, unless values are missing. It assumes independent items; turns of one chain are dependent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import comb
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ..common.defaults import BOOTSTRAP_SAMPLES
from ..common.errors import InputError
from ..common.terminal import plain_table
from ..suites.bootstrap import PairedDifference, SignificanceTest, Statistic, bootstrap_weights, significance_tests
from ..suites.leaderboards import EditorComparison
from ..suites.results import RANGES_ENTRY, MissingAs, ResultRow, Results, ValueRanges
from ..suites.setting_differences import DifferingSettings, differing_settings, following_settings, settings_text
from ..suites.suite import Suite

SCHEMA = 2  # version of the JSON form
RowPair = tuple[ResultRow, ResultRow]  # the rows of one item in both results


@dataclass(frozen=True, slots=True)
class ItemChange:
    """One item under one metric: values (None without one), and statuses as text."""

    id: str
    before: float | None
    after: float | None
    statuses: tuple[str, str]
    instruction: str

    @property
    def delta(self) -> float:
        """Change of the value."""
        return (self.after or 0.0) - (self.before or 0.0)


@dataclass(frozen=True)
class MetricComparison:
    """One metric. both: items with a value in both; before, after: their means. significance: their difference.
    is_share: whether the metric is in [0, 1]; only then crossed_up, crossed_down are the items that crossed the
    threshold, and mcnemar is a p-value, for scores of 0 or 1. status_changes: items whose status changed.
    largest_changes: all changed items, largest change first."""

    metric: str
    both: int
    before: float | None
    after: float | None
    significance: SignificanceTest
    is_share: bool
    crossed_up: Sequence[ItemChange]
    crossed_down: Sequence[ItemChange]
    mcnemar: float | None
    status_changes: Sequence[ItemChange]
    largest_changes: Sequence[ItemChange]

    @property
    def is_significant(self) -> bool:
        """Whether the simultaneous interval excludes zero."""
        low, high = self.significance.simultaneous_low, self.significance.simultaneous_high
        return low is not None and high is not None and not low <= 0 <= high

    def to_json(self, max_items: int) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "both": self.both,
            "before": self.before,
            "after": self.after,
            "difference": asdict(self.significance),
            "significant": self.is_significant,
            "mcnemar_p": self.mcnemar,
            "crossed_up": [asdict(change) for change in self.crossed_up],
            "crossed_down": [asdict(change) for change in self.crossed_down],
            "status_changes": [asdict(change) for change in self.status_changes],
            "largest_changes": [asdict(change) for change in self.largest_changes[:max_items]],
        }


@dataclass(frozen=True)
class ResultsComparison:
    """Comparison of two results. provenance: entry -> both values. following: entries that follow from others.
    same_output: `common` items with equal images. unmatched: number of items in only one of them. tables: differences
    of the leaderboard (B minus A), if the suite can be loaded."""

    names: tuple[str, str]
    provenance: DifferingSettings
    following: frozenset[str]
    common: int
    same_output: int
    unmatched: tuple[int, int]
    metrics: Sequence[MetricComparison]
    tables: Sequence[PairedDifference]
    threshold: float

    def to_json(self, max_items: int) -> dict[str, Any]:
        """The comparison as JSON; of changed items the `max_items` with the largest change."""
        return {
            "schema": SCHEMA,
            "a": self.names[0],
            "b": self.names[1],
            "provenance": {name: list(pair) for name, pair in self.provenance.items()},
            "items": {
                "both": self.common,
                "same_output": self.same_output,
                "only_a": self.unmatched[0],
                "only_b": self.unmatched[1],
            },
            "threshold": self.threshold,
            "metrics": [item.to_json(max_items) for item in self.metrics],
            "leaderboard": [{**asdict(item), "significant": item.is_significant} for item in self.tables],
        }


def compare_results(
    first: Results,
    second: Results,
    *,
    suite: Suite | None = None,
    threshold: float = 0.5,
    count: int = BOOTSTRAP_SAMPLES,
    by: Sequence[str] = (),
) -> ResultsComparison:
    """Compare B with A. count: bootstrap samples. by: labels; each metric is compared for each of their values, too.
    Raises `InputError` for different suites, without common items, and for a label that no item has."""
    names = (first.provenance.get("suite"), second.provenance.get("suite"))
    if names[0] != names[1]:
        raise InputError(f"the results are of different suites: {names[0]} and {names[1]}")
    settings = differing_settings(first.provenance, second.provenance, suite)
    after = {row.id: row for row in second.rows}
    pairs = [(row, after[row.id]) for row in first.rows if row.id in after]
    if not pairs:
        raise InputError(
            f"the results have no common items: {settings_text(settings, suite) or 'their rows are of other items'}; "
            "for several modes or strategies of editing, see --strategy"
        )
    ranges = ValueRanges([first, second])
    pairs = _counting_missing(pairs, ranges, "", "")
    metrics = list(dict.fromkeys(name for a, b in pairs for name in (*a.scores, *b.scores)))
    cases = list(dict.fromkeys(a.case for a, _ in pairs))
    groups = [(metric, suffix, group) for suffix, group in _groups(pairs, by) for metric in metrics]
    statistics = [_bounded(pairs, group, metric, ranges) for metric, _, group in groups]
    clusters = [len({a.case for a, b in group if _difference(a, b, metric) is not None}) for metric, _, group in groups]
    tests = significance_tests(statistics, bootstrap_weights(len(cases), count), clusters)
    metric_comparisons = [
        replace(_metric(group, metric, test, threshold, ranges.of(metric)), metric=metric + suffix)
        for (metric, suffix, group), test in zip(groups, tests, strict=True)
    ]
    editors = (first.editor, second.editor)
    if first.editor == second.editor:
        editors = (f"{first.editor} (A)", f"{second.editor} (B)")
    return ResultsComparison(
        editors,
        settings,
        following_settings(settings, suite),
        len(pairs),
        sum(bool(a.edited) and a.edited == b.edited for a, b in pairs),
        (len(first.rows) - len(pairs), len(second.rows) - len(pairs)),
        metric_comparisons,
        [] if suite is None else _tables(suite, pairs, editors, (first, second), count),
        threshold,
    )


def _groups(pairs: Sequence[RowPair], by: Sequence[str]) -> Iterator[tuple[str, Sequence[RowPair]]]:
    """All pairs, and those of each value of each label, each after what it adds to the name of a metric."""
    yield "", pairs
    for label in by:
        values = dict.fromkeys(a.labels[label] for a, _ in pairs if label in a.labels)
        if not values:
            known = ", ".join(dict.fromkeys(name for a, _ in pairs for name in a.labels)) or "none"
            raise InputError(f"no item has the label {label!r:.80}: they have {known}")
        for value in values:
            yield f", {label} {value}", [(a, b) for a, b in pairs if a.labels.get(label) == value]


def _bounded(pairs: Sequence[RowPair], group: Sequence[RowPair], metric: str, ranges: ValueRanges) -> Statistic:
    """The mean difference over items of the group with a value in both, with bounds for missing values."""
    lowest = _mean_difference(pairs, _counting_missing(group, ranges, "highest", "lowest"), metric)
    highest = _mean_difference(pairs, _counting_missing(group, ranges, "lowest", "highest"), metric)
    return _mean_difference(pairs, group, metric).bounded(lowest, highest)


def _counting_missing(
    pairs: Sequence[RowPair], ranges: ValueRanges, first: MissingAs, second: MissingAs
) -> list[RowPair]:
    return [(a.counting_missing(first, ranges), b.counting_missing(second, ranges)) for a, b in pairs]


def _mean_difference(pairs: Sequence[RowPair], judged: Sequence[RowPair], metric: str) -> Statistic:
    """The mean over these judged pairs, as a statistic of the cases of all pairs."""
    differences = {a.id: _difference(a, b, metric) for a, b in judged}
    results = Results("", [a for a, _ in pairs])
    return results.mean(results.rows, lambda row: differences.get(row.id))


def _difference(a: ResultRow, b: ResultRow, metric: str) -> float | None:
    x, y = a.value(metric), b.value(metric)
    return None if x is None or y is None else y - x


def _tables(
    suite: Suite, pairs: Sequence[RowPair], editors: tuple[str, str], both: tuple[Results, Results], count: int
) -> list[PairedDifference]:
    """Differences of the leaderboards, B minus A, over the common items."""
    # Their provenances differ, which is what is compared here; the ranges of the values are all that tables need.
    before, after = (
        replace(one, editor=editor, rows=rows, provenance={RANGES_ENTRY: one.provenance.get(RANGES_ENTRY, {})})
        for one, editor, rows in zip(both, editors, zip(*pairs, strict=True), strict=True)
    )
    return EditorComparison.of(suite, [after, before], count=count).differences


def _metric(
    pairs: Sequence[RowPair],
    metric: str,
    test: SignificanceTest,
    threshold: float,
    span: tuple[float, float] | None,
) -> MetricComparison:
    changes = [
        ItemChange(
            a.id,
            a.value(metric),
            b.value(metric),
            (row_status(a, metric), row_status(b, metric)),
            a.instruction or b.instruction,
        )
        for a, b in pairs
    ]
    valued = [one for one in changes if one.before is not None and one.after is not None]
    before, after = ([one.before or 0.0 for one in valued], [one.after or 0.0 for one in valued])
    is_share = span is not None and span[0] >= 0 and span[1] <= 1
    crossed_up = [one for one, x, y in zip(valued, before, after, strict=True) if is_share and x < threshold <= y]
    crossed_down = [one for one, x, y in zip(valued, before, after, strict=True) if is_share and y < threshold <= x]
    is_binary = is_share and bool(valued) and {*before, *after} <= {0.0, 1.0}
    return MetricComparison(
        metric,
        len(valued),
        sum(before) / len(before) if before else None,
        sum(after) / len(after) if after else None,
        test,
        is_share,
        crossed_up,
        crossed_down,
        mcnemar(len(crossed_up), len(crossed_down)) if is_binary and len(valued) == len(changes) else None,
        [one for one in changes if one.statuses[0] != one.statuses[1]],
        sorted((one for one in valued if one.delta), key=lambda one: -abs(one.delta)),
    )


def row_status(row: ResultRow, metric: str) -> str:
    """The status of a row's score by a metric, in words."""
    score = row.scores.get(metric)
    return "missing" if row.missing_reason else "not evaluated" if score is None else score.status.replace("_", " ")


def mcnemar(num_up: int, num_down: int) -> float:
    """McNemar's exact two-sided p-value of these numbers of changes in both directions."""
    changed = num_up + num_down
    tail: int = sum(comb(changed, number) for number in range(min(num_up, num_down) + 1))
    return min(1.0, float(2 * tail / 2**changed)) if changed else 1.0


def render_comparison(comparison: ResultsComparison, max_items: int, *, all_settings: bool = False) -> RenderableType:
    """The comparison for the terminal. all_settings: also those that follow from others."""
    a, b = comparison.names
    parts: list[RenderableType] = [Text(f"A: {a}\nB: {b}")]
    items = f"{comparison.common} items in both, {comparison.same_output} of them with the same image"
    items += "".join(
        f"; {number} only in {name}" for name, number in zip("AB", comparison.unmatched, strict=True) if number
    )
    parts.append(Text(items))
    hidden = frozenset[str]() if all_settings else comparison.following
    parts += [render_settings(comparison.provenance, hidden), _metrics(comparison)]
    if comparison.tables:
        parts.append(_leaderboard(comparison))
    if max_items:
        parts += [table for metric in comparison.metrics for table in _items(metric, max_items)]
    return Group(*parts)


def render_settings(settings: DifferingSettings, hidden: frozenset[str] = frozenset()) -> RenderableType:
    """A table of differing settings. hidden: those that are counted only."""
    if not settings:
        return Text("\nThe provenance of both is the same.")
    lines = plain_table("\nDifferences in provenance", "", "A", "B")
    for name, pair in settings.items():
        if name not in hidden:
            lines.add_row(Text(name), *(Text("–" if value is None else _shortened(value)) for value in pair))
    if not hidden:
        return lines
    return Group(lines, Text(f"and {len(hidden)} that follow from these; --settings lists them"))


def _shortened(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE // 2]} … {text[-_MAX_VALUE // 2 :]}"


_MAX_VALUE = 400


def _metrics(comparison: ResultsComparison) -> RenderableType:
    numbers = (
        "items",
        "A",
        "B",
        "B − A",
        "p",
        f"to ≥ {comparison.threshold:g}",
        f"to < {comparison.threshold:g}",
        "McNemar p",
        "status",
    )
    lines = plain_table(
        f"\nMetrics, with simultaneous 95 % intervals for all {len(comparison.metrics)}", "metric", *numbers[:4],
        "interval", "p", "significant", *numbers[5:], right=numbers,
    )  # fmt: skip
    for metric in comparison.metrics:
        test = metric.significance
        crossed = [str(len(one)) if metric.is_share else "–" for one in (metric.crossed_up, metric.crossed_down)]
        lines.add_row(
            Text(metric.metric), str(metric.both), number_text(metric.before), number_text(metric.after),
            number_text(test.value, sign=True), interval_text(test.simultaneous_low, test.simultaneous_high),
            number_text(test.adjusted_p), _verdict(metric.is_significant), *crossed,
            number_text(metric.mcnemar), str(len(metric.status_changes)),
        )  # fmt: skip
    return lines


def _leaderboard(comparison: ResultsComparison) -> RenderableType:
    columns = ("column", "B − A", "95 % interval", "p", "significant")
    lines = plain_table("\nLeaderboard columns, tested separately", *columns, right=("B − A", "p"))
    for difference in comparison.tables:
        interval = interval_text(difference.simultaneous_low, difference.simultaneous_high)
        value, p = number_text(difference.value, sign=True), number_text(difference.adjusted_p)
        lines.add_row(Text(difference.column), value, interval, p, _verdict(difference.is_significant))
    return lines


def _items(metric: MetricComparison, max_items: int) -> Iterator[RenderableType]:
    for title, changes in (
        ("crossed upwards", metric.crossed_up),
        ("crossed downwards", metric.crossed_down),
        ("changed status", metric.status_changes),
        ("largest changes", [] if metric.mcnemar is not None else metric.largest_changes),
    ):
        if changes:
            rest = f", {max_items} of {len(changes)}" if len(changes) > max_items else ""
            lines = plain_table(f"\n{metric.metric}: {title}{rest}", "item", "A", "B", "instruction")
            for change in changes[:max_items]:
                before, after = (
                    state if value is None else number_text(value)
                    for value, state in zip((change.before, change.after), change.statuses, strict=True)
                )
                lines.add_row(Text(change.id), before, after, Text(change.instruction[:80]))
            yield lines


def _verdict(is_significant: bool) -> Text:
    return Text("yes", style="bold") if is_significant else Text("no", style="dim")


def number_text(value: float | None, *, sign: bool = False) -> str:
    """Three digits, or a dash."""
    return "–" if value is None else f"{value:+.3f}" if sign else f"{value:.3f}"


def interval_text(low: float | None, high: float | None) -> str:
    """Both ends, or a dash."""
    return "–" if low is None or high is None else f"{low:+.3f} to {high:+.3f}"
