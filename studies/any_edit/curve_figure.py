"""The figure of the curves: agreement with the truth against the share of wrong plans or answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from editcritic.benchmarks.common.optional_imports import bench_library

from .agreement import Figure
from .robustness import Cause, Curve, CurvePoint
from .scoring import ANY_EDIT

_STYLES: Mapping[Cause, tuple[str, str]] = {
    "wrong plans": ("o", "-"),
    "unnoticed wrong plans": ("^", ":"),
    "wrong answers": ("s", "--"),
}
"""Cause -> marker and line."""
_CANDIDATE_COLOUR, _OTHER_COLOUR = "#0072b2", "#d55e00"  # of Okabe and Ito


def _spearman(point: CurvePoint) -> Figure:
    return point.spearman


def _pairs(point: CurvePoint) -> Figure:
    return point.pairs


_PANELS: Mapping[str, Callable[[CurvePoint], Figure]] = {
    "Spearman with followed x unchanged": _spearman,
    "pairs of one source in the right order": _pairs,
}


def draw_curves(path: Path, curves: Sequence[Curve]) -> None:
    """A panel for each statistic, a line with its interval for each curve. Raises `InputError` without matplotlib."""
    bench_library("matplotlib").use("Agg")
    plt = bench_library("matplotlib.pyplot")
    figure, panels = plt.subplots(1, len(_PANELS), figsize=(9, 3.9), layout="constrained")
    for axes, (title, statistic) in zip(panels, _PANELS.items(), strict=True):
        for curve in curves:
            _draw_curve(axes, curve, statistic)
        axes.set_title(title, loc="left", fontsize=10)
        axes.set_xlabel("wrong, % of plans or answers")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _draw_curve(axes: Any, curve: Curve, statistic: Callable[[CurvePoint], Figure]) -> None:
    mark, line = _STYLES[curve.cause]
    colour = _CANDIDATE_COLOUR if curve.reward == ANY_EDIT else _OTHER_COLOUR
    figures = [(100 * point.level, statistic(point)) for point in curve.points]
    defined = [(level, figure.value, figure.interval) for level, figure in figures if figure.value is not None]
    levels, values = [level for level, _, _ in defined], [value for _, value, _ in defined]
    axes.plot(levels, values, color=colour, marker=mark, linestyle=line, label=f"{curve.reward}, {curve.cause}")
    intervals = [interval for _, _, interval in defined if interval is not None]
    if len(intervals) == len(levels):
        low, high = [bounds[0] for bounds in intervals], [bounds[1] for bounds in intervals]
        axes.fill_between(levels, low, high, color=colour, alpha=0.12, linewidth=0)
