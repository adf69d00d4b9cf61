"""Scores of Complex-Edit by level of complexity. Paper, section 5.2."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Literal, get_args

import numpy as np

from ..bootstrap import Numbers, Statistic
from ..results import ResultRow, Results

Mean = Literal["arithmetic", "geometric"]
MEANS: tuple[Mean, ...] = get_args(Mean)

BASE_METRICS = ("if", "ip", "pq")
OVERALL = "o"
METRICS = (*BASE_METRICS, OVERALL)


def overall(following: float, preservation: float, quality: float, *, mean: Mean = "arithmetic") -> float:
    """Complex-Edit's O: the arithmetic mean of the three (section 3.1.3), or the geometric one (section 4.1.5)."""
    values = (following, preservation, quality)
    return fmean(values) if mean == "arithmetic" else math.prod(values) ** (1 / len(values))


def value_of(metric: str, mean: Mean = "arithmetic") -> Callable[[ResultRow], float | None]:
    """A row's value of `if`, `ip`, `pq` or `o`; `o` needs the other three."""

    def value(row: ResultRow) -> float | None:
        if metric != OVERALL:
            return row.value(metric)
        following, preservation, quality = (row.value(part) for part in BASE_METRICS)
        if following is None or preservation is None or quality is None:
            return None
        return overall(following, preservation, quality, mean=mean)

    return value


def level_curve(results: Results, metric: str = OVERALL, *, mean: Mean = "arithmetic") -> dict[int, Statistic]:
    """Level -> mean of a metric (`if`, `ip`, `pq` or `o`) over its images, from the lowest level on.

    Raises ValueError for another metric.
    """
    if metric not in METRICS:
        raise ValueError(f"Complex-Edit has no curve of {metric!r}: there are {', '.join(METRICS)}")
    levels = sorted({int(row.labels["level"]) for row in results.rows})
    return {
        level: results.mean([row for row in results.rows if row.labels["level"] == level], value_of(metric, mean))
        for level in levels
    }


def level_mean(figures: Mapping[int, Statistic]) -> Statistic:
    """The unweighted mean over levels; undefined if a level is."""
    return Statistic.combine(_mean, *figures.values())


def complexity_drop(figures: Mapping[int, Statistic]) -> Statistic:
    """Highest minus lowest level, as in tables 4 and 5: negative if scores drop with complexity."""
    return Statistic.combine(_difference, figures[max(figures)], figures[min(figures)], monotone=False)


def _mean(*levels: Numbers) -> Numbers:
    mean: Numbers = np.mean(np.stack(levels), axis=0)
    return mean


def _difference(high: Numbers, low: Numbers) -> Numbers:
    return high - low
