"""Judge noise: how far a reward's values are apart when the judge is asked the same again.

from editcritic.reward.repeats import judge_noise
noise = judge_noise(reward, samples)
print(noise)  # e.g. 0.081 [0.064, 0.098] over 4 repeats of 32 samples

A sampled judge's answer depends on the question and its `draw` alone, and an answered question is never asked again. So
a repeat asks the same questions with other draws. The first repeat is what the reward says anyway: asked with the same
engine and experts, it costs nothing if the samples were scored before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, variance
from typing import Any

import numpy as np

from .asking import Ask, Asks, Gather
from .card import Card
from .compose import Metric
from .query import Judge, Query
from .reward import Reward
from .sample import EditSample
from .score import Score

APART = 10**9
"""How far the draws of two repeats are apart: more than any metric asks for."""

_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Noise:
    """How far values of one sample are apart.

    std: standard deviation within a sample (n - 1), pooled over samples, in units of the value. low, high: its 95 %
    interval, by bootstrap over samples; None for one sample. flips: of a value that is always 0 or 1, how often two
    repeats decide differently, in [0, 1]; None of others. samples: how many this rests on: those with two values or
    more.
    """

    std: float
    low: float | None
    high: float | None
    flips: float | None
    samples: int

    @staticmethod
    def of(values: Sequence[Sequence[float]]) -> Noise | None:
        """Of a list of values a sample. None where no sample has two."""
        found = [row for row in values if len(row) > 1]
        if not found:
            return None
        freedom = np.array([len(row) - 1 for row in found], float)
        squares = np.array([variance(row) for row in found]) * freedom  # exactly 0 for equal values, unlike numpy's
        low = high = None
        if len(found) > 1:
            drawn = np.random.default_rng(0).integers(0, len(found), (_RESAMPLES, len(found)))
            spread = np.sqrt(squares[drawn].sum(axis=1) / freedom[drawn].sum(axis=1))
            low, high = (float(one) for one in np.quantile(spread, (0.025, 0.975)))
        binary = all(value in (0.0, 1.0) for row in found for value in row)
        flips = fmean(_differing(row) for row in found) if binary else None
        return Noise(math.sqrt(squares.sum() / freedom.sum()), low, high, flips, len(found))

    def __str__(self) -> str:
        said = f"{self.std:.3g}" + ("" if self.low is None else f" [{self.low:.3g}, {self.high:.3g}]")
        return said if self.flips is None else f"{said}, {self.flips:.0%} of decisions flip"


@dataclass(frozen=True, slots=True)
class JudgeNoise:
    """The noise of a reward, as `judge_noise` measured it.

    whole: of the values. None where no sample has two values. parts: of each part and credit that has values, by its
    path, as in "reward/following". repeats: how often each sample was scored. unscored: share of these scores without a
    value. questions: put to a judge in one repeat; 0 where the reward asks no judge that could waver.
    """

    whole: Noise | None
    parts: Mapping[str, Noise]
    repeats: int
    samples: int
    unscored: float
    questions: int

    @property
    def std(self) -> float:
        """What `advantages(..., noise=...)` takes. Raises ValueError where nothing could be measured."""
        if self.whole is None:
            raise ValueError(f"no sample has two values, {self.unscored:.0%} of the scores have none: score others")
        return self.whole.std

    @property
    def deterministic(self) -> bool:
        """Whether every repeat said the same, of the whole, its parts and its credits."""
        return self.whole is not None and not any(one.std for one in (self.whole, *self.parts.values()))

    def __str__(self) -> str:
        over = f"over {self.repeats} repeats of {self.samples} samples"
        if self.whole is None:
            return f"not known {over}: none has two values"
        if not self.deterministic:
            return f"{self.whole} {over}"
        return f"exactly 0 {over}: " + ("the judge is deterministic" if self.questions else "no judge is asked")


def judge_noise(reward: Reward, samples: Sequence[EditSample], repeats: int = 4) -> JudgeNoise:
    """Score samples `repeats` times, each time with other draws of the judge.

    32 samples tell the standard deviation to about a tenth. A judge whose answers are not sampled is asked again all
    the same, for nobody knows beforehand; experts that are not asked in words answer from memory. Raises ValueError for
    fewer than two repeats or no samples, and what calling the reward raises.
    """
    if repeats < 2:
        raise ValueError(f"noise shows in two repeats or more, got {repeats}")
    if not samples:
        raise ValueError("noise is measured on samples, got none: give 16 or more, of the kind that is trained on")
    values: list[dict[str, list[float]]] = [{} for _ in samples]
    questions = unscored = 0
    for repeat in range(repeats):
        metric = Redrawn(reward.metric, repeat * APART)
        again = Reward(
            metric,
            reward.experts,
            engine=reward.engine,
            max_failed=reward.max_failed,
            on_failures=reward.on_failures,
            patience_s=reward.patience_s,
        )
        for row, score in zip(values, again(samples), strict=True):
            unscored += score.value is None
            for path, value in _values(score):
                row.setdefault(path, []).append(value)
        questions = questions or metric.questions
    paths = dict.fromkeys(path for row in values for path in row)
    found = {path: Noise.of([row.get(path, []) for row in values]) for path in paths}
    whole = found.pop("", None)
    parts = {path: noise for path, noise in found.items() if noise is not None}
    return JudgeNoise(whole, parts, repeats, len(samples), unscored / (repeats * len(samples)), questions)


class Redrawn:
    """A metric that asks a judge the same questions with draws that are `shift` further on.

    questions: how many were put to a judge, over all calls.
    """

    def __init__(self, metric: Metric, shift: int) -> None:
        self._metric = metric
        self._shift = shift
        self.questions = 0

    @property
    def card(self) -> Card:
        return self._metric.card

    def __call__(self, sample: EditSample) -> Asks[Score]:
        return self._program(self._metric(sample))

    def _program(self, program: Asks[Score]) -> Asks[Score]:
        answer = None
        while True:
            try:
                asked = program.send(answer)
            except StopIteration as done:
                found: Score = done.value
                return found
            if isinstance(asked, Gather):
                asked = Gather(tuple(self._program(inner) for inner in asked.programs))
            else:
                assert isinstance(asked, Ask)
                asked = replace(asked, queries=tuple(self._redrawn(query) for query in asked.queries))
            answer = yield asked

    def _redrawn(self, query: Query[Any]) -> Query[Any]:
        if not isinstance(query, Judge):
            return query
        self.questions += 1
        return replace(query, draw=query.draw + self._shift)


def _values(score: Score, path: str = "") -> Iterator[tuple[str, float]]:
    """The values in a score, of its parts and of its credits, each with where it stands."""
    if score.value is not None:
        yield path, score.value
    for inner in (score.parts, score.credits):
        for name, part in inner.items():
            yield from _values(part, f"{path}/{name}" if path else name)


def _differing(row: Sequence[float]) -> float:
    """The share of pairs of 0s and 1s that are not alike."""
    ones = sum(row)
    return 2 * ones * (len(row) - ones) / (len(row) * (len(row) - 1))
