"""Trade-offs: Pareto fronts of following, consistency and quality, and generation latency."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np

from ...reward.plain_text import one_line
from ...reward.strict_json import json_lines
from ..common.errors import InputError
from ..suites.dlebench.tables import MILLION, WINDOW_SIZE, SizeCurve, size_curve
from ..suites.results import ResultRow, Results
from ..suites.suite import LabelValue
from ..suites.tables import TableCell
from .charts import CellContent, Chart, Point, ScatterPoint, Series, TableView, line_chart, scatter_chart
from .report_data import ReportData, ReportSection, metric_subject, metric_value

GENERATED = "generated.jsonl"
_SUBJECTS = {"following": "instruction following", "consistency": "consistency", "quality": "quality"}


# -- Pareto fronts ----------------------------------------------------------------------------------------------------


def pareto_section(report: ReportData) -> ReportSection | None:
    """Scatter charts of following, consistency and quality, for all pairs that the results have.

    One for each turn, the last one first, where the leaderboard has columns of turns.
    """
    if len(report.editors) < 2:
        return None
    turns = [turn for turn in report.groups("turn") if _columns_at(report.comparison.leaderboard.columns, turn)]
    blocks: list[Chart | TableView] = []
    for turn in reversed(turns) if turns else (None,):
        axes = {subject: axis for subject in _SUBJECTS if (axis := _axis(report, subject, turn)) is not None}
        for x_subject, y_subject in combinations(axes, 2):
            x_title, xs = axes[x_subject]
            y_title, ys = axes[y_subject]
            points = _spots(report, xs, ys)
            if len(points) >= 2:
                blocks.append(scatter_chart(f"{x_title} against {y_title}", points, x_title, y_title))
    introduction = "The front holds the editors that no other editor dominates."
    return ReportSection("pareto", "Trade-offs", introduction, blocks) if blocks else None


def _spots(report: ReportData, xs: Mapping[str, TableCell], ys: Mapping[str, TableCell]) -> list[ScatterPoint]:
    points = []
    for style_index, editor in enumerate(report.editors):
        x, y = xs.get(editor), ys.get(editor)
        if x is not None and y is not None and x.value is not None and y.value is not None:
            points.append(ScatterPoint(editor, style_index, x.value, y.value, x.low, x.high, y.low, y.high))
    return points


def _axis(report: ReportData, subject: str, turn: LabelValue | None) -> tuple[str, dict[str, TableCell]] | None:
    """The last leaderboard column of this subject, else the mean of its first metric; both at a turn, if any."""
    board, weights = report.comparison.leaderboard, report.comparison.weights
    columns = [column for column in board.columns if _about(report, column) == subject]
    if columns:
        column = (columns if turn is None else _columns_at(columns, turn) or columns)[-1]
        title = f"{column}, {board.unit}" if board.unit else column
        cells = {e: TableCell.of(row[column], weights, board.scale) for e, row in board.rows.items() if column in row}
        return title, cells
    metric = next((name for name in report.metrics if report.subjects[name] == subject), None)
    if metric is None:
        return None
    at = {} if turn is None else {"turn": turn}
    cells = {one.editor: report.mean(one, one.filter(**at), metric_value(metric)) for one in report.results}
    return (metric if turn is None else f"{metric} turn {turn}"), cells


def _columns_at(columns: Iterable[str], turn: LabelValue) -> list[str]:
    """The columns that end in the number of a turn."""
    return [column for column in columns if re.search(rf"(?<!\d){re.escape(str(turn))}$", column)]


def _about(report: ReportData, column: str) -> str:
    return report.subjects.get(column) or metric_subject(column)


# -- latency ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GenerationTime:
    """Generation time of one image. item: its id."""

    item: str
    seconds: float


def read_generation_times(folder: Path) -> list[GenerationTime]:
    """Generation times recorded in an outputs folder; empty without a record. Raises `InputError`."""
    path = folder / GENERATED
    if not path.is_file():
        return []
    times: dict[str, GenerationTime] = {}
    for number, row in json_lines(path, inside=folder):
        try:
            if isinstance(row, ValueError):
                raise row
            if row.get("seconds") is not None:
                times[row["item"]] = GenerationTime(str(row["item"]), float(row["seconds"]))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise InputError(one_line(f"{path}:{number} has no generation time: {error}")) from None
    return list(times.values())


def latency_section(report: ReportData) -> ReportSection | None:
    """Generation latency: percentiles, distribution, and a scatter chart with the ranking column."""
    times_by_editor = {
        editor: seconds for editor, folder in report.outputs.items() if (seconds := read_generation_times(folder))
    }
    if not times_by_editor:
        return None
    style_indices = {editor: number for number, editor in enumerate(report.editors)}
    rows, series = [], []
    for editor in report.editors:
        if editor not in times_by_editor:
            continue
        times = np.sort(np.array([time.seconds for time in times_by_editor[editor]]))
        median, percentile_95, longest = np.quantile(times, [0.5, 0.95, 1.0])
        rows.append([editor, str(len(times)), *(_seconds(v) for v in (times.mean(), median, percentile_95, longest)),
                     f"{times.sum() / 60:.1f}"])  # fmt: skip
        indices = np.unique(np.linspace(0, len(times) - 1, min(len(times), 200)).round().astype(int))
        points = [Point(max(float(times[index]), 1e-4), (index + 1) / len(times)) for index in indices]
        series.append(Series(editor, points, style_indices[editor]))
    head = ["", "images", "mean s", "median s", "95th percentile s", "max s", "total min"]
    blocks: list[Chart | TableView] = [TableView(head, rows)]
    title = "Cumulative distribution of the generation time"
    blocks.append(line_chart(title, series, "seconds per image", "share of images", log=True, marks=False, share=True,
                        zero=True))  # fmt: skip
    blocks += _latency_scatter(
        report,
        {
            editor: float(np.mean([time.seconds for time in editor_times]))
            for editor, editor_times in times_by_editor.items()
        },
    )
    introduction = "Measured during generation, one image at a time or in batches of the editor."
    return ReportSection("latency", "Latency", introduction, blocks)


def _latency_scatter(report: ReportData, means: Mapping[str, float]) -> Sequence[Chart]:
    board, column = report.comparison.leaderboard, report.comparison.headline
    points = []
    for style_index, editor in enumerate(report.editors):
        statistic = board.rows.get(editor, {}).get(column)
        if editor in means and statistic is not None and statistic.value is not None:
            cell = TableCell.of(statistic, report.comparison.weights, board.scale)
            assert cell.value is not None
            points.append(ScatterPoint(editor, style_index, means[editor], cell.value, None, None, cell.low, cell.high))
    if len(points) < 2:
        return []
    y_title = f"{column}, {board.unit}" if board.unit else column
    return [scatter_chart(f"{column} against latency", points, "mean seconds per image", y_title, minimize_x=True)]


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


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
        curves = [
            (style_index, results.editor, size_curve(results, metric)) for style_index, results in enumerate(labelled)
        ]
        curves = [
            (style_index, editor, curve) for style_index, editor, curve in curves if len(curve.areas) >= _MIN_SAMPLES
        ]
        series = [Series(editor, _points(curve), style_index) for style_index, editor, curve in curves]
        if series and any(curve.areas[0] < curve.areas[-1] for _, _, curve in curves):
            title = f"{metric}, mean of {WINDOW_SIZE} neighbours"
            charts.append(line_chart(metric, series, "area of the smallest target, share of the image", title, log=True,
                                marks=False, share=True))  # fmt: skip
            rows += [[metric], *([editor, *_correlated(curve)] for _, editor, curve in curves)]
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
    """Points of the windows, at most `_MAX_POINTS`."""
    count = len(curve.window_areas)
    indices = np.unique(np.linspace(0, count - 1, min(count, _MAX_POINTS)).round().astype(int))
    return [
        Point(max(float(curve.window_areas[index]), 1e-7), float(curve.window_scores[index]) / 100) for index in indices
    ]


def _correlated(curve: SizeCurve) -> list[CellContent]:
    pairs = ((curve.r, curve.p), (curve.sample_r, curve.sample_p))
    texts = [text for r, p in pairs for text in ("–" if r is None else f"{r:.3f}", _format_p_value(p))]
    return [*texts, str(len(curve.areas))]


def _format_p_value(value: float | None) -> str:
    return "–" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"
