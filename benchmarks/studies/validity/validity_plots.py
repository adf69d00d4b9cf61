"""The report's plots, as SVG to be put into a page: text stays text, and takes the page's font and colour."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from ..extras import bench
from .checks import GUARDED, Drift
from .disagreements import OFFICIAL, PAPER
from .metrics import Tried
from .run import Validity
from .sweep import KINDS, Sweep

_OKABE_ITO = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d1f")
"""Told apart by people with any of the common colour deficiencies (Okabe and Ito); the last is a darker yellow."""

_MARKS = ("o", "s", "^", "D", "v", "P", "X")
_DOTS = 100
"""Pixels of the page for an inch of a figure."""

_INK = "#010203"
"""Stands for the page's own ink, which is light on dark pages."""


def noise(sweep: Sweep, tried: Sequence[Tried]) -> str:
    """How the main statistic of the metrics that ask the most experts falls with noise, a panel for each kind."""
    shown = _main(tried)

    def draw(plt: Any) -> Any:
        figure, panels = plt.subplots(2, 2, figsize=(8.4, 6.2), sharex=True, sharey=True)
        for kind, axes in zip(KINDS, panels.flat, strict=True):
            for one, colour, mark in zip(shown, _OKABE_ITO, _MARKS, strict=False):
                points = [(level, sweep.statistics[one.spec][kind, level]) for level in sweep.levels]
                known = [(level, value) for level, value in points if value is not None]
                label = f"{one.name} ({one.main})"
                axes.plot(
                    *zip(*known, strict=True), color=colour, marker=mark, ms=4.5, lw=1.6, label=label
                ) if known else 0
            axes.set_title(kind.replace("_", " "), loc="left", fontsize=10)
        for axes in panels[1]:
            axes.set_xlabel("share of answers spoilt")
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
        return figure

    return _svg(draw)


def _main(tried: Sequence[Tried]) -> list[Tried]:
    """One metric of each system, the one that asks the most roles, by its first protocol, then further ones likewise,
    until there are as many as colours. Guards come last.
    """
    first = {one.card.name: one for one in reversed(tried)}
    ranked = sorted(first.values(), key=lambda one: (one.truth == "clean", -len(one.card.roles), one.name))
    systems = [one.system for one in ranked]
    turns = {one.spec: systems[:place].count(one.system) for place, one in enumerate(ranked)}
    chosen = sorted(ranked, key=lambda one: (one.truth == "clean", turns[one.spec]))[: len(_OKABE_ITO)]
    return sorted(chosen, key=ranked.index)


def drift(found: Drift) -> str:
    """Consistency against background drift: a thin line for each series, and their mean."""

    def draw(plt: Any) -> Any:
        figure, axes = plt.subplots(figsize=(6.4, 3.6))
        for one in found.series:
            if one:
                axes.plot(*zip(*sorted(one), strict=True), color=_OKABE_ITO[5], lw=0.9, alpha=0.7)
        levels = sorted({severity for one in found.series for severity, _ in one})
        means = [
            fmean(value for one in found.series for severity, value in one if severity == level) for level in levels
        ]
        axes.plot(levels, means, color=_OKABE_ITO[0], marker="o", ms=4.5, lw=2, label="mean")
        axes.set_xlabel("background drift")
        axes.set_ylabel("edival-cc fixed")
        axes.legend(frameon=False)
        return figure

    return _svg(draw)


def hacks(validity: Validity) -> str:
    """The share of edits whose guarded value is at most x: honest, flawed, and those that try to please a scorer."""
    edits = validity.study.first(validity.edits)
    both = list(zip(edits.rows[GUARDED], edits.cases, strict=True))
    kinds = {
        "tries to please a scorer": [r.value for r, c in both if c.hack],
        "flawed": [r.value for r, c in both if c.mode and not c.hack],
        "honest": [r.value for r, c in both if not c.mode],
    }

    def draw(plt: Any) -> Any:
        figure, axes = plt.subplots(figsize=(6.4, 3.6))
        for (name, values), colour in zip(kinds.items(), (_OKABE_ITO[1], _OKABE_ITO[4], _OKABE_ITO[0]), strict=True):
            known = sorted(value for value in values if value is not None)
            if known:
                shares = [(place + 1) / len(known) for place in range(len(known))]
                axes.step([0.0, *known, 1.0], [0.0, *shares, 1.0], where="post", color=colour, lw=2, label=name)
        axes.set_xlabel("edit-balanced")
        axes.set_ylabel("share of edits at most as good")
        axes.legend(frameon=False, loc="center")  # curves keep to the rim
        return figure

    return _svg(draw)


def verdicts(validity: Validity) -> str:
    """Agreement with the truth by task type: the paper's protocol and the released code's, and with perfect experts."""
    cases = validity.study.cases[: validity.edits]
    tasks = sorted({case.task for case in cases}, reverse=True)

    def draw(plt: Any) -> Any:
        figure, axes = plt.subplots(figsize=(6.4, 0.42 * len(tasks) + 1.3))
        looks = {PAPER: (_OKABE_ITO[0], "o", 0.14), OFFICIAL: (_OKABE_ITO[1], "s", -0.14)}
        for spec, found in validity.judged.items():
            colour, mark, up = looks[spec]
            wrong = {one.case for one in found.disagreements}
            rule = {one.case for one in found.due_to("rule")}
            for place, task in enumerate(tasks):
                of_task = [number for number, case in enumerate(cases) if case.task == task]
                share, best = (1 - sum(n in bad for n in of_task) / len(of_task) for bad in (wrong, rule))
                label = found.one.name if place == 0 else None
                axes.plot([share, best], [place + up] * 2, color=colour, lw=1.2)
                axes.plot(best, place + up, mark, ms=6, mfc="none", mec=colour)
                axes.plot(share, place + up, mark, ms=6, color=colour, label=label)
        axes.set_yticks(range(len(tasks)), [task.replace("_", " ") for task in tasks])
        axes.set_xlabel("share of verdicts that are the truth's")
        axes.set_xlim(right=1.01)
        axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
        return figure

    return _svg(draw)


def _svg(draw: Callable[[Any], Any]) -> str:
    mpl, plt = bench("matplotlib"), bench("matplotlib.pyplot")
    look: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": "validity",  # the same plot is the same text
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
    with mpl.rc_context(look):
        mpl.use("svg")
        figure = draw(plt)
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
        plt.close(figure)
    text = written.getvalue()
    text = text[text.index("<svg") :]  # the page has a head of its own
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)  # HTML knows what an svg is, without addresses
    width = round(_DOTS * figure.get_figwidth())  # as large as it likes, and smaller where the page is
    text = re.sub(r'<svg (?:height|width)="[^"]*"(.*?) (?:height|width)="[^"]*"', r"<svg\1", text, count=1)
    text = text.replace("<svg", f'<svg style="max-width: {width}px"', 1)
    text = re.sub(r"font: ([\d.]+)px[^;\"]*", r"font-size: \1px", text)
    return text.replace(_INK, "currentColor").strip()
