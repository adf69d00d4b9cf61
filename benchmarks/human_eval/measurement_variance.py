"""Variance of a judge by number of measurements. Complex-Edit (arXiv 2504.13143), section 4.2 and figure 7.

Each sample gets 4 K measurements; its variation is (max - min) / 2 of their four means of K, which falls with K. A
measurement is one call of the metric with its own samples of the judge; a metric that averages several by itself
(`n=20`) takes one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from statistics import fmean
from typing import Any

import numpy as np

from ...reward import EditSample, Reward, Score
from ...reward.training.judge_variance import DRAW_STRIDE, ResampledMetric, VarianceEstimate, with_metric
from ..common.errors import InputError
from ..suites.bootstrap import Statistic, bootstrap_weights
from ..suites.suite import SuiteItem

SUBSAMPLE_MEANS = 4  # number of means that are compared


def variation(grades: Sequence[float], k: int) -> float:
    """(max - min) / 2 of four means of `k` measurements each, in the unit of the grades; 0 if all agree. grades: at
    least 4 k measurements of one sample, which are split into consecutive groups of k. Raises ValueError for fewer. In
    the paper's figure 7 the variation settles at k = 20."""
    if k < 1:
        raise ValueError(f"a mean needs at least one measurement, got k={k}")
    if len(grades) < SUBSAMPLE_MEANS * k:
        raise ValueError(
            f"{SUBSAMPLE_MEANS} means of {k} measurements need {SUBSAMPLE_MEANS * k} grades, got {len(grades)}: "
            "measure more"
        )
    means = [fmean(grades[start : start + k]) for start in range(0, SUBSAMPLE_MEANS * k, k)]
    return (max(means) - min(means)) / 2


DEFAULT_COUNTS = (1, 2, 4, 8, 20)

RANGE_OF_FOUR = 2.05875  # expected range of four normal numbers of standard deviation 1 (Tippett 1925)


@dataclass(frozen=True, slots=True)
class MeasuredEdit:
    """An edit to measure. id: in the report. case: edits of one source have the same; intervals are over cases."""

    id: str
    case: str
    sample: EditSample

    @staticmethod
    def of(sample: EditSample) -> MeasuredEdit:
        """Of a sample that belongs to no suite: its case is its source pictures."""
        return MeasuredEdit(sample.id, " ".join(image.digest for image in sample.sources), sample)


@dataclass(frozen=True, slots=True)
class VariationAt:
    """num_averaged: measurements per mean. mean: of the variation over samples, with its 95 % interval over cases.
    largest: over all samples. expected: for independent normal measurements of the same standard deviation."""

    num_averaged: int
    mean: float
    low: float | None
    high: float | None
    largest: float
    samples: int
    expected: float


