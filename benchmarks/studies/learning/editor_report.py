"""What the training of the tiny editor has come to: a table, and a plot of the curves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..extras import bench
from ..selection.study import interval

LOOKED = 2
"""Pictures of a held-out prompt that are looked at while training goes on: the first of those before and after it."""

_SMOOTH = 15  # steps: rewards of a step are few


def summary(runs: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Lines of Markdown: each run, and where several are alike all of them."""
    yield "| reward | seed | truly followed | after | rise (95 %) | change in what stays | minutes | alarm |"
    yield "|---|---|---|---|---|---|---|---|"
    for one in runs:
        yield _row([one], str(one["seed"]))
    if len(runs) > 1 and len({one["reward"] for one in runs}) == 1:
        yield _row(runs, "all")


def _row(runs: Sequence[dict[str, Any]], name: str) -> str:
    before, after = (np.concatenate([_of(one, when, "followed") for one in runs]) for when in ("before", "after"))
    kept = np.concatenate([_of(one, "after", "unchanged") - _of(one, "before", "unchanged") for one in runs])
    rise, low, high = (100 * part for part in interval(after - before))
    minutes = f"{sum(one['minutes'] for one in runs):.1f}"
    alarms = [alarm for one in runs for alarm in one["alarms"]]
    first = f"{alarms[0]['name']}, step {alarms[0]['step']}" if alarms else "none"
    return (
        f"| {runs[0]['reward']} | {name} | {100 * before.mean():.1f} % | {100 * after.mean():.1f} % "
        f"| {rise:+.1f} ({low:+.1f} to {high:+.1f}) | {100 * kept.mean():+.1f} | {minutes} | {first} |"
    )


def _of(run: dict[str, Any], when: str, name: str) -> NDArray[np.float64]:
    """Of each prompt, the mean over its pictures."""
    return np.array(run[when][name], np.float64).mean(axis=1)


def plot(runs: Sequence[dict[str, Any]], path: Path) -> None:
    """Truth on held-out prompts and the reward in training against steps, a line a run; alarms as dots on the first."""
    pyplot = bench("matplotlib.pyplot")
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for number, one in enumerate(runs):
        colour, label = f"C{number}", f"{one['reward']}, seed {one['seed']}"
        looked = [(row["step"] + 1, row["truth/followed"]) for row in one["log"] if "truth/followed" in row]
        # Of the same pictures as in between: others have other noise, and are more or less lucky.
        ends = {when: 100 * float(np.array(one[when]["followed"])[:, :LOOKED].mean()) for when in ("before", "after")}
        last = one["log"][-1]["step"] + 1
        points = [(0, ends["before"]), *((step, 100 * value) for step, value in looked if step < last)]
        points.append((last, ends["after"]))
        left.plot(*zip(*points, strict=True), color=colour, marker="o", markersize=3, label=label)
        for alarm in one["alarms"]:
            left.axvline(alarm["step"] + 1, color=colour, linestyle=":", linewidth=1)
            left.annotate(alarm["name"], (alarm["step"] + 1, left.get_ylim()[0]), rotation=90, fontsize=7, color=colour)
        rewards = np.array([row.get("reward", np.nan) for row in one["log"]])
        smooth = np.convolve(rewards, np.ones(_SMOOTH) / _SMOOTH, "valid")
        right.plot(np.arange(len(smooth)) + _SMOOTH, smooth, color=colour, label=label)
    left.set(xlabel="steps", ylabel="held-out edits truly followed (%)")
    right.set(xlabel="steps", ylabel=f"reward in training, mean of {_SMOOTH} steps")
    for axes in (left, right):
        axes.grid(visible=True, alpha=0.3)
    left.legend(fontsize=8)
    figure.savefig(path, dpi=110)
