"""Sections that set one virtue against another: Pareto fronts, and what a picture takes to make."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from ..inputs import InputError
from ..suites.tables import Cell
from .charts import Chart, Grid, Series, lines
from .charts import Point as At
from .material import Material, Section, of_metric, subject_of
from .planes import Spot, scatter

GENERATED = "generated.jsonl"
_SUBJECTS = {"following": "instruction following", "consistency": "consistency", "quality": "quality"}


# -- Pareto fronts ----------------------------------------------------------------------------------------------------


def pareto(material: Material) -> Section | None:
    """Following, consistency and quality against each other, of those that there are at least two of."""
    axes = {subject: found for subject in _SUBJECTS if (found := _axis(material, subject)) is not None}
    blocks: list[Chart | Grid] = []
    if len(material.editors) < 2:
        return None
    for one, other in combinations(axes, 2):
        x_title, xs = axes[one]
        y_title, ys = axes[other]
        spots = _spots(material, xs, ys)
        if len(spots) >= 2:
            blocks.append(scatter(f"{x_title} against {y_title}", spots, x_title, y_title))
    lead = "On the front: editors that no other is better than in one way without being worse in the other."
    return Section("pareto", "Trade-offs", lead, blocks) if blocks else None


def _spots(material: Material, xs: Mapping[str, Cell], ys: Mapping[str, Cell]) -> list[Spot]:
    found = []
    for kind, editor in enumerate(material.editors):
        x, y = xs.get(editor), ys.get(editor)
        if x is not None and y is not None and x.value is not None and y.value is not None:
            found.append(Spot(editor, kind, x.value, y.value, x.low, x.high, y.low, y.high))
    return found


def _axis(material: Material, subject: str) -> tuple[str, dict[str, Cell]] | None:
    """The last column of the leaderboard that is about it, else the mean of the first such metric."""
    board, weights = material.side.leaderboard, material.side.weights
    columns = [column for column in board.columns if _about(material, column) == subject]
    if columns:
        column = columns[-1]
        title = f"{column}, {board.unit}" if board.unit else column
        cells = {e: Cell.of(row[column], weights, board.scale) for e, row in board.rows.items() if column in row}
        return title, cells
    metric = next((name for name in material.metrics if material.subjects[name] == subject), None)
    if metric is None:
        return None
    return metric, {one.editor: material.mean(one, one.rows, of_metric(metric)) for one in material.results}


def _about(material: Material, column: str) -> str:
    return material.subjects.get(column) or subject_of(column)


# -- latency ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Taken:
    """Seconds that one picture took to make. item: which."""

    item: str
    seconds: float


def read_seconds(folder: Path) -> list[Taken]:
    """Of the pictures in a folder of outputs; none where nobody has written it down. Raises `InputError`."""
    path = folder / GENERATED
    if not path.is_file():
        return []
    found: dict[str, Taken] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
            if row.get("seconds") is not None:
                found[row["item"]] = Taken(str(row["item"]), float(row["seconds"]))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise InputError(f"{path}:{number} does not say what a picture took: {error}") from None
    return list(found.values())


def latency(material: Material) -> Section | None:
    """How long pictures took: percentiles, their distribution, and against what editors are ranked by."""
    taken = {editor: seconds for editor, folder in material.outputs.items() if (seconds := read_seconds(folder))}
    if not taken:
        return None
    kinds = {editor: number for number, editor in enumerate(material.editors)}
    rows, series = [], []
    for editor in material.editors:
        if editor not in taken:
            continue
        times = np.sort(np.array([one.seconds for one in taken[editor]]))
        middle, most, longest = np.quantile(times, [0.5, 0.95, 1.0])
        rows.append([editor, str(len(times)), *(_seconds(v) for v in (times.mean(), middle, most, longest)),
                     f"{times.sum() / 60:.1f}"])  # fmt: skip
        places = np.unique(np.linspace(0, len(times) - 1, min(len(times), 200)).round().astype(int))
        points = [At(max(float(times[at]), 1e-4), (at + 1) / len(times)) for at in places]
        series.append(Series(editor, points, kinds[editor]))
    head = ["", "pictures", "mean s", "median s", "95 % within s", "longest s", "in all, min"]
    blocks: list[Chart | Grid] = [Grid(head, rows)]
    title = "Share of pictures that were made within so many seconds"
    blocks.append(lines(title, series, "seconds a picture", "share of pictures", log=True, marks=False, share=True,
                        zero=True))  # fmt: skip
    blocks += _against(material, {editor: float(np.mean([one.seconds for one in s])) for editor, s in taken.items()})
    lead = "As it was measured when the pictures were made, one after the other or in batches as the editor likes."
    return Section("latency", "Latency", lead, blocks)


def _against(material: Material, means: Mapping[str, float]) -> Sequence[Chart]:
    board, column = material.side.leaderboard, material.side.headline
    spots = []
    for kind, editor in enumerate(material.editors):
        figure = board.rows.get(editor, {}).get(column)
        if editor in means and figure is not None and figure.value is not None:
            cell = Cell.of(figure, material.side.weights, board.scale)
            assert cell.value is not None
            spots.append(Spot(editor, kind, means[editor], cell.value, None, None, cell.low, cell.high))
    if len(spots) < 2:
        return []
    y_title = f"{column}, {board.unit}" if board.unit else column
    return [scatter(f"{column} against latency", spots, "mean seconds a picture", y_title, less_x=True)]


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"
