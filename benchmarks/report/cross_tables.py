"""Sections of two groupings: category by dimension, single and multi-image edits, luminance, input shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ...reward import Evidence, Score
from ..suites.bootstrap import Statistic
from ..suites.results import ResultRow, Results
from ..suites.suite import LabelValue
from ..suites.tables import TableCell
from .charts import CellContent, Chart, Series, TableView, bar_chart, line_chart
from .report_data import ReportData, ReportSection, display_name, metric_value, point
from .svg import format_number

_TYPE_LABELS = ("category", "type")
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
    has_several = _has_several_sources(report)
    if has_several is None:
        return None
    names = ("single", "multi")
    blocks: list[Chart | TableView] = []
    pairs = [(name, _multi_source_metric(report, name)) for name in report.metrics]
    metric_pairs = [
        results
        for results in pairs
        if _applicable_metrics(report, results[0], has_several, False)
        and _applicable_metrics(report, results[1], has_several, True)
    ]
    rows: list[list[CellContent]] = []
    overall = []
    for style_index, results in enumerate(report.results):
        halves = [[row for row in results.rows if has_several(row) is is_multi] for is_multi in (False, True)]
        means = [_pooled(report, results, half) for half in halves]
        overall.append(
            Series(
                results.editor,
                [point(float(index), cell, names[index]) for index, cell in enumerate(means)],
                style_index,
            )
        )
        rows.append([results.editor])
        for metric, multi_metric in [*metric_pairs, ("", "")]:
            metrics_of_halves = zip(halves, (metric, multi_metric), strict=True)
            statistics = [
                results.mean(half, metric_value(name)) if name else _over_all(report, results, half)
                for half, name in metrics_of_halves
            ]
            cells = [report.cell(results, figure) for figure in statistics]
            difference = report.cell(results, Statistic.combine(lambda a, b: b - a, *statistics))
            share = not metric or metric in report.shares
            rows.append(
                [
                    metric or "all dimensions",
                    *(_heat_cell(cell, share) for cell in cells),
                    _heat_cell(difference, False),
                ]
            )
    blocks.append(bar_chart("All dimensions", overall, names, "source images", "mean"))
    head = ["", *names, "multi − single"]
    notes = ["All dimensions: the mean over all scores; a dimension counts as often as it was evaluated."]
    blocks.append(TableView(head, rows, title="Dimensions of both", notes=notes))
    introduction = "Edits of one source image, and edits that combine several."
    return ReportSection("sources", "Single and multi-image", introduction, blocks)


def _has_several_sources(report: ReportData) -> Callable[[ResultRow], bool] | None:
    """A test whether a row's edit has several source images; None if all rows agree."""

    def has_several(row: ResultRow) -> bool:
        item = report.items.get(row.id)
        return item is not None and len(item.sample.sources) > 1

    values = {has_several(row) for results in report.results for row in results.rows}
    return has_several if len(values) == 2 else None


def _multi_source_metric(report: ReportData, metric: str) -> str:
    """The metric for edits of several images: `multi-{metric}` if it exists, else the metric itself."""
    return f"multi-{metric}" if f"multi-{metric}" in report.metrics else metric


def _applicable_metrics(
    report: ReportData, metric: str, has_several: Callable[[ResultRow], bool], is_multi: bool
) -> bool:
    return any(
        row.value(metric) is not None and has_several(row) is is_multi
        for results in report.results
        for row in results.rows
    )


def _over_all(report: ReportData, results: Results, rows: Sequence[ResultRow]) -> Statistic:
    """The mean over all scores of all metrics in [0, 1]."""
    names = [name for name in report.metrics if name in report.shares]
    sums = [results.mean(rows, _summed(names)), results.mean(rows, _counted(names))]
    return Statistic.combine(lambda a, b: a / np.where(b > 0, b, np.nan), *sums)


def _summed(names: Sequence[str]) -> Callable[[ResultRow], float | None]:
    return lambda row: sum(value for name in names if (value := row.value(name)) is not None)


def _counted(names: Sequence[str]) -> Callable[[ResultRow], float | None]:
    return lambda row: float(sum(row.value(name) is not None for name in names))


def _pooled(report: ReportData, results: Results, rows: Sequence[ResultRow]) -> TableCell:
    return report.cell(results, _over_all(report, results, rows))


# -- luminance, and inputs that were padded ---------------------------------------------------------------------------


def luminance_section(report: ReportData) -> ReportSection | None:
    """Luminance of the brightest pixels over the turns, for metrics with that evidence (EdiVal)."""
    turns = report.labels.get("turn", ())
    quantiles = ("99.9 %", "99 %")
    blocks: list[Chart | TableView] = []
    if any(
        _luminance_of(row, "edited", quantiles[0]) is not None for results in report.results for row in results.rows
    ):
        steps = ["input", *(f"turn {turn}" for turn in turns)] if turns else ["input", "edited"]
        for quantile in quantiles:
            series = [
                Series(
                    results.editor,
                    [point(float(index), cell, steps[index]) for index, cell in _drift(report, results, quantile)],
                    style_index,
                )
                for style_index, results in enumerate(report.results)
            ]
            title = f"{quantile} quantile of luminance"
            blocks.append(line_chart(title, series, "turn", "luminance", steps=steps))
    introduction = "Rec. 709 luminance of the brightest pixels: editors that brighten every turn end over-exposed."
    return ReportSection("luminance", "Luminance", introduction, blocks) if blocks else None


def _drift(report: ReportData, results: Results, quantile: str) -> Iterator[tuple[int, TableCell]]:
    first_rows = results.rows
    turns: Sequence[LabelValue] = report.labels.get("turn", ())
    if turns:
        first_rows = results.filter(turn=turns[0])
    yield 0, report.mean(results, first_rows, lambda row: _luminance_of(row, "base", quantile))
    for index, rows in enumerate([results.filter(turn=turn) for turn in turns] or [list(results.rows)], start=1):
        yield index, report.mean(results, rows, lambda row: _luminance_of(row, "edited", quantile))


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
    if not report.groups(SHAPE_LABEL):
        return None
    values = report.groups(SHAPE_LABEL)
    blocks: list[Chart | TableView] = []
    for metric in report.metrics:
        series = []
        for style_index, results in enumerate(report.results):
            cells = [
                report.mean(results, results.filter(**{SHAPE_LABEL: value}), metric_value(metric)) for value in values
            ]
            points = [point(float(index), cell, display_name(values[index])) for index, cell in enumerate(cells)]
            series.append(Series(results.editor, points, style_index))
        if any(index.y is not None for results in series for index in results.points):
            blocks.append(
                bar_chart(metric, series, [display_name(value) for value in values], "shape of the input", metric)
            )
    introduction = "Inputs that were padded to a square have black bars; some editors paint into them."
    return ReportSection("shapes", "Shape of the input", introduction, blocks) if blocks else None
