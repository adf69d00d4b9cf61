"""What the study of selectors says: tables, figures as JSON, and a plot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from ..extras import bench
from .study import LEVEL, MANY, NEAR, N, Outcome, Study, interval


def table(study: Study) -> Iterator[str]:
    """Lines of Markdown."""
    yield (
        "| selector | evaluations | truly followed | above one sample (95 %) | gain in reward kept (95 %) "
        "| the same, saturated |"
    )
    yield "|---|---|---|---|---|---|"
    for name in study.outcomes:
        lift, low, high = (100 * part for part in study.lift(name))
        kept, least, most = (100 * part for part in study.kept(name))
        yield (
            f"| {name} | {100 * study.share(name):.1f} % | {100 * study.truths(name).mean():.1f} % "
            f"| {lift:+.1f} ({low:+.1f} to {high:+.1f}) | {kept:.1f} % ({least:.1f} to {most:.1f}) "
            f"| {100 * study.kept(name, saturated=True)[0]:.1f} % |"
        )
    yield ""
    yield (
        f"One sample: {100 * study.one_truth.mean():.1f} % truly followed. {int(study.saturated.sum())} of "
        f"{len(study.saturated)} trials saturate: {MANY} candidates or more within {NEAR} of the best reward. They are "
        "in the last column, the others in the one before it."
    )


def steps_table(found: Mapping[str, Sequence[Outcome]]) -> Iterator[str]:
    """Lines of Markdown about compounds: the share of steps followed, and compounds with every step followed."""
    if not found:
        return
    yield ""
    yield f"| selector, C{LEVEL} | evaluations (one chain: 1) | steps truly followed | all | above the first (95 %) |"
    yield "|---|---|---|---|---|"
    truths = {name: np.array([one.truth for one in rows]) for name, rows in found.items()}
    first = next(iter(truths.values()))
    for name, truth in truths.items():
        share = np.mean([one.share for one in found[name]])
        lift, low, high = (100 * part for part in interval(truth - first))
        yield (
            f"| {name} | {share:.1f} | {100 * truth.mean():.1f} % | {100 * (truth == 1).mean():.1f} % "
            f"| {lift:+.1f} ({low:+.1f} to {high:+.1f}) |"
        )


def figures(study: Study, steps: Mapping[str, Sequence[Outcome]]) -> dict[str, object]:
    """All that the tables say, and the outcome of every trial, as JSON."""
    return {
        "one_sample": {"truth": study.one_truth.tolist(), "value": study.one_value.tolist()},
        "best_of_n": study.best.tolist(),
        "saturated": study.saturated.tolist(),
        "selectors": {
            name: {
                "evaluations": study.share(name),
                "truth": float(study.truths(name).mean()),
                "lift": study.lift(name),
                "kept": study.kept(name),
                "trials": [asdict(one) for one in rows],
            }
            for name, rows in study.outcomes.items()
        },
        "compounds": {name: [asdict(one) for one in rows] for name, rows in steps.items()},
    }


def plot(study: Study, path: Path) -> None:
    """Quality against denoiser evaluations: truth on the left, reward on the right, a line a family of selectors."""
    families: dict[str, list[str]] = {}
    for name in study.outcomes:
        families.setdefault(_family(name), []).append(name)
    pyplot = bench("matplotlib.pyplot")
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    for number, (family, names) in enumerate(families.items()):
        names.sort(key=study.share)
        shares = [100 * study.share(name) for name in names]
        style = {"marker": "os^Dv<>P"[number % 8], "label": family, "linestyle": "-" if len(names) > 1 else "none"}
        axes[0].plot(shares, [100 * study.truths(name).mean() for name in names], **style)
        axes[1].plot(shares, [100 * study.kept(name)[0] for name in names], **style)
    axes[0].axhline(100 * study.one_truth.mean(), color="grey", linewidth=0.8)
    axes[0].set(ylabel="truly followed (%)")
    axes[1].set(ylabel=f"gain in reward of best-of-{N} kept (%)")
    for one in axes:
        one.set(xlabel=f"denoiser evaluations (% of best-of-{N})", xlim=(0, None))
        one.grid(visible=True, alpha=0.3)
    axes[1].legend(fontsize=8)
    figure.savefig(path, dpi=110)


def _family(name: str) -> str:
    if name.startswith("best-of-"):
        return "best of n"
    head, _, rest = name.partition(" ")
    return f"{head}, previews" if rest.endswith("previews") else head
