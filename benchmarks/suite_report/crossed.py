"""Sections that cross two groupings: categories and dimensions, single and multi-image edits, shapes of the input."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ...reward import Evidence, Score
from ..suites.figures import Figure
from ..suites.results import Results, Row
from ..suites.suite import Label
from ..suites.tables import Cell
from .charts import Chart, Grid, Series, Shown, bars, lines
from .material import Material, Section, of_metric, point, words
from .svg import number

_TYPES = ("category", "type")
SHAPE = "shape"


# -- categories and dimensions ----------------------------------------------------------------------------------------


def categories(material: Material) -> Section | None:
    """The mean of each metric in each category: dimensions down, categories across, a table an editor."""
    values = material.groups("category")
    if not values or len(material.metrics) < 2:
        return None
    blocks: list[Chart | Grid] = []
    for one in material.results:
        rows: list[list[Shown]] = []
        for metric in material.metrics:
            cells = [material.mean(one, one.where(category=value), of_metric(metric)) for value in values]
            if any(cell.value is not None for cell in cells):
                rows.append([metric, *(_heat(cell, metric in material.shares) for cell in cells)])
        blocks.append(Grid(["", *map(words, values)], rows, title=one.editor))
    lead = "Means, with 95 % intervals. Empty: the dimension is not asked about in that category."
    return Section("categories", "Category by dimension", lead, blocks)


def _heat(cell: Cell, share: bool) -> Shown:
    if cell.value is None:
        return ("", "", None)
    below = "" if cell.low is None else f"{number(cell.low, 2)} to {number(cell.high, 2)}"
    return (number(cell.value), below, cell.value if share else None)


# -- one source or several --------------------------------------------------------------------------------------------


def sources(material: Material) -> Section | None:
    """Edits of one picture against edits of several, in each dimension and over all of them."""
    many = _several(material)
    if many is None:
        return None
    names = ("single", "multi")
    blocks: list[Chart | Grid] = []
    pairs = [(name, _of_several(material, name)) for name in material.metrics]
    both = [one for one in pairs if _asked(material, one[0], many, False) and _asked(material, one[1], many, True)]
    rows: list[list[Shown]] = []
    overall = []
    for kind, one in enumerate(material.results):
        halves = [[row for row in one.rows if many(row) is several] for several in (False, True)]
        means = [_pooled(material, one, half) for half in halves]
        overall.append(Series(one.editor, [point(float(at), cell, names[at]) for at, cell in enumerate(means)], kind))
        rows.append([one.editor])
        for metric, of_several in [*both, ("", "")]:
            asked = zip(halves, (metric, of_several), strict=True)
            figures = [
                one.mean(half, of_metric(name)) if name else _over_all(material, one, half) for half, name in asked
            ]
            cells = [material.cell(one, figure) for figure in figures]
            less = material.cell(one, Figure.of(lambda a, b: b - a, *figures))
            share = not metric or metric in material.shares
            rows.append([metric or "all dimensions", *(_heat(cell, share) for cell in cells), _heat(less, False)])
    blocks.append(bars("All dimensions together", overall, names, "pictures that an edit starts from", "mean"))
    head = ["", *names, "multi − single"]
    notes = ["All dimensions: the mean over all scores, so that a dimension counts as often as it was asked about."]
    blocks.append(Grid(head, rows, title="Dimensions that both have", notes=notes))
    lead = "Edits that start from one picture, and edits that put several together."
    return Section("sources", "Single and multi-image", lead, blocks)


def _several(material: Material) -> Callable[[Row], bool] | None:
    """Whether a row's edit starts from several pictures; None where all of them, or none, do."""

    def many(row: Row) -> bool:
        item = material.items.get(row.id)
        return item is not None and len(item.sample.sources) > 1

    found = {many(row) for one in material.results for row in one.rows}
    return many if len(found) == 2 else None


def _of_several(material: Material, metric: str) -> str:
    """The metric of edits of several pictures that goes by that name, with `multi-` before it where there is one."""
    return f"multi-{metric}" if f"multi-{metric}" in material.metrics else metric


