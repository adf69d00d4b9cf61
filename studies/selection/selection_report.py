"""The report of the study of selectors: tables, figures as JSON, and a plot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from editcritic.benchmarks.common.markdown import table_lines
from editcritic.benchmarks.common.optional_imports import bench_library

from .selection_study import (
    COMPOUND_LEVEL,
    MAX_CANDIDATES,
    SATURATION_COUNT,
    SATURATION_MARGIN,
    SelectionStudy,
    TrialResult,
    interval,
)


def table(study: SelectionStudy) -> Iterator[str]:
    """The table of selectors in Markdown, line by line."""
    columns = (
        "selector", "NFE", "truly followed", "above one sample (95 %)", "gain in reward kept (95 %)",
        "the same, saturated",
    )  # fmt: skip
    rows = []
    for name in study.outcomes:
        gain, low, high = (100 * value for value in study.truth_gain(name))
        kept, kept_low, kept_high = (100 * value for value in study.reward_gain_kept(name))
        rows.append(
            (
                name,
                f"{100 * study.evaluation_share(name):.1f} %",
                f"{100 * study.truths(name).mean():.1f} %",
                f"{gain:+.1f} ({low:+.1f} to {high:+.1f})",
                f"{kept:.1f} % ({kept_low:.1f} to {kept_high:.1f})",
                f"{100 * study.reward_gain_kept(name, saturated=True)[0]:.1f} %",
            )
        )
    yield from table_lines(columns, rows)
    yield ""
    yield (
        f"One sample: {100 * study.single_sample_truth.mean():.1f} % truly followed. {int(study.saturated.sum())} of "
        f"{len(study.saturated)} trials saturate: {SATURATION_COUNT} candidates or more within {SATURATION_MARGIN} of "
        "the best reward. They are in the last column, the others in the one before it."
    )


def seeds_table(study: SelectionStudy) -> Iterator[str]:
    """The share of the gain in reward that is kept, seed by seed, and what was scored for it, in Markdown."""
    columns = (
        "selector", "NFE", "judge calls", "gain in reward kept, by seed", "all seeds", "over seeds and prompts (95 %)"
    )  # fmt: skip
    rows = []
    for name in study.outcomes:
        shares, (low, high) = study.reward_gain_kept_by_seed(name)
        rows.append(
            (
                name,
                f"{100 * study.evaluation_share(name):.1f} %",
                f"{study.judge_calls(name):.1f}",
                ", ".join(f"{100 * share:.1f}" for share in shares),
                f"{100 * study.reward_gain_kept(name)[0]:.1f} %",
                f"{100 * low:.1f} to {100 * high:.1f}",
            )
        )
    yield ""
    yield from table_lines(columns, rows)


def steps_table(results: Mapping[str, Sequence[TrialResult]]) -> Iterator[str]:
    """The table of compounds in Markdown, line by line: share of steps followed, share of compounds with all."""
    if not results:
        return
    yield ""
    columns = (
        f"selector, C{COMPOUND_LEVEL}",
        "NFE (one chain: 1)",
        "steps truly followed",
        "all",
        "above the first (95 %)",
    )
    rows = []
    truths = {name: np.array([result.truth for result in rows]) for name, rows in results.items()}
    first = next(iter(truths.values()))
    for name, truth in truths.items():
        share = np.mean([result.evaluation_share for result in results[name]])
        gain, low, high = (100 * value for value in interval(truth - first))
        rows.append(
            (
                name,
                f"{share:.1f}",
                f"{100 * truth.mean():.1f} %",
                f"{100 * (truth == 1).mean():.1f} %",
                f"{gain:+.1f} ({low:+.1f} to {high:+.1f})",
            )
        )
    yield from table_lines(columns, rows)


def plot(study: SelectionStudy, path: Path) -> None:
    """Quality against denoiser evaluations: truth on the left, reward on the right, a line for each family of
    selectors.
    """
    families: dict[str, list[str]] = {}
    for name in study.outcomes:
        families.setdefault(_family(name), []).append(name)
    pyplot = bench_library("matplotlib.pyplot")
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    for number, (family, names) in enumerate(families.items()):
        names.sort(key=study.evaluation_share)
        shares = [100 * study.evaluation_share(name) for name in names]
        style = {"marker": "os^Dv<>P"[number % 8], "label": family, "linestyle": "-" if len(names) > 1 else "none"}
        axes[0].plot(shares, [100 * study.truths(name).mean() for name in names], **style)
        axes[1].plot(shares, [100 * study.reward_gain_kept(name)[0] for name in names], **style)
    axes[0].axhline(100 * study.single_sample_truth.mean(), color="grey", linewidth=0.8)
    axes[0].set(ylabel="truly followed (%)")
    axes[1].set(ylabel=f"gain in reward of best-of-{MAX_CANDIDATES} kept (%)")
    for axis in axes:
        axis.set(xlabel=f"denoiser evaluations (% of best-of-{MAX_CANDIDATES})", xlim=(0, None))
        axis.grid(visible=True, alpha=0.3)
    axes[1].legend(fontsize=8)
    figure.savefig(path, dpi=110)


def _family(name: str) -> str:
    if name.startswith("best-of-"):
        return "best of n"
    family = name.partition(" ")[0]
    return f"{family}, previews" if name.endswith(", previews") else family
