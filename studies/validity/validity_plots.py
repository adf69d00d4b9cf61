"""The report's plots, as inline SVG: text stays text, in the page's font and colour."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from editcritic.benchmarks.common.optional_imports import bench_library

from .disagreements import OFFICIAL, PAPER
from .metric_selection import EvaluatedMetric
from .noise_sweep import KINDS, NoiseSweep
from .release_checks import GUARDED, DriftCorrelation
from .validity_run import ValidityResult

_OKABE_ITO = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d1f")
"""Distinguishable with the common colour vision deficiencies (Okabe and Ito); the last is a darker yellow."""

_MARKS = ("o", "s", "^", "D", "v", "P", "X")
_DOTS = 100
"""Pixels of the page per inch of a figure."""

_INK = "#010203"
"""Placeholder for the page's text colour, which is light on dark pages."""


def noise(sweep: NoiseSweep, metrics: Sequence[EvaluatedMetric]) -> str:
    """The main statistic of the metrics with the most roles against noise, a panel for each kind."""
    plotted = _main(metrics)

    def draw(plt: Any) -> Any:
        figure, panels = plt.subplots(2, 2, figsize=(8.4, 6.2), sharex=True, sharey=True)
        for kind, axes in zip(KINDS, panels.flat, strict=True):
            for metric, colour, mark in zip(plotted, _OKABE_ITO, _MARKS, strict=False):
                points = [(level, sweep.statistics[metric.spec][kind, level]) for level in sweep.levels]
                defined = [(level, value) for level, value in points if value is not None]
                label = f"{metric.name} ({metric.main_statistic})"
                axes.plot(
                    *zip(*defined, strict=True), color=colour, marker=mark, ms=4.5, lw=1.6, label=label
                ) if defined else 0
            axes.set_title(kind.replace("_", " "), loc="left", fontsize=10)
        for axes in panels[1]:
            axes.set_xlabel("noise level")
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
        return figure

    return _svg(draw)


def _main(metrics: Sequence[EvaluatedMetric]) -> list[EvaluatedMetric]:
    """One metric of each system, the one with the most roles, in its first protocol, then further ones likewise, up to
    the number of colours. Guards come last.
    """
    first = {metric.card.name: metric for metric in reversed(metrics)}
    ranked = sorted(
        first.values(), key=lambda metric: (metric.truth_column == "clean", -len(metric.card.roles), metric.name)
    )
    systems = [metric.system for metric in ranked]
    turns = {metric.spec: systems[:index].count(metric.system) for index, metric in enumerate(ranked)}
    selected = sorted(ranked, key=lambda metric: (metric.truth_column == "clean", turns[metric.spec]))[
        : len(_OKABE_ITO)
    ]
    return sorted(selected, key=ranked.index)


def drift(correlation: DriftCorrelation) -> str:
    """Consistency against background drift: a thin line for each series, and their mean."""

    def draw(plt: Any) -> Any:
        figure, axes = plt.subplots(figsize=(6.4, 3.6))
        for points in correlation.series:
            if points:
                axes.plot(*zip(*sorted(points), strict=True), color=_OKABE_ITO[5], lw=0.9, alpha=0.7)
        levels = sorted({severity for points in correlation.series for severity, _ in points})
        means = [
            fmean(value for points in correlation.series for severity, value in points if severity == level)
            for level in levels
        ]
        axes.plot(levels, means, color=_OKABE_ITO[0], marker="o", ms=4.5, lw=2, label="mean")
        axes.set_xlabel("background drift")
        axes.set_ylabel("edival-cc fixed")
        axes.legend(frameon=False)
        return figure

    return _svg(draw)


