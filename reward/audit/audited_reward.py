"""What is audited, as one function from samples to scores: a reward, a client of a judge server, or any callable."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from ..base_reward import BaseReward
from ..engine.engine import Engine
from ..image import Image
from ..reward import Reward
from ..sample import EditSample
from ..score import Score

AnyScorer = Callable[[Sequence[EditSample]], Sequence[Any]]
"""A batch of samples -> for each a number, None, or a `Score`."""


@dataclass
class AuditedReward:
    """Scores samples and never raises for what they contain: an exception is a failed score.

    scorer: a `BaseReward`, or any callable that scores a batch. name: for reports; by default its own.
    """

    scorer: AnyScorer
    name: str = ""
    calls: int = 0
    """Of the callable."""
    seconds: float = 0.0
    """In the callable."""
    experts: dict[str, dict[str, float]] = field(default_factory=dict)
    """Of a `Reward`: by expert id, queries, calls, failures and seconds."""

    def __post_init__(self) -> None:
        if isinstance(self.scorer, BaseReward):
            self.scorer = self.scorer.without_failure_limit()
        self.name = self.name or str(getattr(self.scorer, "__name__", type(self.scorer).__name__))
        self._uncached: AnyScorer | None = None

    @property
    def range(self) -> tuple[float | None, float | None]:
        """The lowest and highest value, None where unbounded or unknown."""
        return self.scorer.card.range if isinstance(self.scorer, BaseReward) else (None, None)

    def __call__(self, samples: Sequence[EditSample]) -> list[Score]:
        """A score each. A batch that raises is scored sample by sample, so that only what raises alone has failed."""
        return self._scores(self.scorer, samples)

    def without_cache(self, samples: Sequence[EditSample]) -> list[Score]:
        """The same, with all experts of a `Reward` asked again. A server's cache cannot be left out."""
        if self._uncached is None:
            self._uncached = self.scorer
            if isinstance(self.scorer, Reward):
                engine = Engine(cache_bytes=0)
                self._uncached = Reward(self.scorer.metric, self.scorer.experts, engine=engine, on_failures="none")
        return self._scores(self._uncached, samples)

    def _scores(self, scorer: AnyScorer, samples: Sequence[EditSample]) -> list[Score]:
        if not samples:
            return []
        begun = time.perf_counter()
        self.calls += 1
        try:
            values: Sequence[Any] = list(results := scorer(samples))
            if len(values) != len(samples):
                raise ValueError(f"{len(values)} scores for {len(samples)} samples")
        except Exception as error:  # noqa: BLE001  (whatever a callable of anybody's raises)
            if len(samples) == 1:
                return [Score.failed(f"{type(error).__name__}: {error}"[:500] or "an exception")]
            self.seconds += time.perf_counter() - begun
            return [score for sample in samples for score in self._scores(scorer, [sample])]
        self.seconds += time.perf_counter() - begun
        self._count_experts(results)
        return [score_of(value) for value in values]

    def _count_experts(self, results: Any) -> None:
        for name, counts in getattr(results, "stats", {}).get("experts", {}).items():
            total = self.experts.setdefault(name, {})
            for key, count in counts.items():
                total[key] = total.get(key, 0) + count


def score_of(value: Any) -> Score:
    """A callable's value as a score: a finite number, or none and why."""
    if isinstance(value, Score):
        return value
    if value is None:
        return Score.failed("the reward returned None")
    if hasattr(value, "item"):  # numpy's and torch's numbers
        try:
            value = value.item()
        except (TypeError, ValueError, RuntimeError):
            return Score.failed(f"the reward returned {type(value).__name__}, not a number")
    if isinstance(value, Real) and math.isfinite(value):
        return Score.of(float(value))
    return Score.failed(f"the reward returned {value!r:.80}, not a finite number")


def reward_of_pictures(
    function: Callable[[list[Any], list[Any], list[str]], Sequence[Any]],
) -> AnyScorer:
    """A scorer from a function of three lists: sources and edited pictures (PIL, RGB), and instructions.

    Of several sources, it sees the first.
    """

    def scorer(samples: Sequence[EditSample]) -> Sequence[Any]:
        sources, edited = ([image.pil() for image in images] for images in zip(*map(_pictures, samples), strict=True))
        return function(sources, edited, [sample.instruction for sample in samples])

    scorer.__name__ = getattr(function, "__name__", type(function).__name__)
    return scorer


def _pictures(sample: EditSample) -> tuple[Image, Image]:
    return sample.source, sample.edited
