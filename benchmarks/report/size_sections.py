"""Scores against the size of what is to be edited, with a sliding window (DLEBench, figure 6)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..suites.dlebench.scale import MILLION, WINDOW, ScaleCurve, scale_curve
from ..suites.results import Results, Row
from .charts import Chart, Grid, Point, Series, Shown, lines
from .material import Material, Section

_LEAST = 2 * WINDOW
_MOST_POINTS = 400


def scale(material: Material) -> Section | None:
    """A curve of each metric that is a share over the area of the smallest target, with Pearson's r."""
    placed = [_placed(material, one) for one in material.results]
    if not any("area" in row.labels for one in placed for row in one.rows):
        return None
    charts: list[Chart] = []
    rows: list[list[Shown]] = []
    for metric in material.metrics:
        if metric not in material.shares:
            continue
        found = [(kind, one.editor, scale_curve(one, metric)) for kind, one in enumerate(placed)]
        found = [(kind, editor, curve) for kind, editor, curve in found if len(curve.areas) >= _LEAST]
        series = [Series(editor, _points(curve), kind) for kind, editor, curve in found]
        if series and any(curve.areas[0] < curve.areas[-1] for _, _, curve in found):
            title = f"{metric}, mean of {WINDOW} neighbours"
            charts.append(lines(metric, series, "area of the smallest target, share of the picture", title, log=True,
                                marks=False, share=True))  # fmt: skip
            rows += [[metric], *([editor, *_correlated(curve)] for _, editor, curve in found)]
    if not charts:
        return None
    head = ["", "r, windows", "p", "r, samples", "p", "samples"]
    notes = [
        "Pearson's r with the area, of the samples and of the windows.",
        "Windows, which the paper takes, share their samples: their p is far too sure of itself.",
    ]
    grid = Grid(head, rows, title="Correlation with size", notes=notes)
    lead = f"Samples in order of the area of their smallest target; each point is the mean of {WINDOW} in a row."
    return Section("scale", "Size of the object", lead, [*charts, grid])


def _placed(material: Material, one: Results) -> Results:
    """With the label `area` (millionths of the picture) where the suite gives none and there are targets."""

    def labelled(row: Row) -> Row:
        item = material.items.get(row.id)
        areas = [] if item is None or "area" in row.labels else [box.area for box in item.sample.targets]
        return replace(row, labels={**row.labels, "area": round(MILLION * min(areas))}) if areas else row

    return replace(one, rows=[labelled(row) for row in one.rows])


def _points(curve: ScaleCurve) -> list[Point]:
    """Of the windows, as many as can be told apart."""
    count = len(curve.window_areas)
    kept = np.unique(np.linspace(0, count - 1, min(count, _MOST_POINTS)).round().astype(int))
    return [Point(max(float(curve.window_areas[at]), 1e-7), float(curve.window_scores[at]) / 100) for at in kept]


def _correlated(curve: ScaleCurve) -> list[Shown]:
    pairs = ((curve.r, curve.p), (curve.sample_r, curve.sample_p))
    said = [text for r, p in pairs for text in ("–" if r is None else f"{r:.3f}", _p(p))]
    return [*said, str(len(curve.areas))]


def _p(value: float | None) -> str:
    return "–" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"
