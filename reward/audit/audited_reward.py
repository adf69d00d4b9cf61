"""What is audited, as one function from samples to scores: a reward, a client of a judge server, or any callable."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import PIL.Image

from ..base_reward import BaseReward
from ..config import ExpertBindings
from ..engine.engine import Engine
from ..image import ImageError
from ..queries.specs import Spec
from ..reward import Reward
from ..sample import EditSample
from ..score import Score, Scores
from ..timeout_compat import TIMEOUTS

AnyScorer = Callable[[Sequence[EditSample]], Sequence[Any]]
"""A batch of samples -> for each a number, None, or a `Score`."""
_LARGEST = 1e100  # of a score: differences of larger ones, as shares of others, are no floats
_OUTAGES = 3
"""Samples in a row that fail for reasons of infrastructure, each alone: the others of their batch would, too."""


@dataclass
class AuditedReward:
    """Scores samples and never raises for what they contain: an exception is a failed score.

    Args:
        scorer: A `BaseReward`, or any callable that scores a batch.
        name: For reports; by default its own.
    """

    scorer: AnyScorer
    name: str = ""
    calls: int = 0
    """Of the callable."""
    samples: int = 0
    """Scored in these calls, with companions."""
    seconds: float = 0.0
    """In the callable."""
    experts: dict[str, dict[str, float]] = field(default_factory=dict)
    """Of a `Reward`: by expert id, queries, calls, failures and seconds."""

    def __post_init__(self) -> None:
        if isinstance(self.scorer, BaseReward):
            self.scorer = self.scorer.without_failure_limit()
        self.name = self.name or str(getattr(self.scorer, "__name__", type(self.scorer).__name__))

    @staticmethod
    def bound(
        reward: BaseReward | AnyScorer | Spec, experts: ExpertBindings | None, samples: Sequence[EditSample]
    ) -> AuditedReward:
        """From whatever a caller gives (see `audit`), with nothing counted. Raises ValueError, also where samples lack
        fields that it requires.
        """
        name = ""
        if isinstance(reward, AuditedReward):  # of another audit: what that took is not ours
            name, reward = reward.name, reward.scorer
        if not isinstance(reward, BaseReward) and hasattr(reward, "card"):
            raise ValueError(f"{type(reward).__name__} is a metric: give its name and its experts, or a Reward of both")
        if not callable(reward):
            reward = Reward.of(reward, experts, on_failures="none")
        elif experts is not None:
            raise ValueError("this reward has its experts already: pass experts= only with a spec")
        if isinstance(reward, BaseReward):
            reward.validate(samples)
        return AuditedReward(reward, name)

    @property
    def identity(self) -> str:
        """The reward's signature; empty where unknown."""
        return self.scorer.known_signature if isinstance(self.scorer, BaseReward) else ""

    @property
    def roles(self) -> dict[str, tuple[str, ...]]:
        """Of the experts that were asked, by id."""
        roles: dict[str, list[str]] = {name: [] for name in self.experts}
        bound = self.scorer.experts.items() if isinstance(self.scorer, Reward) else ()
        for role, expert in bound:
            with suppress(Exception):  # one that is down, as without its library, may have no id, and was not asked
                roles.setdefault(expert.id, []).append(role)
        return {name: tuple(roles[name]) for name in self.experts}

    @property
    def range(self) -> tuple[float | None, float | None]:
        """The lowest and highest value, None where unbounded or unknown."""
        return self.scorer.card.range if isinstance(self.scorer, BaseReward) else (None, None)

    def __call__(self, samples: Sequence[EditSample]) -> list[Score]:
        """A score each. A batch that raises is scored sample by sample, so that only what raises alone has failed.
        After three outages in a row, its others have failed, too: each would wait for a time-out of its own.
        """
        return self._each(self.scorer, samples, readable=True)

    def without_cache(self, samples: Sequence[EditSample], *, readable: bool = True) -> list[Score]:
        """The same, with all experts of a `Reward` asked again. A server's cache cannot be left out.

        Args:
            readable: Whether the pictures are; of others, an outage says nothing about the next one.
        """
        return self._each(self._uncached, samples, readable=readable)

    def whole_batch(self, samples: Sequence[EditSample]) -> list[Score]:
        """The same, without a second try: in a batch that raises, all have failed."""
        try:
            return self._call(self._uncached, samples)
        except Exception as error:  # noqa: BLE001  (whatever a callable of anybody's raises)
            return [_failed(error)] * len(samples)

    @cached_property
    def _uncached(self) -> AnyScorer:
        if not isinstance(self.scorer, Reward):
            return self.scorer
        # Broken pictures are scored with it, too: their failures are expected, and open no expert's circuit.
        engine = Engine(cache_bytes=0, breaker=sys.maxsize)
        return Reward(self.scorer.metric, self.scorer.experts, engine=engine, on_failures="none")

    def _each(self, scorer: AnyScorer, samples: Sequence[EditSample], *, readable: bool) -> list[Score]:
        try:
            return self._call(scorer, samples)
        except Exception as error:  # noqa: BLE001  (whatever a callable of anybody's raises)
            if len(samples) == 1:
                return [_failed(error)]
        scores: list[Score] = []
        for sample in samples:
            last = scores[-_OUTAGES:] if readable else []
            if len(last) == _OUTAGES and all(score.cause == "infrastructure" for score in last):
                scores.append(last[-1])
            else:
                scores += self._each(scorer, [sample], readable=readable)
        return scores

    def _call(self, scorer: AnyScorer, samples: Sequence[EditSample]) -> list[Score]:
        if not samples:
            return []
        begun = time.perf_counter()
        self.calls += 1
        try:
            results = scorer(list(samples))  # a callable may empty its list
            scores = [score_of(value) for value in _in_order(results)]
        except SystemExit as end:  # a program's function, which would take the audit with it
            raise RuntimeError(f"the reward ended the program: sys.exit({end.code!r:.100})") from end
        finally:
            self.seconds += time.perf_counter() - begun
        if len(scores) != len(samples):
            raise ValueError(f"{len(scores)} scores for {len(samples)} samples")
        self.samples += len(samples)
        if isinstance(results, Scores):
            for name, counts in results.stats.get("experts", {}).items():  # a server's client has none
                total = self.experts.setdefault(name, {})
                for key, count in counts.items():
                    total[key] = total.get(key, 0) + count
        return scores


