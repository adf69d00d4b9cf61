"""Curves over levels of complexity, drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..extras import bench
from ..inputs import InputError
from ..suites.tables import Cell, Computed

_SUFFIXES = (".png", ".svg", ".pdf")


def draw(path: Path, tables: Sequence[Computed], ways: Sequence[str]) -> None:
    """A panel a table: each way's mean at each level with its 95 % interval. Raises `InputError`, OSError."""
    if path.suffix.lower() not in _SUFFIXES:
        raise InputError(f"expected a name that ends in one of {', '.join(_SUFFIXES)}, got {path.name}")
    if not tables:
        raise InputError("there are no curves to draw: levels are for --direct and the others")
    figures = bench("matplotlib.figure")
    figure = figures.Figure(figsize=(4.2 * len(tables), 3.4), layout="constrained")
    for place, (axes, table) in enumerate(zip(figure.subplots(1, len(tables), squeeze=False)[0], tables, strict=True)):
        levels = [name for name in table.cells if " - " not in name]
        for number, way in enumerate(ways):
            cells = [table.cells[level].get(way) for level in levels]
            points = [(x, *_ends(cell)) for x, cell in enumerate(cells) if cell is not None and cell.value is not None]
            xs = [point[0] + 0.06 * (number - (len(ways) - 1) / 2) for point in points]
            ys = [point[1] for point in points]
            reach = [[max(0.0, point[side]) for point in points] for side in (2, 3)]
            axes.errorbar(xs, ys, yerr=reach, label=way, marker="o", markersize=3, capsize=2, linewidth=1.3)
        axes.set_xticks(range(len(levels)), levels)
        axes.set_title(table.table.title, fontsize=10)
        axes.grid(alpha=0.25)
        if place == 0:
            axes.legend(fontsize=8, frameon=False)
    figure.savefig(path, dpi=150)


def _ends(cell: Cell) -> tuple[float, float, float]:
    """The value, and how far its interval reaches below and above."""
    value = 0.0 if cell.value is None else cell.value
    below = 0.0 if cell.low is None else value - cell.low
    return value, below, 0.0 if cell.high is None else cell.high - value