def hacks(validity: ValidityResult) -> str:
    """Cumulative distribution of the guarded value: honest edits, flawed ones, and hacks."""
    edits = validity.study.first(validity.edit_count)
    rows_and_cases = list(zip(edits.rows[GUARDED], edits.cases, strict=True))
    kinds = {
        "hacks": [r.value for r, c in rows_and_cases if c.is_hack],
        "flawed": [r.value for r, c in rows_and_cases if c.mode and not c.is_hack],
        "honest": [r.value for r, c in rows_and_cases if not c.mode],
    }

    def draw(plt: Any) -> Any:
        figure, axes = plt.subplots(figsize=(6.4, 3.6))
        for (name, values), colour in zip(kinds.items(), (_OKABE_ITO[1], _OKABE_ITO[4], _OKABE_ITO[0]), strict=True):
            scores = sorted(value for value in values if value is not None)
            if scores:
                shares = [(index + 1) / len(scores) for index in range(len(scores))]
                axes.step([0.0, *scores, 1.0], [0.0, *shares, 1.0], where="post", color=colour, lw=2, label=name)
        axes.set_xlabel("edit-balanced")
        axes.set_ylabel("cumulative share of edits")
        axes.legend(frameon=False, loc="center")  # curves leave the centre free
        return figure

    return _svg(draw)


def verdicts(validity: ValidityResult) -> str:
    """Agreement with the truth by task type: the paper's protocol and the released code's, and with perfect experts."""
    cases = validity.study.cases[: validity.edit_count]
    tasks = sorted({case.task for case in cases}, reverse=True)

    def draw(plt: Any) -> Any:
        figure, axes = plt.subplots(figsize=(6.4, 0.42 * len(tasks) + 1.3))
        styles = {PAPER: (_OKABE_ITO[0], "o", 0.14), OFFICIAL: (_OKABE_ITO[1], "s", -0.14)}
        for spec, metric_verdicts in validity.verdicts.items():
            colour, mark, up = styles[spec]
            wrong = {disagreement.case_index for disagreement in metric_verdicts.disagreements}
            rule = {disagreement.case_index for disagreement in metric_verdicts.due_to("rule")}
            for row, task in enumerate(tasks):
                of_task = [number for number, case in enumerate(cases) if case.task == task]
                share, oracle_share = (1 - sum(n in bad for n in of_task) / len(of_task) for bad in (wrong, rule))
                label = metric_verdicts.metric.name if row == 0 else None
                axes.plot([share, oracle_share], [row + up] * 2, color=colour, lw=1.2)
                axes.plot(oracle_share, row + up, mark, ms=6, mfc="none", mec=colour)
                axes.plot(share, row + up, mark, ms=6, color=colour, label=label)
        axes.set_yticks(range(len(tasks)), [task.replace("_", " ") for task in tasks])
        axes.set_xlabel("share of correct verdicts")
        axes.set_xlim(right=1.01)
        axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
        return figure

    return _svg(draw)


def _svg(draw: Callable[[Any], Any]) -> str:
    mpl, plt = bench_library("matplotlib"), bench_library("matplotlib.pyplot")
    style: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": "validity",  # equal plots give equal text
        "font.size": 9.5,
        "figure.constrained_layout.use": True,
        "figure.facecolor": "none",
        "axes.facecolor": "none",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.15,
        "grid.linewidth": 0.6,
        **dict.fromkeys(
            ("text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor", "xtick.color", "ytick.color"), _INK
        ),
        "grid.color": _INK,
    }
    with mpl.rc_context(style):
        mpl.use("svg")
        figure = draw(plt)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
        plt.close(figure)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]  # without the XML header
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)  # HTML needs no namespaces
    width = round(_DOTS * figure.get_figwidth())  # natural size at most
    text = re.sub(r'<svg (?:height|width)="[^"]*"(.*?) (?:height|width)="[^"]*"', r"<svg\1", text, count=1)
    text = text.replace("<svg", f'<svg style="max-width: {width}px"', 1)
    text = re.sub(r"font: ([\d.]+)px[^;\"]*", r"font-size: \1px", text)
    return text.replace(_INK, "currentColor").strip()
