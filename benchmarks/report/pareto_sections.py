"""Trade-offs: Pareto fronts of following, consistency and quality, generation latency, and the size of the target."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np

from ...reward.plain_text import one_line
from ...reward.strict_json import json_lines
from ..common.errors import InputError
from ..suites.dlebench.suite import MILLION, WINDOW_SIZE, SizeCurve, size_curve
from ..suites.results import ResultRow, Results
from ..suites.suite import LabelValue
from ..suites.tables import TableCell
from .charts import CellContent, Chart, Point, ScatterPoint, Series, TableView, line_chart, scatter_chart
from .report_data import ReportData, ReportSection, metric_subject, metric_value, with_unit

GENERATED = "generated.jsonl"
_SUBJECTS = ("following", "consistency", "quality")


def pareto_section(report: ReportData) -> ReportSection | None:
    """Scatter charts of following, consistency and quality, for all pairs that the results have. One for each turn, the
    last one first, where the leaderboard has columns of turns."""
    if len(report.editors) < 2:
        return None
    turns = [turn for turn in report.groups("turn") if _columns_at(report.comparison.leaderboard.columns, turn)]
    blocks: list[Chart | TableView] = []
    for turn in reversed(turns) if turns else (None,):
        axes = [axis for subject in _SUBJECTS if (axis := _axis(report, subject, turn)) is not None]
        for (x_title, xs), (y_title, ys) in combinations(axes, 2):
            points = []
            for editor, style in report.styles.items():
                x, y = xs.get(editor), ys.get(editor)
                if x is not None and y is not None and x.value is not None and y.value is not None:
                    points.append(ScatterPoint(editor, style, x.value, y.value, x.low, x.high, y.low, y.high))
            if len(points) >= 2:
                blocks.append(scatter_chart(f"{x_title} against {y_title}", points, x_title, y_title))
    introduction = "The front holds the editors that no other editor dominates."
    return ReportSection("pareto", "Trade-offs", introduction, blocks) if blocks else None


def _axis(report: ReportData, subject: str, turn: LabelValue | None) -> tuple[str, dict[str, TableCell]] | None:
    """The last leaderboard column of this subject, else the mean of its first metric; both at a turn, if any."""
    board, weights = report.comparison.leaderboard, report.comparison.weights
    columns = [column for column in board.columns if (report.subjects.get(column) or metric_subject(column)) == subject]
    if columns:
        column = (columns if turn is None else _columns_at(columns, turn) or columns)[-1]
        title = with_unit(column, board.unit)
        cells = {e: TableCell.of(row[column], weights, board.scale) for e, row in board.rows.items() if column in row}
        return title, cells
    metric = next((name for name in report.metrics if report.subjects[name] == subject), None)
    if metric is None:
        return None
    at = {} if turn is None else {"turn": turn}
    cells = {one.editor: report.mean(one, one.filter(**at), metric_value(metric)) for one in report.results}
    return (metric if turn is None else f"{metric} turn {turn}"), cells


def _columns_at(columns: Iterable[str], turn: LabelValue) -> list[str]:
    return [column for column in columns if re.search(rf"(?<!\d){re.escape(str(turn))}$", column)]


def read_generation_times(folder: Path) -> dict[str, float]:
    """Item -> seconds, as recorded in an outputs folder; empty without a record. Raises `InputError`."""
    path = folder / GENERATED
    times: dict[str, float] = {}
    for number, row in json_lines(path, inside=folder) if path.is_file() else ():
        try:
            if isinstance(row, ValueError):
                raise row
            if row.get("seconds") is not None:
                times[row["item"]] = float(row["seconds"])
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise InputError(one_line(f"{path}:{number} has no generation time: {error}")) from None
    return times


def latency_section(report: ReportData) -> ReportSection | None:
    """Generation latency: percentiles, distribution, and a scatter chart with the ranking column."""
    times_by_editor = {
        editor: np.sort(np.array(list(times.values())))
        for editor in report.editors
        if editor in report.outputs and (times := read_generation_times(report.outputs[editor]))
    }
    if not times_by_editor:
        return None
    rows, series, points = [], [], []
    board, column = report.comparison.leaderboard, report.comparison.headline
    for editor, seconds in times_by_editor.items():
        facts = (seconds.mean(), *np.quantile(seconds, [0.5, 0.95, 1.0]))
        texts = [f"{value:.2f}" if value < 100 else f"{value:.0f}" for value in facts]
        rows.append([editor, str(len(seconds)), *texts, f"{seconds.sum() / 60:.1f}"])
        curve = [
            Point(max(float(seconds[at]), 1e-4), (at + 1) / len(seconds)) for at in _spread_indices(len(seconds), 200)
        ]
        series.append(Series(editor, curve, report.styles[editor]))
        statistic = board.rows.get(editor, {}).get(column)
        cell = None if statistic is None else TableCell.of(statistic, report.comparison.weights, board.scale)
        if cell is not None and cell.value is not None:
            x, y = float(seconds.mean()), cell.value
            points.append(ScatterPoint(editor, report.styles[editor], x, y, None, None, cell.low, cell.high))
    head = ["", "images", "mean s", "median s", "95th percentile s", "max s", "total min"]
    title = "Cumulative distribution of the generation time"
    blocks: list[Chart | TableView] = [
        TableView(head, rows),
        line_chart(title, series, "seconds per image", "share of images", log=True, marks=False, share=True, zero=True),
    ]
    if len(points) >= 2:
        x_title, y_title = "mean seconds per image", with_unit(column, board.unit)
        blocks.append(scatter_chart(f"{column} against latency", points, x_title, y_title, minimize_x=True))
    introduction = "Measured during generation, one image at a time or in batches of the editor."
    return ReportSection("latency", "Latency", introduction, blocks)


def _spread_indices(count: int, at_most: int) -> list[int]:
    """Indices below `count` from the first to the last, evenly spread."""
    indices: list[int] = np.unique(np.linspace(0, count - 1, min(count, at_most)).round().astype(int)).tolist()
    return indices


_MIN_SAMPLES = 2 * WINDOW_SIZE
_MAX_POINTS = 400


def size_section(report: ReportData) -> ReportSection | None:
    """A curve of each metric in [0, 1] over the area of the smallest target, with Pearson's r."""
    labelled = [_with_area_label(report, results) for results in report.results]
    if not any("area" in row.labels for results in labelled for row in results.rows):
        return None
    charts: list[Chart] = []
    rows: list[list[CellContent]] = []
    for metric in report.metrics:
        if metric not in report.shares:
            continue
        curves = {results.editor: size_curve(results, metric) for results in labelled}
        curves = {editor: curve for editor, curve in curves.items() if len(curve.areas) >= _MIN_SAMPLES}
        if any(curve.areas[0] < curve.areas[-1] for curve in curves.values()):
            series = [Series(editor, _points(curve), report.styles[editor]) for editor, curve in curves.items()]
            x_title = "area of the smallest target, share of the image"
            y_title = f"{metric}, mean of {WINDOW_SIZE} neighbours"
            charts.append(line_chart(metric, series, x_title, y_title, log=True, marks=False, share=True))
            rows += [[metric], *([editor, *_correlated(curve)] for editor, curve in curves.items())]
    if not charts:
        return None
    head = ["", "r, windows", "p", "r, samples", "p", "samples"]
    notes = [
        "Pearson's r with the area, over samples and over windows.",
        "Windows, as in the paper, share samples: their p-values are too small.",
    ]
    grid = TableView(head, rows, title="Correlation with size", notes=notes)
    introduction = f"Samples sorted by the area of their smallest target; points are means of {WINDOW_SIZE} in a row."
    return ReportSection("scale", "Size of the object", introduction, [*charts, grid])


def _with_area_label(report: ReportData, results: Results) -> Results:
    """Results with the label `area` (millionths of the image), from the targets if the suite has no such label."""

    def labelled(row: ResultRow) -> ResultRow:
        item = report.items.get(row.id)
        areas = [] if item is None or "area" in row.labels else [box.area for box in item.sample.targets]
        return replace(row, labels={**row.labels, "area": round(MILLION * min(areas))}) if areas else row

    return replace(results, rows=[labelled(row) for row in results.rows])


def _points(curve: SizeCurve) -> list[Point]:
    areas, scores = curve.window_areas, curve.window_scores
    indices = _spread_indices(len(areas), _MAX_POINTS)
    return [Point(max(float(areas[index]), 1e-7), float(scores[index]) / 100) for index in indices]


def _correlated(curve: SizeCurve) -> list[CellContent]:
    texts: list[CellContent] = []
    for r, p in ((curve.r, curve.p), (curve.sample_r, curve.sample_p)):
        texts += ["–" if r is None else f"{r:.3f}", "–" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"]
    return [*texts, str(len(curve.areas))]
