"""Drift detection: whether a number that is logged at every step has left its baseline persistently."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

import numpy as np


@dataclass(slots=True)
class DriftTracker:
    """State of one monitored number.

    baseline: its values in the first steps. weights: the amount of data behind each, in any unit. streak: number of
    consecutive steps beyond the limit, negative below the baseline. alarmed: whether an alarm is active.
    """

    baseline: list[float] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    streak: int = 0
    alarmed: bool = False

    def z_score(self, value: float, min_std: float, weight: float = 1.0) -> float:
        """Robust z-score: difference to the baseline's median, divided by its `robust_std` or `min_std`.

        A value with less data than the baseline is scaled down by the square root of its relative weight.
        """
        confidence = math.sqrt(min(1.0, weight / max(median(self.weights), 1e-9)))
        return confidence * (value - median(self.baseline)) / max(robust_std(self.baseline), min_std)

    def update(self, z: float, side: int, limit: float, patience: int) -> bool:
        """Add a step's z-score. Returns whether to alarm: beyond the limit, on one side, for `patience` steps.

        side: 1 where only a rise counts, -1 where only a fall does, 0 for both. True once, until the z-score has
        returned within half the limit.
        """
        beyond = 0 if abs(z) <= limit or z * side < 0 else 1 if z > 0 else -1
        self.streak = self.streak + beyond if self.streak * beyond > 0 else beyond
        if abs(z) < limit / 2:
            self.alarmed = False
        if abs(self.streak) < patience or self.alarmed:
            return False
        self.alarmed = True
        return True


def robust_std(values: Sequence[float]) -> float:
    """A robust estimate of the standard deviation of a few values.

    The larger of the median and the mean absolute deviation from the median, each scaled to the standard deviation of a
    normal distribution. The median alone is often far too small for twenty values, which would cause false alarms.
    """
    center = median(values)
    deviations = [abs(value - center) for value in values]
    return max(1.4826 * median(deviations), 1.2533 * fmean(deviations))


def within_group_kendall_tau(rows: Sequence[tuple[float, float, str]]) -> tuple[float | None, int]:
    """Kendall's tau-b of two values per row, over pairs of rows in the same group, in [-1, 1]; and the number of pairs
    without ties.

    rows: (first value, second value, group). None where one of the values is constant within every group.
    """
    groups: dict[str, list[tuple[float, float]]] = {}
    for first, second, group in rows:
        groups.setdefault(group, []).append((first, second))
    concordance = first_untied = second_untied = num_pairs = 0
    for pairs in groups.values():
        values = np.array(pairs)
        x, y = (np.sign(values[:, None, column] - values[None, :, column]).astype(int) for column in (0, 1))
        concordance += int((x * y).sum())
        first_untied += int(np.abs(x).sum())
        second_untied += int(np.abs(y).sum())
        num_pairs += int(np.abs(x * y).sum()) // 2
    tau = concordance / math.sqrt(first_untied * second_untied) if first_untied and second_untied else None
    return tau, num_pairs
