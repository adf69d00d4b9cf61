"""Differences of editors and of runs: their intervals and p-values, one by one and for many at once.

Each difference has two intervals. The plain one is the percentile interval of that difference alone. The simultaneous
one holds for all of a family at once: each is divided by its standard error over the draws, and what the largest of
them exceeds in 5 % of the draws is how many standard errors each interval reaches either way (single-step max-t:
Westfall and Young 1993; Hothorn, Bretz and Westfall 2008). p-values of the same distribution are adjusted alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .figures import Figure, Numbers


def facts(provenance: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    """Its entries, those inside of others under dotted names."""
    for name, value in provenance.items():
        if isinstance(value, Mapping) and value:
            yield from facts(value, f"{within}{name}.")
        else:
            yield f"{within}{name}", value


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Entries of two provenances that are not equal; None where one of them has none."""
    first, second = dict(facts(one)), dict(facts(other))
    names = dict.fromkeys([*first, *second])
    return {name: (first.get(name), second.get(name)) for name in names if first.get(name) != second.get(name)}


@dataclass(frozen=True, slots=True)
class Difference:
    """One editor less another, in a column: None where there is no number.

    low, high: 95 % interval of this pair alone, and p its p-value. all_low, all_high, all_p: the same for all pairs of
    the column together (see the module). cases: how many it is over.
    """

    first: str
    second: str
    column: str
    value: float | None
    low: float | None
    high: float | None
    p: float | None
    all_low: float | None
    all_high: float | None
    all_p: float | None
    cases: int

    @property
    def matters(self) -> bool:
        """Whether the simultaneous interval leaves out zero."""
        return self.all_low is not None and self.all_high is not None and not self.all_low <= 0 <= self.all_high


@dataclass(frozen=True, slots=True)
class Tested:
    """A figure against zero: `Difference` has the same fields."""

    value: float | None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    all_low: float | None = None
    all_high: float | None = None
    all_p: float | None = None


def against_zero(figures: Sequence[Figure], weights: Numbers, *, share: float = 0.95) -> list[Tested]:
    """Each of the figures against zero, by itself and together with the others (single-step max-t).

    A p-value is the share of draws that lie at least as far from the figure as the figure lies from zero, in standard
    errors, the figure itself counted in: never less than 1 / (draws + 1).
    """
    values = [figure.value for figure in figures]
    usable = [n for n, figure in enumerate(figures) if values[n] is not None and figure.interval(weights) is not None]
    if not usable:
        return [Tested(value) for value in values]
    found = np.array([values[n] for n in usable], np.float64)
    at = np.stack([figures[n].at(weights) for n in usable])
    spread = np.nanstd(at, axis=1)
    spread[spread < 1e-12 * (1 + np.abs(found))] = 0
    with np.errstate(invalid="ignore", divide="ignore"):
        away = np.where(spread[:, None] > 0, np.abs(at - found[:, None]) / spread[:, None], 0.0)
        own = np.where(spread > 0, np.abs(found) / spread, np.where(found == 0, 0.0, np.inf))
    away = np.nan_to_num(away, nan=0.0)
    furthest = away.max(axis=0)
    reach = float(np.quantile(furthest, share))
    tested = {}
    for place, n in enumerate(usable):
        low, high = figures[n].interval(weights, share=share) or (None, None)
        half = reach * float(spread[place])
        tested[n] = Tested(
            values[n], low, high, _share(away[place], own[place]),
            float(found[place]) - half, float(found[place]) + half, _share(furthest, own[place]),
        )  # fmt: skip
    return [tested.get(n, Tested(value)) for n, value in enumerate(values)]


def _share(away: Numbers, own: float) -> float:
    return float((1 + np.count_nonzero(away >= own)) / (1 + len(away)))


def difference(one: Figure, other: Figure) -> Figure:
    """Of two figures over the same cases."""
    return Figure.of(lambda a, b: a - b, one, other)


def scaled(a: str, b: str, column: str, one: Tested, scale: float, cases: int) -> Difference:
    """What was found of two editors, in the unit of their table."""

    def times(value: float | None) -> float | None:
        return None if value is None else scale * value

    return Difference(
        a, b, column, times(one.value), times(one.low), times(one.high), one.p,
        times(one.all_low), times(one.all_high), one.all_p, cases,
    )  # fmt: skip
