"""Judge variance: the standard deviation of a reward under repeated sampling of its judge.

    from editcritic.reward.training.judge_variance import measure_judge_variance

    noise = measure_judge_variance(reward, samples)
    print(noise)  # e.g. 0.081 [0.064, 0.098] over 4 repeats of 32 samples

A sampled judge's answer is determined by the query and its `draw`, and answers are cached. So a repeat sends the same
queries with other draws. The first repeat equals the reward's own scores: it costs nothing if the samples were scored
before with the same engine and experts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean, variance

import numpy as np

from ..bootstrap_intervals import Numbers, bootstrap_interval
from ..card import Card
from ..engine.program import Ask, Program, map_asks
from ..metrics.compose import Metric
from ..queries.kinds import Judge
from ..reward import Reward
from ..sample import EditSample
from ..score import Score

DRAW_STRIDE = 10**9
"""Offset of the draws between repeats: more than the number of draws of any metric."""


@dataclass(frozen=True, slots=True)
class VarianceEstimate:
    """Variation of repeated values of one sample.

    Args:
        std: Standard deviation within a sample (n - 1), pooled over samples, in units of the value.
        low: Its 95 % interval, by bootstrap over samples; None for one sample.
        high: Its 95 % interval, by bootstrap over samples; None for one sample.
        disagreement: For binary values, the probability that two repeats differ, in [0, 1]; else None.
        samples: Number of samples with two or more values.
    """

    std: float
    low: float | None
    high: float | None
    disagreement: float | None
    samples: int

    @staticmethod
    def of(values: Sequence[Sequence[float]]) -> VarianceEstimate | None:
        """From a list of values per sample. None where no sample has two."""
        rows = [row for row in values if len(row) > 1]
        if not rows:
            return None
        freedom = np.array([len(row) - 1 for row in rows], float)
        squares = np.array([variance(row) for row in rows]) * freedom  # exactly 0 for equal values, unlike numpy's
        low, high = bootstrap_interval(_pooled_std, squares, freedom) or (None, None)
        is_binary = all(value in (0.0, 1.0) for row in rows for value in row)
        disagreement = fmean(_disagreement(row) for row in rows) if is_binary else None
        return VarianceEstimate(float(_pooled_std(squares, freedom)), low, high, disagreement, len(rows))

    def __str__(self) -> str:
        text = f"{self.std:.3g}" + ("" if self.low is None else f" [{self.low:.3g}, {self.high:.3g}]")
        return text if self.disagreement is None else f"{text}, {self.disagreement:.0%} of decisions flip"


@dataclass(frozen=True, slots=True)
class JudgeVariance:
    """Result of `measure_judge_variance`.

    Args:
        overall: Of the reward's values. None where no sample has two values.
        parts: Of each part and credit with values, by path, as in "reward/following".
        repeats: Number of scores per sample.
        unscored: Fraction of scores without a value.
        judge_queries: Queries to a judge per repeat; 0 where the reward uses no judge.
    """

    overall: VarianceEstimate | None
    parts: Mapping[str, VarianceEstimate]
    repeats: int
    samples: int
    unscored: float
    judge_queries: int

    @property
    def std(self) -> float:
        """For `advantages(..., judge_std=...)`.

        Raises:
            ValueError: Where no sample has two values.
        """
        if self.overall is None:
            raise ValueError(
                f"no sample has two values, {self.unscored:.0%} of the scores have none: use other samples"
            )
        return self.overall.std

    @property
    def deterministic(self) -> bool:
        """Whether all repeats have equal values, parts and credits."""
        return self.overall is not None and not any(part.std for part in (self.overall, *self.parts.values()))

    def __str__(self) -> str:
        basis = f"over {self.repeats} repeats of {self.samples} samples"
        if self.overall is None:
            return f"unknown {basis}: none has two values"
        if not self.deterministic:
            return f"{self.overall} {basis}"
        return f"exactly 0 {basis}: " + ("the judge is deterministic" if self.judge_queries else "no judge is used")


def measure_judge_variance(reward: Reward, samples: Sequence[EditSample], repeats: int = 4) -> JudgeVariance:
    """Score samples `repeats` times, each time with other draws of the judge.

    32 samples give the standard deviation to about 10 %. A deterministic judge is queried again, too, since this is not
    known in advance; other experts answer from the cache.

    Raises:
        ValueError: For fewer than two repeats or no samples, and the exceptions of the reward.
    """
    if repeats < 2:
        raise ValueError(f"the variance needs two or more repeats, got {repeats}")
    if not samples:
        raise ValueError("the variance needs samples, got none: give 16 or more from the training distribution")
    values: list[dict[str, list[float]]] = [{} for _ in samples]
    judge_queries = unscored = 0
    for repeat in range(repeats):
        metric = ResampledMetric(reward.metric, repeat * DRAW_STRIDE)
        for row, score in zip(values, with_metric(reward, metric)(samples), strict=True):
            unscored += score.value is None
            for path, value in _values(score):
                row.setdefault(path, []).append(value)
        judge_queries = judge_queries or metric.judge_queries
    paths = dict.fromkeys(path for row in values for path in row)
    estimates = {path: VarianceEstimate.of([row.get(path, []) for row in values]) for path in paths}
    overall = estimates.pop("", None)
    parts = {path: estimate for path, estimate in estimates.items() if estimate is not None}
    return JudgeVariance(overall, parts, repeats, len(samples), unscored / (repeats * len(samples)), judge_queries)


def with_metric(reward: Reward, metric: Metric) -> Reward:
    """A reward with another metric, and everything else of this one: experts, engine, limits."""
    return Reward(
        metric,
        reward.experts,
        engine=reward.engine,
        max_failure_rate=reward.max_failure_rate,
        on_failures=reward.on_failures,
        outage_timeout_s=reward.outage_timeout_s,
    )


class ResampledMetric:
    """A metric with the draws of its judge queries increased by `shift`.

    judge_queries: number of queries to a judge, over all calls.
    """

    def __init__(self, metric: Metric, shift: int) -> None:
        self._metric = metric
        self._shift = shift
        self.judge_queries = 0

    @cached_property
    def card(self) -> Card:
        return self._metric.card

    def __call__(self, sample: EditSample) -> Program[Score]:
        return map_asks(self._metric(sample), self._shifted)

    def _shifted(self, request: Ask) -> Ask:
        self.judge_queries += sum(isinstance(query, Judge) for query in request.queries)
        shifted = (
            replace(query, draw=query.draw + self._shift) if isinstance(query, Judge) else query
            for query in request.queries
        )
        return replace(request, queries=tuple(shifted))


def _values(score: Score, path: str = "") -> Iterator[tuple[str, float]]:
    """The values of a score, its parts and its credits, each with its path."""
    if score.value is not None:
        yield path, score.value
    for children in (score.parts, score.credits):
        for name, child in children.items():
            yield from _values(child, f"{path}/{name}" if path else name)


def _pooled_std(squares: Numbers, freedom: Numbers) -> Numbers:
    """From the sum of squared deviations of each row, (..., rows), and its degrees of freedom."""
    std: Numbers = np.sqrt(squares.sum(axis=-1) / freedom.sum(axis=-1))
    return std


def _disagreement(row: Sequence[float]) -> float:
    ones = sum(row)
    return 2 * ones * (len(row) - ones) / (len(row) * (len(row) - 1))
