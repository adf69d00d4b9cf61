"""Drift: whether a number that is taken at every step has left where it was in the first steps, and stays away."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

import numpy as np


@dataclass(slots=True)
class Course:
    """A number's baseline, and what has become of it.

    first: its values in the first steps. weights: what each of them rests on, in any unit. run: for how many steps it
    has been beyond the limit, negative where below. on: whether it has alarmed.
    """

    first: list[float] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    run: int = 0
    on: bool = False

    def z(self, value: float, least: float, weight: float = 1.0) -> float:
        """How far a value is from the baseline's median, in units of its spread, `least` of these at least.

        One that rests on less than the baseline did is that much less certain: as the root of its weight.
        """
        certain = math.sqrt(min(1.0, weight / max(median(self.weights), 1e-9)))
        return certain * (value - median(self.first)) / max(spread(self.first), least)

    def sustained(self, z: float, side: int, limit: float, patience: int) -> bool:
        """Take note of a step's z-score. Whether it is now beyond the limit for so many steps, on one side.

        side: 1 where only a rise counts, -1 where only a fall does, 0 for both. True once, until the score has been
        within half the limit.
        """
        beyond = 0 if abs(z) <= limit or z * side < 0 else 1 if z > 0 else -1
        self.run = self.run + beyond if self.run * beyond > 0 else beyond
        if abs(z) < limit / 2:
            self.on = False
        if abs(self.run) < patience or self.on:
            return False
        self.on = True
        return True


def spread(values: Sequence[float]) -> float:
    """How far a few values are apart: an estimate of their standard deviation that outliers do little to.

    The larger of the median and the mean absolute deviation from the median, each scaled to the standard deviation of a
    normal distribution. The median alone is often far too small for twenty values, which would alarm for nothing.
    """
    middle = median(values)
    apart = [abs(value - middle) for value in values]
    return max(1.4826 * median(apart), 1.2533 * fmean(apart))


def agreement(rows: Sequence[tuple[float, float, str]]) -> tuple[float | None, int]:
    """Kendall's tau-b of two values a row, over the pairs of rows in the same group, in [-1, 1]; and on how many pairs
    that differ in both it rests.

    None where one of the two never differs within a group.
    """
    groups: dict[str, list[tuple[float, float]]] = {}
    for one, two, group in rows:
        groups.setdefault(group, []).append((one, two))
    alike = ones = twos = both = 0
    for pairs in groups.values():
        values = np.array(pairs)
        first, second = (np.sign(values[:, None, place] - values[None, :, place]).astype(int) for place in (0, 1))
        alike += int((first * second).sum())
        ones += int(np.abs(first).sum())
        twos += int(np.abs(second).sum())
        both += int(np.abs(first * second).sum()) // 2
    return (alike / math.sqrt(ones * twos) if ones and twos else None), both
