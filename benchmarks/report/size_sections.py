"""Scores by the size of the edited object, with a sliding window (DLEBench, figure 6)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..suites.dlebench.suite import MILLION, WINDOW_SIZE, SizeCurve, size_curve
from ..suites.results import ResultRow, Results
from .charts import CellContent, Chart, Point, Series, TableView, line_chart
from .report_data import ReportData, ReportSection

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
