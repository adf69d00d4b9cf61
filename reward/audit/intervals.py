"""Rates and means over trials of several sources, with intervals over sources, since trials of one are alike."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from ..bootstrap_intervals import Numbers, bootstrap_interval, ratio_interval, wilson_interval

_LEAST_SOURCES = 6  # the whole range of five is left by their true median in 6 % of cases, that of two in 50 %


@dataclass(frozen=True, slots=True)
class Rate:
    """Violations among trials that can be compared. low, high: the 95 % interval over sources."""

    violations: int
    trials: int
    low: float
    high: float

    @property
    def value(self) -> float | None:
        return self.violations / self.trials if self.trials else None

    def to_json(self) -> dict[str, Any]:
        return {
            "violations": self.violations,
            "trials": self.trials,
            "rate": self.value,
            "low": self.low,
            "high": self.high,
        }


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean with its 95 % interval over sources; None where there are fewer than two."""

    value: float
    low: float | None
    high: float | None

    def to_json(self) -> dict[str, Any]:
        return {"mean": self.value, "low": self.low, "high": self.high}


def rate_of(flags: Sequence[bool], sources: Sequence[Hashable]) -> Rate:
    """The rate of true flags with its interval over their sources."""
    return Rate(sum(flags), len(flags), *rate_interval(flags, sources))


def mean_of(
    values: Sequence[float], sources: Sequence[Hashable], limits: tuple[float, float] | None = None
) -> Mean | None:
    """The mean of values with its interval over their sources, within the limits of values; None without values."""
    if not values:
        return None
    low, high = mean_interval(values, sources) or (None, None)
    if low is None or high is None or limits is None:
        return Mean(fmean(values), low, high)
    return Mean(fmean(values), max(low, limits[0]), min(high, limits[1]))


def rate_interval(flags: Sequence[bool], sources: Sequence[Hashable]) -> tuple[float, float]:
    """The 95 % interval of a rate, over sources.

    A bootstrap over sources. Of fewer than six it would be too narrow, and where all have the same rate, as without any
    hit, it would have no width: there it is Wilson's interval with one observation a source.
    """
    sums = list(_sums([float(flag) for flag in flags], sources))
    interval = bootstrap_interval(_ratio, *zip(*sums, strict=True)) if len(sums) >= _LEAST_SOURCES else None
    if interval is None or interval[0] == interval[1]:
        rate = sum(flags) / len(flags) if flags else 0.0
        return wilson_interval(rate * len(sums), len(sums))
    return interval


def mean_interval(values: Sequence[float], sources: Sequence[Hashable]) -> tuple[float, float] | None:
    """The 95 % interval of a mean, over sources; None for fewer than two of them.

    Student's, since a bootstrap of few sources is too narrow: of 2, its interval holds the mean in half of all cases.
    """
    sums = list(_sums(values, sources))
    return ratio_interval(*zip(*sums, strict=True)) if sums else None


def _ratio(totals: Numbers, counts: Numbers) -> Numbers:
    result: Numbers = np.asarray(totals.sum(axis=-1) / counts.sum(axis=-1), np.float64)
    return result


def _sums(values: Sequence[float], sources: Sequence[Hashable]) -> list[tuple[float, float]]:
    """Of each source, the sum of its values and their number."""
    totals: dict[Hashable, tuple[float, float]] = {}
    for value, source in zip(values, sources, strict=True):
        total, count = totals.get(source, (0.0, 0.0))
        totals[source] = (total + value, count + 1)
    return list(totals.values())
