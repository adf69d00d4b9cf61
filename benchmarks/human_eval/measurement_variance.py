"""How many measurements a judge needs. Complex-Edit (arXiv 2504.13143), section 4.2 and figure 7.

Of each sample 4 K measurements are taken; (max - min) / 2 of their four means of K is its variation, which falls with
K. A measurement is one call of the metric, asked with draws of its own: a metric that averages many by itself (`n=20`)
is told to take one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from ...reward import EditSample, Reward, Score
from ...reward.complexedit.variance import MEANS, variation
from ...reward.repeats import APART, Noise, Redrawn
from ..inputs import InputError
from ..suites.figures import DRAWS, draws
from ..suites.suite import Item

KS = (1, 2, 4, 8, 20)

RANGE_OF_FOUR = 2.05875
"""Expected range of four normal numbers of standard deviation 1 (Tippett 1925)."""


@dataclass(frozen=True, slots=True)
class At:
    """k: measurements that are averaged. mean: of the variation over samples, with its 95 % interval over cases.

    largest: of all samples. expected: what independent normal measurements of the same spread would give.
    """

    k: int
    mean: float
    low: float | None
    high: float | None
    largest: float
    samples: int
    expected: float


@dataclass(frozen=True)
class Measured:
    """ids, cases, values: of each sample, what it was measured as. failed: samples with too few values, and why."""

    metric: str
    ids: Sequence[str]
    cases: Sequence[str]
    values: Sequence[Sequence[float]]
    failed: Mapping[str, str]
    unit: str = ""

    @property
    def most(self) -> int:
        """The largest k that every sample has measurements for."""
        return min(len(row) for row in self.values) // MEANS

    @cached_property
    def noise(self) -> Noise | None:
        """Of one measurement: the standard deviation within a sample."""
        return Noise.of(self.values)

    def at(self, k: int, *, seed: int = 0) -> At:
        """Raises ValueError for more than there are measurements for."""
        found = np.array([variation(row, k) for row in self.values])
        std = 0.0 if self.noise is None else self.noise.std
        low, high = self._interval(found, seed)
        expected = RANGE_OF_FOUR / 2 * std / math.sqrt(k)
        return At(k, float(found.mean()), low, high, float(found.max()), len(found), expected)

    def needed(self, spread: float) -> int | None:
        """How many measurements bring the mean variation to `spread`, by the spread of one; None if that is unknown.

        The four means of K independent measurements are about normal, so that their half range is expected to be
        1.03 times the standard deviation of one measurement over the root of K.
        """
        if self.noise is None:
            return None
        return max(1, math.ceil((RANGE_OF_FOUR / 2 * self.noise.std / spread) ** 2 - 1e-9))

    def to_json(self, ks: Sequence[int], spread: float | None) -> dict[str, Any]:
        noise = self.noise
        rows = [self.at(k) for k in ks]
        return {
            "metric": self.metric,
            "unit": self.unit,
            "samples": len(self.ids),
            "std_of_one": None if noise is None else noise.std,
            "std_low": None if noise is None else noise.low,
            "std_high": None if noise is None else noise.high,
            "flips": None if noise is None else noise.flips,
            "variation": [
                {
                    "k": row.k,
                    "mean": row.mean,
                    "low": row.low,
                    "high": row.high,
                    "largest": row.largest,
                    "expected": row.expected,
                }
                for row in rows
            ],
            "wanted": spread,
            "needed": None if spread is None else self.needed(spread),
            "measurements": {name: list(row) for name, row in zip(self.ids, self.values, strict=True)},
            "failed": dict(self.failed),
        }

    def _interval(self, found: Any, seed: int) -> tuple[float | None, float | None]:
        names = {case: number for number, case in enumerate(dict.fromkeys(self.cases))}
        if len(names) < 2:
            return None, None
        of = np.array([names[case] for case in self.cases])
        weights = draws(len(names), DRAWS, seed=seed)[:, of]
        with np.errstate(invalid="ignore", divide="ignore"):
            means = (weights @ found) / weights.sum(axis=1)
        low, high = np.nanquantile(means, [0.025, 0.975])
        return float(low), float(high)


def chosen(items: Sequence[Item], count: int, seed: int = 0) -> list[Item]:
    """So many items, each of a case of its own where there are enough, drawn by seed."""
    chance = random.Random(seed)
    order = list(items)
    chance.shuffle(order)
    first: dict[str, Item] = {}
    for item in order:
        first.setdefault(item.case, item)
    rest = [item for item in order if first[item.case] is not item]
    return [*first.values(), *rest][:count]


def measured(
    reward: Reward,
    items: Sequence[Item],
    samples: Sequence[EditSample],
    path: Sequence[str],
    count: int,
    step: Callable[[], None] = lambda: None,
) -> Measured:
    """Score each sample `count` times, each time with other draws of the judge.

    path: of the score that is looked at: () for the whole. step: called after each measurement of all samples. Samples
    with a measurement that has no value are `failed`; raises `InputError` where all are.
    """
    rows: list[list[float]] = [[] for _ in samples]
    why: dict[str, str] = {}
    for number in range(count):
        again = Reward(
            Redrawn(reward.metric, number * APART),
            reward.experts,
            engine=reward.engine,
            max_failed=reward.max_failed,
            on_failures=reward.on_failures,
        )
        for item, row, score in zip(items, rows, again(samples), strict=True):
            part = _part(score, path)
            if part.value is None:
                why.setdefault(item.id, part.reason)
            else:
                row.append(part.value)
        step()
    kept = [(item, row) for item, row in zip(items, rows, strict=True) if item.id not in why]
    if not kept:
        raise InputError(f"no sample could be measured {count} times; the first: {next(iter(why.values()))}")
    name = "/".join([reward.card.name, *path])
    values = [row for _, row in kept]
    unit = reward.card.unit if not path else ""
    return Measured(name, [item.id for item, _ in kept], [item.case for item, _ in kept], values, why, unit)


def _part(score: Score, path: Sequence[str]) -> Score:
    for name in path:
        found = score.parts.get(name) or score.credits.get(name)
        if found is None:
            return Score.failed(f"the score has no part {name!r}: {score.reason or 'it is whole'}")
        score = found
    return score


def settles(rows: Sequence[At], share: float = 0.1) -> int | None:
    """The first k from which on the mean variation falls by less than `share` of that of one measurement, if any."""
    first = rows[0].mean
    for one, following in pairwise(rows):
        if one.mean - following.mean < share * first:
            return one.k
    return None
