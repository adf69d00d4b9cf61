"""The report of the writer study: a table, figures as JSON, and curves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from editcritic.benchmarks.common.markdown import table_lines
from editcritic.benchmarks.common.optional_imports import bench_library
from editcritic.reward.bootstrap_intervals import RESAMPLES, percentile_interval, resampled_rows, row_means

from .writer_study import LOOPS, HeldOutMetrics, SeedResult

Values = Callable[[HeldOutMetrics], Sequence[float | None]]
"""Metrics -> a value for each held-out compound."""


def rewards(look: HeldOutMetrics) -> Sequence[float | None]:
    """Values of the preset."""
    return look.rewards


def truths(look: HeldOutMetrics) -> Sequence[float | None]:
    """Shares of steps truly followed."""
    return look.truths


def mean(values: Sequence[float | None]) -> float:
    """The mean of the defined values. Raises StatisticsError without any."""
    return fmean(value for value in values if value is not None)


def lift(outcomes: Sequence[SeedResult], loop: str, of: Values = rewards) -> tuple[float, float, float]:
    """Gain from the warm start to the end of a loop: mean and 95 % interval, NaN if undefined.

    Paired: over compounds with a value at both ends. The bootstrap has two stages: seeds are resampled, and for each of
    them anew its compounds, since compounds of one seed share a writer.
    """
    gains = [_gain(outcome.metrics_by_loop[loop], of) for outcome in outcomes]
    rng = np.random.default_rng(0)
    samples = np.zeros(RESAMPLES)
    for drawn in resampled_rows(len(gains), rng).T:  # one seed of each sample at a time
        means = np.stack([row_means(gain[resampled_rows(len(gain), rng)]) for gain in gains])
        samples += means[drawn, np.arange(RESAMPLES)] / len(gains)
    low, high = percentile_interval(samples) or (float("nan"),) * 2
    return float(np.mean([gain.mean() for gain in gains])), low, high


def _gain(looks: Sequence[HeldOutMetrics], of: Values) -> NDArray[np.float64]:
    pairs = zip(of(looks[0]), of(looks[-1]), strict=True)
    return np.array([last - first for first, last in pairs if first is not None and last is not None])


def table(outcomes: Sequence[SeedResult]) -> Iterator[str]:
    """Markdown, line by line: a row for each seed and loop, and one for all seeds. See `lift` for intervals."""
    columns = (
        "seed", "trained on", "reward at warm start", "at the end", "lift (95 %)", "truly followed", "lift (95 %)",
    )  # fmt: skip
    rows = []
    for loop in LOOPS:
        for results in (*([one] for one in outcomes), outcomes):
            name = results[0].seed if len(results) == 1 else "all"
            (first, last), (first_truth, last_truth) = (
                [_at(results, loop, of, end) for end in (0, -1)] for of in (rewards, truths)
            )
            rewards_cells = (f"{first:.3f}", f"{last:.3f}", _signed(lift(results, loop)))
            truth_cells = (f"{first_truth:.3f} to {last_truth:.3f}", _signed(lift(results, loop, truths)))
            rows.append((name, loop, *rewards_cells, *truth_cells))
    yield from table_lines(columns, rows)
    yield ""
    looks = [look for outcome in outcomes for loop in LOOPS for look in outcome.metrics_by_loop[loop]]
    unscored = fmean(value is None for look in looks for value in look.rewards)
    minutes = [sum(outcome.seconds.values()) / 60 for outcome in outcomes]
    yield (
        f"{len(looks[0].rewards)} held-out compounds a seed, one sample each. Unscored: {100 * unscored:.1f} %. "
        f"Minutes of one core for each seed: {', '.join(f'{one:.1f}' for one in minutes)}, of which the loop with the "
        f"reward took {', '.join(f'{one.seconds[LOOPS[0]] / 60:.1f}' for one in outcomes)}."
    )


def _at(outcomes: Sequence[SeedResult], loop: str, of: Values, end: int) -> float:
    return mean([value for outcome in outcomes for value in of(outcome.metrics_by_loop[loop][end])])


def _signed(estimate: tuple[float, float, float]) -> str:
    return "{:+.3f} ({:+.3f} to {:+.3f})".format(*estimate)


def plot(outcomes: Sequence[SeedResult], path: Path) -> None:
    """Held-out reward and truth: a colour for each loop, a thin line for each seed, a thick one for their mean."""
    pyplot = bench_library("matplotlib.pyplot")
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
    for axis, (label, of) in zip(axes, (("held-out reward", rewards), ("steps truly followed", truths)), strict=True):
        for number, loop in enumerate(LOOPS):
            curves = [[mean(of(look)) for look in outcome.metrics_by_loop[loop]] for outcome in outcomes]
            steps = [look.step for look in outcomes[0].metrics_by_loop[loop]]
            for curve in curves:
                axis.plot(steps, curve, color=f"C{number}", linewidth=0.8, alpha=0.5)
            axis.plot(steps, np.mean(curves, axis=0), color=f"C{number}", linewidth=2.2, label=f"trained on {loop}")
        axis.set(xlabel="GRPO step", title=label, ylim=(0, 1))
        axis.grid(visible=True, alpha=0.3)
    axes[0].legend(fontsize=9)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
