"""Plots of curves over levels of complexity."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..common.errors import InputError
from ..common.optional_imports import bench_library
from ..suites.tables import ComputedTable, TableCell

_SUFFIXES = (".png", ".svg", ".pdf")


def draw(path: Path, tables: Sequence[ComputedTable], strategies: Sequence[str]) -> None:
    """One panel per table: each strategy's mean at each level with its 95 % interval. Raises `InputError`, OSError."""
    if path.suffix.lower() not in _SUFFIXES:
        raise InputError(f"expected a file name with the suffix {', '.join(_SUFFIXES)}, got {path.name}")
    if not tables:
        raise InputError("there are no curves to plot: --plot draws direct and sequential editing by level")
    figures = bench_library("matplotlib.figure")
    figure = figures.Figure(figsize=(4.2 * len(tables), 3.4), layout="constrained")
    for index, (axes, table) in enumerate(zip(figure.subplots(1, len(tables), squeeze=False)[0], tables, strict=True)):
        levels = [name for name in table.cells if " - " not in name]
        for number, strategy in enumerate(strategies):
            cells = [table.cells[level].get(strategy) for level in levels]
            points = [
                (x, *_error_bar(cell)) for x, cell in enumerate(cells) if cell is not None and cell.value is not None
            ]
            xs = [point[0] + 0.06 * (number - (len(strategies) - 1) / 2) for point in points]
            ys = [point[1] for point in points]
            error_bars = [[max(0.0, point[side]) for point in points] for side in (2, 3)]
            axes.errorbar(xs, ys, yerr=error_bars, label=strategy, marker="o", markersize=3, capsize=2, linewidth=1.3)
        axes.set_xticks(range(len(levels)), levels)
        axes.set_title(table.table.title, fontsize=10)
        axes.grid(alpha=0.25)
        if index == 0:
            axes.legend(fontsize=8, frameon=False)
    figure.savefig(path, dpi=150)


def _error_bar(cell: TableCell) -> tuple[float, float, float]:
    """The value, and the distances to the ends of its interval."""
    value = 0.0 if cell.value is None else cell.value
    below = 0.0 if cell.low is None else value - cell.low
    return value, below, 0.0 if cell.high is None else cell.high - value