@dataclass(frozen=True)
class RepeatedMeasurements:
    """ids, cases, values: of each sample, with all its measurements. failed: samples with too few values -> reason."""

    metric: str
    ids: Sequence[str]
    cases: Sequence[str]
    values: Sequence[Sequence[float]]
    failed: Mapping[str, str]
    unit: str = ""

    @property
    def max_count(self) -> int:
        """The largest K with enough measurements of every sample."""
        return min(len(row) for row in self.values) // SUBSAMPLE_MEANS

    @cached_property
    def noise(self) -> VarianceEstimate | None:
        """Standard deviation of one measurement within a sample."""
        return VarianceEstimate.of(self.values)

    def variation_at(self, k: int) -> VariationAt:
        """Variation of means of k. Raises ValueError if there are too few measurements."""
        variations = np.array([variation(row, k) for row in self.values])
        std = 0.0 if self.noise is None else self.noise.std
        cases = {case: number for number, case in enumerate(dict.fromkeys(self.cases))}
        low = high = None
        if len(cases) > 1:
            mean = Statistic.mean(variations, [cases[case] for case in self.cases], len(cases))
            low, high = mean.interval(bootstrap_weights(len(cases))) or (None, None)
        expected = RANGE_OF_FOUR / 2 * std / math.sqrt(k)
        return VariationAt(k, float(variations.mean()), low, high, float(variations.max()), len(variations), expected)

    def required_count(self, target_variation: float) -> int | None:
        """The K whose mean variation is `target_variation`, from the std of one measurement; None if that is unknown.
        The four means of K independent measurements are about normal, so their expected half range is 1.03 times the
        standard deviation of one measurement over the square root of K."""
        if self.noise is None:
            return None
        return max(1, math.ceil((RANGE_OF_FOUR / 2 * self.noise.std / target_variation) ** 2 - 1e-9))

    def to_json(self, ks: Sequence[int], target_variation: float | None) -> dict[str, Any]:
        noise, rows = self.noise, [asdict(self.variation_at(k)) for k in ks]
        names = ("mean", "low", "high", "largest", "expected")
        return {
            "metric": self.metric,
            "unit": self.unit,
            "samples": len(self.ids),
            "measurement_std": None if noise is None else noise.std,
            "std_low": None if noise is None else noise.low,
            "std_high": None if noise is None else noise.high,
            "sign_flips": None if noise is None else noise.disagreement,
            "variation": [{"k": row["num_averaged"], **{name: row[name] for name in names}} for row in rows],
            "target_variation": target_variation,
            "required_measurements": None if target_variation is None else self.required_count(target_variation),
            "measurements": {name: list(row) for name, row in zip(self.ids, self.values, strict=True)},
            "failed": dict(self.failed),
        }


def sample_items(items: Sequence[SuiteItem], count: int, seed: int = 0) -> list[SuiteItem]:
    """`count` items sampled by seed, of different cases if there are enough."""
    rng = random.Random(seed)
    order = list(items)
    rng.shuffle(order)
    first: dict[str, SuiteItem] = {}
    for item in order:
        first.setdefault(item.case, item)
    rest = [item for item in order if first[item.case] is not item]
    return [*first.values(), *rest][:count]


def measure_repeatedly(
    reward: Reward,
    edits: Sequence[MeasuredEdit],
    path: Sequence[str],
    count: int,
    step: Callable[[], None] = lambda: None,
) -> RepeatedMeasurements:
    """Score each edit `count` times, each time with new samples of the judge. path: of the measured part; () is the
    whole score. step: called after each measurement of all edits. Edits with a measurement without a value are
    `failed`; raises `InputError` if all are."""
    rows: list[list[float]] = [[] for _ in edits]
    samples = [edit.sample for edit in edits]
    reasons: dict[str, str] = {}
    for number in range(count):
        resampled = with_metric(reward, ResampledMetric(reward.metric, number * DRAW_STRIDE))
        for edit, row, score in zip(edits, rows, resampled(samples), strict=True):
            part = _part(score, path)
            if part.value is None:
                reasons.setdefault(edit.id, part.reason)
            else:
                row.append(part.value)
        step()
    complete = [(edit, row) for edit, row in zip(edits, rows, strict=True) if edit.id not in reasons]
    if not complete:
        raise InputError(f"no sample could be measured {count} times; the first: {next(iter(reasons.values()))}")
    ids, cases, values = zip(*((edit.id, edit.case, row) for edit, row in complete), strict=True)
    name, unit = "/".join([reward.card.name, *path]), "" if path else reward.card.unit
    return RepeatedMeasurements(name, ids, cases, values, reasons, unit)


def _part(score: Score, path: Sequence[str]) -> Score:
    for name in path:
        child = score.parts.get(name) or score.credits.get(name)
        if child is None:
            return Score.failed(f"the score has no part {name!r}: {score.reason or 'it has no parts'}")
        score = child
    return score


def first_stable_count(rows: Sequence[VariationAt]) -> int | None:
    """The first K from which the mean variation falls by less than a tenth of that at the first K; None without one."""
    first = rows[0].mean
    for current, following in pairwise(rows):
        if current.mean - following.mean < 0.1 * first:
            return current.num_averaged
    return None