def _asked(material: Material, metric: str, many: Callable[[Row], bool], several: bool) -> bool:
    return any(row.value(metric) is not None and many(row) is several for one in material.results for row in one.rows)


def _over_all(material: Material, one: Results, rows: Sequence[Row]) -> Figure:
    """The mean over all scores of all metrics that are shares."""
    names = [name for name in material.metrics if name in material.shares]
    sums = [one.mean(rows, _summed(names)), one.mean(rows, _counted(names))]
    return Figure.of(lambda a, b: a / np.where(b > 0, b, np.nan), *sums)


def _summed(names: Sequence[str]) -> Callable[[Row], float | None]:
    return lambda row: sum(value for name in names if (value := row.value(name)) is not None)


def _counted(names: Sequence[str]) -> Callable[[Row], float | None]:
    return lambda row: float(sum(row.value(name) is not None for name in names))


def _pooled(material: Material, one: Results, rows: Sequence[Row]) -> Cell:
    return material.cell(one, _over_all(material, one, rows))


# -- luminance, and inputs that were padded ---------------------------------------------------------------------------


def light(material: Material) -> Section | None:
    """How bright the brightest parts become over the turns, for metrics that measured it (EdiVal)."""
    turns = material.labels.get("turn", ())
    quantiles = ("99.9 %", "99 %")
    blocks: list[Chart | Grid] = []
    if any(_bright(row, "edited", quantiles[0]) is not None for one in material.results for row in one.rows):
        steps = ["input", *(f"turn {turn}" for turn in turns)] if turns else ["input", "edited"]
        for quantile in quantiles:
            series = [
                Series(
                    one.editor, [point(float(at), cell, steps[at]) for at, cell in _drift(material, one, quantile)], n
                )
                for n, one in enumerate(material.results)
            ]
            title = f"{quantile} quantile of luminance"
            blocks.append(lines(title, series, "turn", "luminance", steps=steps))
    lead = "Rec. 709 luminance of the brightest pixels: editors that brighten at each turn end over-exposed."
    return Section("light", "Luminance", lead, blocks) if blocks else None


def _drift(material: Material, one: Results, quantile: str) -> Iterator[tuple[int, Cell]]:
    first = one.rows
    turns: Sequence[Label] = material.labels.get("turn", ())
    if turns:
        first = one.where(turn=turns[0])
    yield 0, material.mean(one, first, lambda row: _bright(row, "base", quantile))
    for at, rows in enumerate([one.where(turn=turn) for turn in turns] or [list(one.rows)], start=1):
        yield at, material.mean(one, rows, lambda row: _bright(row, "edited", quantile))


def _bright(row: Row, which: str, quantile: str) -> float | None:
    for score in row.scores.values():
        for item in _evidence(score):
            if item.what == f"luminance of the {which} picture" and quantile in item.numbers:
                return item.numbers[quantile]
    return None


def _evidence(score: Score) -> Iterator[Evidence]:
    yield from score.evidence
    for part in (*score.parts.values(), *score.credits.values()):
        yield from _evidence(part)


def shapes(material: Material) -> Section | None:
    """Metrics on pictures that are square by themselves against those that were padded to a square (EdiVal)."""
    if not material.groups(SHAPE):
        return None
    values = material.groups(SHAPE)
    blocks: list[Chart | Grid] = []
    for metric in material.metrics:
        series = []
        for kind, one in enumerate(material.results):
            cells = [material.mean(one, one.where(**{SHAPE: value}), of_metric(metric)) for value in values]
            points = [point(float(at), cell, words(values[at])) for at, cell in enumerate(cells)]
            series.append(Series(one.editor, points, kind))
        if any(at.y is not None for one in series for at in one.points):
            blocks.append(bars(metric, series, [words(value) for value in values], "shape of the input", metric))
    lead = "Inputs that were padded to a square have black bars; some editors paint into them."
    return Section("shapes", "Shape of the input", lead, blocks) if blocks else None
