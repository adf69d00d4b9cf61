"""Sections of two groupings: category by dimension, single and multi-image edits, luminance, input shapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from ...reward import Evidence, Score
from ..suites.bootstrap import Statistic
from ..suites.results import ResultRow, Results
from ..suites.suite import LabelValue
from ..suites.tables import TableCell
from .charts import CellContent, Chart, TableView, bar_chart, line_chart
from .report_data import ReportData, ReportSection, display_name, metric_value
from .svg import format_number

SHAPE_LABEL = "shape"


# -- categories and dimensions ----------------------------------------------------------------------------------------


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


# -- one source or several --------------------------------------------------------------------------------------------


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


# -- luminance, and inputs that were padded ---------------------------------------------------------------------------


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
        for item in _evidence(score):
            if item.what == f"luminance of the {which} picture" and quantile in item.numbers:
                return item.numbers[quantile]
    return None


def _evidence(score: Score) -> Iterator[Evidence]:
    yield from score.evidence
    for part in (*score.parts.values(), *score.credits.values()):
        yield from _evidence(part)


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
