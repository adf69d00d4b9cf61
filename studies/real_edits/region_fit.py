"""Fits the limits and weights of `reward/experts/region_rating.py`: faults that tell fills from honest edits.

A statistic counts from where the outer 15 % of honest composites begin, in the unit of the range of their inner 90 %.
Weights are those of a logistic regression with an L1 penalty in which both classes weigh the same, in [0, 3]; and a
fault is only what can be one: `may_be_fault`.

The constants in `region_rating.py` come from an earlier version of this script, chosen before this one was cleaned. It
had other random draws, and in part other ranges of the fills' parameters: this one does not give the same numbers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from types import MappingProxyType
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.common.optional_imports import bench_library
from editcritic.reward.experts.region_rating import AS_DRAWN, MOST, MOST_ALONE
from editcritic.reward.experts.region_statistics import region_statistics
from editcritic.reward.queries.kinds import RegionChange

from .clones import Clones
from .composed_fills import fills
from .composites import Photographs, Split, compose

Values = NDArray[np.float64]

SAMPLES = 400
"""Composites for each change, of each split."""

HONEST = "honest"
_FILLS = 6  # of each composite
_SPLITS: tuple[Split, ...] = ("train", "test")
_PENALTY = 0.001
_HEAVIEST, _LIGHTEST = 3.0, 0.1  # weights: the most, and the least that is kept
_RAISED: Mapping[RegionChange, float] = MappingProxyType({"removed": 0.5, "new": 1.3, "recoloured": 1.4, "text": 2.6})
"""Added to what is fitted, by hand: balanced classes put what is doubtful at 0.5, and honest edits are to be near 1."""


class Measured(NamedTuple):
    """Statistics of a place. kind: of the fill, or `HONEST`."""

    kind: str
    statistics: Mapping[str, float]


class Fault(NamedTuple):
    """As in `region_rating.py`. sign: 1 above the limit, -1 below."""

    statistic: str
    sign: int
    limit: float
    scale: float
    weight: float


@dataclass(frozen=True)
class Fit:
    """Faults of a change, the heaviest first. sure: the logit of a place without faults."""

    change: RegionChange
    sure: float
    faults: tuple[Fault, ...]

    def values(self, measured: Iterable[Measured]) -> Values:
        """Ratings in [0, 1], one for each."""
        sums = [sum(min(MOST_ALONE, fault.weight * _beyond(fault, one)) for fault in self.faults) for one in measured]
        return np.asarray(1 / (1 + np.exp(np.array(sums, float) - self.sure)))

    def report(self, measured: Sequence[Measured]) -> Iterator[str]:
        """Lines: quantiles of honest edits and of each kind of fill, and the AUC of honest ones over fills."""
        values, kinds = self.values(measured), np.array([one.kind for one in measured])
        honest, filled = values[kinds == HONEST], values[kinds != HONEST]
        higher = (honest[:, None] > filled).mean() + (honest[:, None] == filled).mean() / 2
        yield f"{self.change}: AUC {higher:.3f} on photographs that were not fitted on"
        yield f"  {HONEST}: {_quantiles(honest, 5, 10, 25, 50)}"
        yield f"  all fills: {_quantiles(filled, 50, 90, 95)}"
        yield from (f"  {kind}: {_quantiles(values[kinds == kind], 50, 90)}" for kind in sorted({*kinds} - {HONEST}))


def fitted(
    clones: Clones, changes: Sequence[RegionChange], samples: int = SAMPLES, seed: int = 0
) -> Iterator[tuple[Fit, list[Measured]]]:
    """For each change the fit on the training split, and what it is to be judged on: places of the test split.

    samples: composites, of each change and split; the same for the same seed. Raises `InputError` for clones that
    cannot be read, and where there are too few samples to fit on.
    """
    splits = [Photographs.of(clones, split) for split in _SPLITS]
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        for change in changes:
            train, test = (
                [
                    one
                    for some in pool.map(
                        _measured, *zip(*((photographs, change, seed, n) for n in range(samples)), strict=True)
                    )
                    for one in some
                ]
                for photographs in splits
            )
            if any({one.kind == HONEST for one in part} != {True, False} for part in (train, test)):
                raise InputError(f"{samples} samples are too few: no place of {change!r} is honest, or none destroyed")
            yield fit_faults(change, train), test


def table(fits: Sequence[Fit]) -> str:
    """`_SURE` and `_FAULTS` of `region_rating.py` as Python."""
    sure = ", ".join(f'"{fit.change}": {fit.sure}' for fit in fits)
    lines = [f"_SURE: Mapping[RegionChange, float] = MappingProxyType({{{sure}}})", ""]
    lines += ["_FAULTS: Mapping[RegionChange, tuple[_Fault, ...]] = MappingProxyType(", "    {"]
    for fit in fits:
        lines.append(f'        "{fit.change}": (')
        for name, sign, *numbers in fit.faults:
            side = "above" if sign > 0 else "below"
            lines.append(f'            _Fault("{name}", "{side}", {", ".join(map(str, numbers))}),')
        lines.append("        ),")
    return "\n".join([*lines, "    }", ")"])


def _measured(photographs: Photographs, change: RegionChange, seed: int, number: int) -> list[Measured]:
    """The statistics of a composite and of its fills, but where nothing was redrawn."""
    cv2.setNumThreads(1)  # the pool has all cores
    rng = np.random.default_rng([seed, _SPLITS.index(photographs.split), *change.encode(), number])
    composite = compose(photographs, change, rng)
    found = []
    for kind, after in ((HONEST, composite.honest), *fills(composite, _FILLS, rng)):
        source, edited = (np.rint(np.clip(plane, 0, 255)) for plane in (composite.source, after))
        statistics = region_statistics(source, edited, composite.corners, as_drawn=change in AS_DRAWN)
        if statistics is not None:
            found.append(Measured(kind, statistics))
    return found


def fit_faults(change: RegionChange, measured: Sequence[Measured]) -> Fit:
    """The faults that tell honest places from fills, of which there is at least one each."""
    names = list(measured[0].statistics)
    is_honest = np.array([one.kind == HONEST for one in measured])
    honest = np.array([[one.statistics[name] for name in names] for one in measured])[is_honest]
    lowest, low, high, highest = np.quantile(honest, [0.05, 0.15, 0.85, 0.95], axis=0).round(3)
    faults = [
        Fault(name, sign, float(limit), float(max(0.1, round(scale, 3))), 1.0)
        for sign, limits in ((1, high), (-1, low))
        for name, limit, scale in zip(names, limits, highest - lowest, strict=True)
        if may_be_fault(change, name, sign)
    ]
    amounts = np.array([[_beyond(fault, one) for fault in faults] for one in measured])
    sure, weights = _regression(amounts, is_honest)
    kept = [fault._replace(weight=round(float(weight), 2)) for fault, weight in zip(faults, weights, strict=True)]
    kept = sorted((fault for fault in kept if fault.weight >= _LIGHTEST), key=lambda fault: -fault.weight)
    return Fit(change, round(sure + _RAISED[change], 2), tuple(kept))


def _beyond(fault: Fault, measured: Measured) -> float:
    beyond = fault.sign * (measured.statistics[fault.statistic] - fault.limit)
    return min(MOST, max(0.0, beyond / fault.scale))


def may_be_fault(change: RegionChange, name: str, sign: int) -> bool:
    """Whether being above (1) or below (-1) of what is usual can tell against a place, whatever composites say."""
    group, _, part = name.partition(".")
    if group == "interpolated":
        return sign < 0
    if group in ("seam", "step", "side", "flat") or part in ("below", "above"):
        return sign > 0
    if group == "far":  # a new object has no neighbours
        return sign > 0 and change == "removed"
    if group == "remains":  # of what was to go
        return sign > 0 and change in ("removed", "new")
    if group in ("kept", "kept share"):  # shading and background, which are to stay
        return sign < 0 and change in ("recoloured", "text")
    return group != "chroma" or change in ("removed", "new")


def _regression(amounts: Values, is_honest: NDArray[np.bool_]) -> tuple[float, Values]:
    """The logit without faults, at most 6, and what each fault takes from it."""
    weights = np.where(is_honest, 0.5 / is_honest.sum(), 0.5 / (~is_honest).sum())
    signs = np.where(is_honest, 1.0, -1.0)

    def loss(parameters: Values) -> tuple[float, Values]:
        margins = signs * (parameters[0] - amounts @ parameters[1:])
        slopes = -weights * signs / (1 + np.exp(np.clip(margins, -50, 50)))
        value = (weights * np.logaddexp(0, -margins)).sum() + _PENALTY * parameters[1:].sum()
        return float(value), np.r_[slopes.sum(), _PENALTY - slopes @ amounts]

    bounds = [(0, 6), *[(0, _HEAVIEST)] * amounts.shape[1]]
    start = np.r_[2.0, np.full(amounts.shape[1], 0.1)]
    found = bench_library("scipy.optimize").minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B")
    return float(found.x[0]), np.asarray(found.x[1:])


def _quantiles(values: Values, *percents: int) -> str:
    shown = ", ".join(f"{np.percentile(values, percent):.2f} at {percent} %" for percent in percents)
    return f"{len(values)} places, {shown}"
