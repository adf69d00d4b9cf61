"""Sections on judge labels (DLEBench), on edits without a value, and on turns and levels of complexity."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from ...reward import Score
from ..suites.bootstrap import Statistic
from ..suites.results import ResultRow, Results
from ..suites.suite import LabelValue
from ..suites.tables import Table, TableCell
from .charts import CellContent, Chart, Series, TableView, bar_chart, line_chart
from .comparison import row_status
from .report_data import ReportData, ReportSection, display_name, metric_value, natural_order, point, with_unit

_MAX_REASONS_SHOWN = 12
_STATES = ("scored", "not applicable", "abstained", "failed", "not evaluated", "missing")


def label_section(report: ReportData) -> ReportSection | None:
    """Frequency of each label, for metrics with label evidence (DLEBench's four of IF and of VC)."""
    blocks: list[Chart | TableView] = []
    for metric in report.metrics:
        judged = (row.scores.get(metric) for one in report.results for row in one.rows)
        scores = dict(label for score in judged if score is not None for label in _labels(score))
        order = sorted(scores, key=lambda label: -scores[label])
        if len(order) >= 2:
            series = report.series(order, partial(_label_shares, report, metric, order))
            blocks.append(bar_chart(f"{metric}: labels", series, order, "label, best first", "share of edits"))
            if grid := _by_type(report, metric, order):
                blocks.append(grid)
    introduction = "The judge's label of each edit: types of failure and their frequency."
    return ReportSection("labels", "Failure labels", introduction, blocks) if blocks else None


def _label_shares(report: ReportData, metric: str, order: Sequence[str], results: Results) -> Iterator[TableCell]:
    rows = [row for row in results.rows if _given_label(row, metric)]

    def is_given(label: str, row: ResultRow) -> float:
        return float(_given_label(row, metric) == label)

    for label in order:
        yield report.mean(results, rows, partial(is_given, label))


def _given_label(row: ResultRow, metric: str) -> str:
    """The label; the worst of several targets. Empty without one."""
    score = row.scores.get(metric)
    labels = [] if score is None else list(_labels(score))
    return min(labels, key=lambda label: label[1])[0] if labels else ""


def _labels(score: Score) -> Iterator[tuple[str, float]]:
    for item in score.evidence:
        if item.what == "label" and item.text:
            yield item.text, item.numbers.get("score", 0.0)
    for part in (*score.parts.values(), *score.credits.values()):
        yield from _labels(part)


def _by_type(report: ReportData, metric: str, order: Sequence[str]) -> TableView | None:
    name = "type" if report.groups("type") else "category"
    rows: list[list[CellContent]] = []
    for kind in report.groups(name):
        rows.append([display_name(kind)])
        for results in report.results:
            counts = Counter(label for row in results.filter(**{name: kind}) if (label := _given_label(row, metric)))
            total = counts.total()
            cells = [(str(counts[label]), "", counts[label] / total if total else None) for label in order]
            rows.append([results.editor, *cells])
    return TableView(["", *order], rows, title=f"{metric}: labels by {name}, counts") if rows else None


def status_section(report: ReportData) -> ReportSection | None:
    """Counts of edits by status for each editor and metric, and the reasons of missing values."""
    rows: list[list[CellContent]] = []
    complete_metrics: list[str] = []
    reasons: Counter[tuple[str, str, str]] = Counter()
    for metric in report.metrics:
        counts_by_editor = [Counter(row_status(row, metric) for row in results.rows) for results in report.results]
        if all(set(counts) == {"scored"} for counts in counts_by_editor):
            complete_metrics.append(metric)
            continue
        rows.append([metric])
        for results, counts in zip(report.results, counts_by_editor, strict=True):
            rows.append([results.editor, *(str(counts[state] or "") for state in _STATES)])
            scores = (row.scores.get(metric) for row in results.rows)
            reasons.update(
                (metric, display_name(score.status), _shorten(score.reason))
                for score in scores
                if score is not None and score.status != "scored"
            )
    for results in report.results:
        for row in results.rows:
            if row.missing_reason:
                reasons["", "missing", _shorten(row.missing_reason)] += 1
    if not rows:
        return None
    notes = [f"All edits have a value of: {', '.join(complete_metrics)}."] if complete_metrics else []
    blocks: list[Chart | TableView] = [TableView(["", *_STATES], rows, title="Edits by status", notes=notes)]
    common = [[str(count), *key] for key, count in reasons.most_common(_MAX_REASONS_SHOWN)]
    if common:
        blocks.append(TableView(["edits", "metric", "status", "reason"], common, title="The most frequent reasons"))
    introduction = "Edits without a value are excluded from means; they are counted here and beside every number."
    return ReportSection("statuses", "Missing values", introduction, blocks)


def _shorten(text: str) -> str:
    return text if len(text) <= 160 else f"{text[:159]}…"


_STEP_NAME = re.compile(r"(?P<what>.*?)[\s,:]*\b(?P<kind>turn|level|[TtCc])?\s*(?P<number>\d+)")
_KINDS = {"turn": {"turn", "t", ""}, "level": {"level", "c", ""}}

Curves = dict[str, dict[str, dict[str, TableCell]]]
"""Curve name -> editor -> step -> value."""


def turn_section(report: ReportData) -> ReportSection | None:
    """The suite's numbers, else the metrics, over the turns of a chain."""
    return _section(report, "turn", "turns", "Turns", "Scores as an editor's own outputs are edited again.")


def level_section(report: ReportData) -> ReportSection | None:
    """The suite's numbers, else the metrics, over levels of complexity."""
    introduction = "Scores as the number of operations per instruction grows."
    return _section(report, "level", "levels", "Complexity", introduction)


def _section(report: ReportData, label: str, name: str, title: str, introduction: str) -> ReportSection | None:
    values = report.groups(label)
    steps = [str(value) for value in values]
    blocks = []
    curves = _curves_of_tables(report, label, values) or _curves_of_metrics(report, label, values)
    for curve_name, curve in curves.items():
        series = [
            Series(
                editor,
                [point(float(steps.index(step)), cell, f"{label} {step}") for step, cell in cells.items()],
                report.styles[editor],
            )
            for editor, cells in curve.items()
        ]
        named = display_name(curve_name)
        blocks.append(line_chart(named, series, display_name(label), named, steps=steps))
    return ReportSection(name, title, introduction, blocks) if blocks else None


def _curves_of_tables(report: ReportData, label: str, values: Sequence[LabelValue]) -> Curves:
    """Curves of the first suite table with a row or column per step."""
    number = {re.findall(r"\d+", str(value))[-1]: str(value) for value in values if re.search(r"\d", str(value))}
    if len(number) < len(values):
        return {}
    for by_editor in report.tables.values():
        curves: Curves = {}
        for editor, table in by_editor.items():
            for curve_name, step, statistic in _steps(table, label, number):
                cell = TableCell.of(statistic, report.comparison.weights, table.scale)
                curves.setdefault(with_unit(curve_name, table.unit), {}).setdefault(editor, {})[step] = cell
        if curves:
            return curves
    return {}


def _steps(table: Table, label: str, number: Mapping[str, str]) -> Iterator[tuple[str, str, Statistic]]:
    """(curve, step, statistic) of a table whose rows or columns are named by steps."""
    rows = [_step(line, label, number) for line in table.rows]
    steps = [(row[1], cells) for row, cells in zip(rows, table.rows.values(), strict=True) if row and not row[0]]
    if len(steps) >= 2:
        for name, cells in steps:
            yield from ((column, name, cells[column]) for column in table.columns if column in cells)
        return
    columns = {column: _step(column, label, number) for column in table.columns}
    curves = [step[0] for step in columns.values() if step is not None]
    repeated = {curve for curve in curves if curve and curves.count(curve) >= 2}
    for line, cells in table.rows.items():
        for column, step in columns.items():
            if step is not None and step[0] in repeated and column in cells:
                curve = step[0] if len(table.rows) == 1 else f"{step[0]}, {display_name(line)}"
                yield curve, step[1], cells[column]


def _step(text: str, label: str, number: Mapping[str, str]) -> tuple[str, str] | None:
    match = _STEP_NAME.fullmatch(text.strip())
    if match is None or match["number"] not in number:
        return None
    kind = (match["kind"] or "").lower()
    return (match["what"], number[match["number"]]) if kind in _KINDS.get(label, {label, ""}) else None


def _curves_of_metrics(report: ReportData, label: str, values: Sequence[LabelValue]) -> Curves:
    """The mean of each metric, separately for each mode if there are several."""
    curves: Curves = {}
    modes: Sequence[LabelValue | None] = report.groups("mode") or (None,)
    for name in report.metrics:
        for mode in modes:
            curve = name if mode is None else f"{name}, {display_name(mode)}"
            for results in report.results:
                for value in natural_order(values):
                    rows = results.filter(**{label: value}, **({} if mode is None else {"mode": mode}))
                    cell = report.mean(results, rows, metric_value(name))
                    if cell.value is not None:
                        curves.setdefault(curve, {}).setdefault(results.editor, {})[str(value)] = cell
    return curves
