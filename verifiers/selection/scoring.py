"""Scoring of a run: a reward whose scores are journaled, and their cost without sharing between candidates."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

from ...reward import BaseReward, Card, EditSample, Engine, Program, Reward, Score, SpecError
from ...reward.engine.program import Ask, map_asks
from ...reward.metrics import Metric
from ...reward.queries.identity import content_digest
from ...reward.sample_files import sample_to_json
from .candidate import Cost
from .journal import Journal


class JournaledScorer:
    """A reward with scores journaled under its identity (in memory only without a spec), and counted judge calls. Those
    of a reward on a server are unknown.
    """

    def __init__(self, reward: BaseReward, journal: Journal) -> None:
        self._journal = journal
        self._scores = journal if not isinstance(reward, Reward) or reward.is_repeatable else Journal()
        self._calls: dict[str, int] = {}
        self._original = reward
        self.reward = self._counting(reward) if isinstance(reward, Reward) else reward

    @property
    def identity(self) -> str:
        """That of the reward, now: an expert's weights may be replaced in a run."""
        return self._original.identity

    def _counting(self, reward: Reward) -> Reward:
        counted = _JudgeCallCounter(reward.metric)
        self._calls = counted.calls
        engine = reward.engine
        if engine.log is None and self._journal.answer_log is not None:
            # The answers of experts must survive the process.
            engine = Engine(window=engine.window, log=self._journal.answer_log)
        return Reward(
            counted,
            reward.experts,
            engine=engine,
            max_failure_rate=reward.max_failure_rate,
            on_failures=reward.on_failures,
            outage_timeout_s=reward.outage_timeout_s,
        )

    def __call__(self, samples: Sequence[EditSample]) -> list[tuple[Score, Cost, bool]]:
        """Score, cost, and whether it was cached, for each sample."""
        identity = self.identity
        keys = [_key(identity, sample) for sample in samples]
        cached = {key: entry for key in dict.fromkeys(keys) if (entry := self._scores.get_score(key)) is not None}
        new = {key: sample for key, sample in zip(keys, samples, strict=True) if key not in cached}
        scored = dict(zip(new, self._stream(new), strict=True))
        return [(*(cached.get(key) or scored[key]), key in cached) for key in keys]

    def _stream(self, samples: dict[str, EditSample]) -> Iterator[tuple[Score, Cost]]:
        start = time.perf_counter()
        for (key, sample), score in zip(samples.items(), self.reward.stream(samples.values()), strict=True):
            now = time.perf_counter()
            cost = Cost(0, self._calls.pop(sample.id, 0), now - start)
            start = now
            self._scores.put_score(key, score, cost)
            yield score, cost


def _key(identity: str, sample: EditSample) -> str:
    """The key of a score in the journal; unique where the sample's metadata cannot be described."""
    fields = _without_names(sample_to_json(sample))
    if sample.history:
        fields["history"] = [_without_names(turn) for turn in fields["history"]]
    try:
        return content_digest(["scored", identity, fields])
    except SpecError:
        return uuid.uuid4().hex


def _without_names(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A sample or turn as JSON without id and group, on which no score depends."""
    return {name: value for name, value in fields.items() if name not in ("id", "group")}


class _JudgeCallCounter:
    """A metric that counts its judge queries by sample id, whether or not they are shared or cached."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self.calls: dict[str, int] = {}

    @cached_property
    def card(self) -> Card:
        return self._metric.card

    def __call__(self, sample: EditSample) -> Program[Score]:
        return map_asks(self._metric(sample), partial(self._count, sample.id))

    def _count(self, sample_id: str, request: Ask) -> Ask:
        roles = (request.role or query.role for query in request.queries)
        self.calls[sample_id] = self.calls.get(sample_id, 0) + sum(role.partition(".")[0] == "judge" for role in roles)
        return request
