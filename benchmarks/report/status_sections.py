"""Sections by label: the judge's labels (DLEBench), edits without a value, turns, levels, categories, input shapes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from ...reward import Score
from ..suites.bootstrap import Statistic
from ..suites.results import ResultRow, Results
from ..suites.suite import LabelValue
from ..suites.tables import Table, TableCell
from .charts import CellContent, Chart, Series, TableView, bar_chart, line_chart
from .comparison import row_status
from .ranking_sheet import evidence
from .report_data import ReportData, ReportSection, display_name, metric_value, natural_order, point, with_unit
from .svg import format_number

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
    labels = [] if score is None else _labels(score)
    return min(labels, key=lambda label: label[1])[0] if labels else ""


def _labels(score: Score) -> list[tuple[str, float]]:
    labels = (item for _, item in evidence(score) if item.what == "label" and item.text)
    return [(item.text, item.numbers.get("score", 0.0)) for item in labels]


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
    introduction = "Edits without a value are in no mean; they are counted here and beside every number."
    introduction += " A table has the bounds that they allow."
    return ReportSection("statuses", "Missing values", introduction, blocks)


def _shorten(text: str) -> str:
    return text if len(text) <= 160 else f"{text[:159]}…"


_STEP_NAME = re.compile(r"(?P<what>.*?)[\s,:]*\b(?P<kind>turn|level|[TtCc])?\s*(?P<number>\d+)")
_KINDS = {"turn": {"turn", "t", ""}, "level": {"level", "c", ""}}

Curves = dict[str, dict[str, dict[str, TableCell]]]  # curve name -> editor -> step -> value


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
        if any(one.y is not None for line in series for one in line.points):
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


SHAPE_LABEL = "shape"


def category_section(report: ReportData) -> ReportSection | None:
    """The mean of each metric (rows) in each category (columns), one table per editor."""
    values = report.groups("category")
    if not values or len(report.metrics) < 2:
        return None
    blocks: list[Chart | TableView] = []
    for results in report.results:
        rows: list[list[CellContent]] = []
        for metric in report.metrics:
            cells = [report.mean(results, results.filter(category=value), metric_value(metric)) for value in values]
            if any(cell.value is not None for cell in cells):
                rows.append([metric, *(_heat_cell(cell, metric in report.shares) for cell in cells)])
        blocks.append(TableView(["", *map(display_name, values)], rows, title=results.editor))
    introduction = "Means with 95 % intervals. Empty: the dimension does not apply to that category."
    return ReportSection("categories", "Category by dimension", introduction, blocks)


def _heat_cell(cell: TableCell, share: bool) -> CellContent:
    if cell.value is None:
        return ("", "", None)
    below = "" if cell.low is None else f"{format_number(cell.low, 2)} to {format_number(cell.high, 2)}"
    return (format_number(cell.value), below, cell.value if share else None)


def source_count_section(report: ReportData) -> ReportSection | None:
    """Edits of one image compared with edits of several, in each dimension and overall."""
    rows_of_all = [row for results in report.results for row in results.rows]
    multi = {row.id for row in rows_of_all if (item := report.items.get(row.id)) and len(item.sample.sources) > 1}
    if len({row.id in multi for row in rows_of_all}) < 2:
        return None
    names = ("single", "multi")

    def halves(results: Results) -> list[list[ResultRow]]:
        return [[row for row in results.rows if (row.id in multi) is is_multi] for is_multi in (False, True)]

    def has_values(metric: str, is_multi: bool) -> bool:
        return any(row.value(metric) is not None and (row.id in multi) is is_multi for row in rows_of_all)

    # The metric for edits of several images is `multi-{metric}` if it exists, else the metric itself.
    pairs = [(name, f"multi-{name}" if f"multi-{name}" in report.metrics else name) for name in report.metrics]
    pairs = [(one, other) for one, other in pairs if has_values(one, False) and has_values(other, True)]
    rows: list[list[CellContent]] = []
    for results in report.results:
        rows.append([results.editor])
        for of_halves in [*pairs, ("", "")]:
            statistics = [
                results.mean(half, metric_value(name)) if name else _over_all(report, results, half)
                for half, name in zip(halves(results), of_halves, strict=True)
            ]
            metric = of_halves[0]
            share = not metric or metric in report.shares
            cells = [_heat_cell(report.cell(results, figure), share) for figure in statistics]
            difference = report.cell(results, Statistic.combine(lambda a, b: b - a, *statistics))
            rows.append([metric or "all dimensions", *cells, _heat_cell(difference, False)])
    overall = report.series(
        names, lambda results: [report.cell(results, _over_all(report, results, half)) for half in halves(results)]
    )
    chart = bar_chart("All dimensions", overall, names, "source images", "mean")
    notes = ["All dimensions: the mean over all scores; a dimension counts as often as it was evaluated."]
    table = TableView(["", *names, "multi − single"], rows, title="Dimensions of both", notes=notes)
    introduction = "Edits of one source image, and edits that combine several."
    return ReportSection("sources", "Single and multi-image", introduction, [chart, table])


def _over_all(report: ReportData, results: Results, rows: Sequence[ResultRow]) -> Statistic:
    """The mean over all scores of all metrics in [0, 1]."""
    names = [name for name in report.metrics if name in report.shares]

    def values(row: ResultRow) -> list[float]:
        return [value for name in names if (value := row.value(name)) is not None]

    sums = [results.mean(rows, lambda row: sum(values(row))), results.mean(rows, lambda row: float(len(values(row))))]
    return Statistic.combine(lambda a, b: a / np.where(b > 0, b, np.nan), *sums)


def luminance_section(report: ReportData) -> ReportSection | None:
    """Luminance of the brightest pixels over the turns, for metrics with that evidence (EdiVal)."""
    turns = report.labels.get("turn", ())
    steps = ["input", *(f"turn {turn}" for turn in turns)] if turns else ["input", "edited"]
    blocks = []
    for quantile in ("99.9 %", "99 %"):
        series = report.series(steps, partial(_brightness, report, turns, quantile))
        if any(one.y is not None for item in series for one in item.points[1:]):
            title = f"{quantile} quantile of luminance"
            blocks.append(line_chart(title, series, "turn", "luminance", steps=steps))
    introduction = "Rec. 709 luminance of the brightest pixels: editors that brighten every turn end over-exposed."
    return ReportSection("luminance", "Luminance", introduction, blocks) if blocks else None


def _brightness(
    report: ReportData, turns: Sequence[LabelValue], quantile: str, results: Results
) -> Iterator[TableCell]:
    by_turn: list[Sequence[ResultRow]] = [results.filter(turn=turn) for turn in turns] or [results.rows]
    yield report.mean(results, by_turn[0], lambda row: _luminance_of(row, "base", quantile))
    for rows in by_turn:
        yield report.mean(results, rows, lambda row: _luminance_of(row, "edited", quantile))


def _luminance_of(row: ResultRow, which: str, quantile: str) -> float | None:
    for score in row.scores.values():
        for _, item in evidence(score):
            if item.what == f"luminance of the {which} picture" and quantile in item.numbers:
                return item.numbers[quantile]
    return None


def shape_section(report: ReportData) -> ReportSection | None:
    """Metrics on square inputs compared with inputs padded to a square (EdiVal)."""
    values = report.groups(SHAPE_LABEL)
    names = [display_name(value) for value in values]
    blocks = []
    for metric in report.metrics if values else ():
        series = report.series(names, partial(_means_by_shape, report, values, metric))
        if any(one.y is not None for item in series for one in item.points):
            blocks.append(bar_chart(metric, series, names, "shape of the input", metric))
    introduction = "Inputs that were padded to a square have black bars; some editors paint into them."
    return ReportSection("shapes", "Shape of the input", introduction, blocks) if blocks else None


def _means_by_shape(
    report: ReportData, values: Sequence[LabelValue], metric: str, results: Results
) -> Iterator[TableCell]:
    for value in values:
        yield report.mean(results, results.filter(**{SHAPE_LABEL: value}), metric_value(metric))
