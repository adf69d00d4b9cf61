"""Measures of faults, with intervals over sources.

Every measure is a mean of numbers in a known range, one for each sample, and 0 for a judge without the fault. Its
interval is a bootstrap over sources, since samples of one source resemble each other. A plain bootstrap of equal
numbers has no width, however few they are; so, as Agresti and Coull (1998) do for shares, one source with the lowest
and one with the highest possible number are added, for the width alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....reward.bootstrap_intervals import Numbers, percentile_interval, resampled_rows

ERROR_RATE = 0.05
"""Probability that an audit reports any fault of a judge without one."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """value: the mean over samples. low, high: its interval; None for fewer than two sources."""

    value: float
    low: float | None
    high: float | None
    samples: int
    sources: int


def mean_over_sources(
    values: Sequence[float], sources: Sequence[str], bounds: tuple[float, float], share: float = 0.95
) -> Estimate | None:
    """The mean of a number for each sample, with the interval that holds `share` of its bootstrap over sources.

    sources: of each sample. bounds: the lowest and the highest number possible. None without samples.
    """
    if not values:
        return None
    sums, counts = _by_source(values, sources)
    mean = float(np.mean(values))
    low, high = bounds
    if len(sums) < 2:
        return Estimate(mean, None, None, len(values), len(sums))
    weight = counts.mean()
    all_sums = np.concatenate([sums, [low * weight, high * weight]])
    all_counts = np.concatenate([counts, [weight, weight]])
    rows = resampled_rows(len(all_sums), np.random.default_rng(0))
    resampled: Numbers = all_sums[rows].sum(axis=-1) / all_counts[rows].sum(axis=-1)
    interval = percentile_interval(resampled, share)
    assert interval is not None  # every bootstrap sample has sources, and so samples
    shift = mean - float(all_sums.sum() / all_counts.sum())
    return Estimate(mean, max(low, interval[0] + shift), min(high, interval[1] + shift), len(values), len(sums))


def excess_change(answers: Sequence[float], variants: Sequence[float], repeats: Sequence[float]) -> float:
    """How much more an answer changes with the condition than by asking again, in [-1, 1].

    answers: to the plain question; only the first is compared. variants: under the condition. repeats: to the plain
    question, asked again.
    """
    first = answers[0]
    changed = sum(abs(value - first) for value in variants) / len(variants)
    by_itself = sum(abs(value - first) for value in repeats) / len(repeats) if repeats else 0.0
    return changed - by_itself


def reliability(rows: Sequence[Sequence[float]]) -> float | None:
    """The share of the variance of one answer that lies between samples, in [0, 1]: the intraclass correlation ICC(1)
    of a one-way analysis of variance (Shrout and Fleiss 1979).

    rows: the answers of each sample, as many of each. None for fewer than two samples or answers, or if all are equal.
    """
    if len(rows) < 2 or len(rows[0]) < 2:
        return None
    table = np.array(rows, np.float64)
    count, answers = table.shape
    means = table.mean(axis=1)
    between = answers * float(((means - table.mean()) ** 2).sum()) / (count - 1)
    within = float(((table - means[:, None]) ** 2).sum()) / (count * (answers - 1))
    total = between + (answers - 1) * within
    return None if total <= 0 else max(0.0, (between - within) / total)


def _by_source(values: Sequence[float], sources: Sequence[str]) -> tuple[Numbers, NDArray[np.float64]]:
    """Sum and number of the values of each source."""
    totals: Mapping[str, list[float]] = {source: [0.0, 0.0] for source in sources}
    for value, source in zip(values, sources, strict=True):
        totals[source][0] += value
        totals[source][1] += 1
    table = np.array(list(totals.values()))
    return table[:, 0], table[:, 1]