def _in_order(results: Any) -> Iterator[Any]:
    """The values that a callable returned. Raises TypeError for what has no order, or is no collection of values."""
    if not isinstance(results, Mapping | Set | str | bytes):
        with suppress(TypeError):
            return iter(results)
    raise TypeError(f"a reward returns a list of scores in the order of its samples, got {type(results).__name__}")


def score_of(value: Any) -> Score:
    """A callable's value as a score: a number of at most 1e100, or none and why."""
    if isinstance(value, Score):
        return value
    if value is None:
        return Score.failed("the reward returned None")
    try:
        number = float(value.item() if hasattr(value, "item") else value)  # numpy's and torch's numbers have it
    except OverflowError:
        return Score.failed("the reward returned an integer that is too large for a float")
    except (TypeError, ValueError, RuntimeError):
        number = None
    if number is None or isinstance(value, str | bytes):
        return Score.failed(f"the reward returned {type(value).__name__}, not a number")
    if not math.isfinite(number):
        return Score.failed(f"the reward returned {number}, not a finite number")
    if abs(number) > _LARGEST:
        return Score.failed(f"the reward returned {number:g}, too large to be compared")
    return Score.of(number)


def _failed(error: Exception) -> Score:
    outage = isinstance(error, (ConnectionError, MemoryError, *TIMEOUTS))
    text = ""
    with suppress(Exception):  # of a class of anybody's
        text = str(error)
    return Score.failed(f"{type(error).__name__}: {text}"[:500], cause="infrastructure" if outage else "")


def reward_of_pictures(function: Callable[[list[Any], list[Any], list[str]], Sequence[Any]]) -> AnyScorer:
    """A scorer from a function of three lists: sources and edited pictures (PIL, RGB), and instructions.

    Of several sources, it sees the first. Samples whose pictures cannot be read have failed, and it sees the others.
    """

    def scorer(samples: Sequence[EditSample]) -> Sequence[Any]:
        read = [_pictures(sample) for sample in samples]
        seen = [
            (*pair, sample.instruction) for pair, sample in zip(read, samples, strict=True) if isinstance(pair, tuple)
        ]
        if not seen:
            return read
        sources, edited, instructions = (list(column) for column in zip(*seen, strict=True))
        values = list(_in_order(function(sources, edited, instructions)))
        if len(values) != len(seen):
            raise ValueError(f"{len(values)} scores for {len(seen)} pictures")
        scores = iter(values)
        return [next(scores) if isinstance(pair, tuple) else pair for pair in read]

    scorer.__name__ = getattr(function, "__name__", type(function).__name__)
    return scorer


def _pictures(sample: EditSample) -> tuple[PIL.Image.Image, PIL.Image.Image] | Score:
    try:
        return sample.source.pil(), sample.edited.pil()
    except ImageError as error:
        return Score.failed(str(error))
