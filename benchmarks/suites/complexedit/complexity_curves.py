"""How the scores of Complex-Edit go with the complexity of the instruction: a figure a level. Paper, section 5.2."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Literal, get_args

import numpy as np

from ..figures import Figure, Numbers
from ..results import Results, Row

Mean = Literal["arithmetic", "geometric"]
MEANS: tuple[Mean, ...] = get_args(Mean)

PARTS = ("if", "ip", "pq")
OVERALL = "o"
METRICS = (*PARTS, OVERALL)


def overall(following: float, preservation: float, quality: float, *, mean: Mean = "arithmetic") -> float:
    """Complex-Edit's O: the arithmetic mean of the three (section 3.1.3), or the geometric one (section 4.1.5)."""
    values = (following, preservation, quality)
    return fmean(values) if mean == "arithmetic" else math.prod(values) ** (1 / len(values))


def value_of(metric: str, mean: Mean = "arithmetic") -> Callable[[Row], float | None]:
    """What a row has for `if`, `ip`, `pq` or `o`; it has an `o` where it has the other three."""

    def value(row: Row) -> float | None:
        if metric != OVERALL:
            return row.value(metric)
        following, preservation, quality = (row.value(part) for part in PARTS)
        if following is None or preservation is None or quality is None:
            return None
        return overall(following, preservation, quality, mean=mean)

    return value


def curve(results: Results, metric: str = OVERALL, *, mean: Mean = "arithmetic") -> dict[int, Figure]:
    """Level -> mean of a metric (`if`, `ip`, `pq` or `o`) over its pictures, from the lowest level there is.

    Raises ValueError for another metric.
    """
    if metric not in METRICS:
        raise ValueError(f"Complex-Edit has no curve of {metric!r}: there are {', '.join(METRICS)}")
    levels = sorted({int(row.labels["level"]) for row in results.rows})
    return {
        level: results.mean([row for row in results.rows if row.labels["level"] == level], value_of(metric, mean))
        for level in levels
    }


def level_mean(figures: Mapping[int, Figure]) -> Figure:
    """The mean of a curve: every level counts alike; none where a level has none."""
    return Figure.of(_mean, *figures.values())


def drop(figures: Mapping[int, Figure]) -> Figure:
    """The highest level less the lowest, as in tables 4 and 5: below 0 where complexity costs."""
    return Figure.of(_less, figures[max(figures)], figures[min(figures)])


def _mean(*levels: Numbers) -> Numbers:
    found: Numbers = np.mean(np.stack(levels), axis=0)
    return found


def _less(high: Numbers, low: Numbers) -> Numbers:
    return high - low
