"""Scores against the size of what is to be edited, with a sliding window (DLEBench, figure 6)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..suites.results import Results
from .charts import Chart, Grid, Point, Series, Shown, lines
from .material import Material, Section
from .svg import number

WINDOW = 10
"""Samples that a point of the curve is the mean of, as in the paper."""
_LEAST = 20
_MOST_POINTS = 400


def scale(material: Material) -> Section | None:
    """A curve of each metric over the area of the targets, with Pearson's r of the samples themselves."""
    charts: list[Chart] = []
    rows: list[list[Shown]] = []
    kinds = {editor: number for number, editor in enumerate(material.editors)}
    for metric in material.metrics:
        series: list[Series] = []
        found: list[list[Shown]] = []
        for one in material.results:
            pairs = sorted(_pairs(material, one, metric))
            if len(pairs) >= _LEAST and pairs[0][0] < pairs[-1][0]:
                series.append(Series(one.editor, _window(pairs), kinds[one.editor]))
                found.append([one.editor, *_correlated(pairs)])
        if series:
            words = f"{metric}, mean of {WINDOW} neighbours"
            share = metric in material.shares
            charts.append(lines(metric, series, "area of the targets, share of the picture", words, log=True,
                                marks=False, share=share))  # fmt: skip
            rows += [[metric], *found]
    if not charts:
        return None
    head = ["", "Pearson's r with log area", "95 % interval", "p", "samples"]
    notes = ["r, its interval and p are of the samples, not of the windows, which overlap (Fisher's z)."]
    grid = Grid(head, rows, title="Correlation with size", notes=notes)
    lead = f"Samples in order of the area of their targets; each point is the mean of {WINDOW} that follow each other."
    return Section("scale", "Size of the object", lead, [*charts, grid])


def _pairs(material: Material, one: Results, metric: str) -> list[tuple[float, float]]:
    """(area, value) of each row that has both; of several targets, their mean area."""
    found = []
    for row in one.rows:
        item, value = material.items.get(row.id), row.value(metric)
        targets = () if item is None else item.sample.targets
        if value is not None and targets and all(box.area > 0 for box in targets):
            found.append((sum(box.area for box in targets) / len(targets), value))
    return found


def _window(pairs: Sequence[tuple[float, float]]) -> list[Point]:
    areas, values = np.log([area for area, _ in pairs]), np.array([value for _, value in pairs])
    mean = np.ones(WINDOW) / WINDOW
    xs, ys = np.exp(np.convolve(areas, mean, "valid")), np.convolve(values, mean, "valid")
    kept = np.unique(np.linspace(0, len(xs) - 1, min(len(xs), _MOST_POINTS)).round().astype(int))
    return [Point(float(xs[at]), float(ys[at])) for at in kept]


def _correlated(pairs: Sequence[tuple[float, float]]) -> list[Shown]:
    """r, its interval and its p-value by Fisher's z; dashes where one side is constant."""
    xs, ys = np.log([area for area, _ in pairs]), np.array([value for _, value in pairs])
    if xs.std() == 0 or ys.std() == 0:
        return ["–", "–", "–", str(len(pairs))]
    r = float(np.corrcoef(xs, ys)[0, 1])
    z, error = math.atanh(max(-0.999999, min(0.999999, r))), 1 / math.sqrt(len(pairs) - 3)
    low, high = math.tanh(z - 1.96 * error), math.tanh(z + 1.96 * error)
    p = math.erfc(abs(z) / error / math.sqrt(2))
    said = "< 0.001" if p < 0.001 else number(p)
    return [f"{r:.3f}", f"{low:.3f} to {high:.3f}", said, str(len(pairs))]
