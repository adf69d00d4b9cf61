"""How a run scores: a reward that remembers what it has said, and what it costs where nothing is shared."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

from ..reward import AnyReward, Asks, Card, EditSample, Engine, Metric, Reward, Score, SpecError, spec_of
from ..reward.asking import Ask, Gather
from ..reward.files import sample_to_json
from .budget import Cost
from .journal import Journal


class Scorer:
    """A reward that remembers what it has said, and counts what a judge was asked; on a server, that is unknown."""

    def __init__(self, reward: AnyReward, journal: Journal) -> None:
        self._journal = journal
        self._calls: dict[str, int] = {}
        self.reward = self._counting(reward) if isinstance(reward, Reward) else reward
        try:
            metric: Any = spec_of(reward.metric) if isinstance(reward, Reward) else reward.spec["reward"]
        except SpecError:  # one that only its author can build
            metric = reward.card.signature
        self.name = digest([metric, sorted(reward.expert_ids.items())])

    def _counting(self, reward: Reward) -> Reward:
        counted = _Counted(reward.metric)
        self._calls = counted.calls
        engine = reward.engine
        if engine.log is None and self._journal.log is not None:
            # Answers that were paid for outlive the process.
            engine = Engine(window=engine.window, log=self._journal.log)
        return Reward(
            counted,
            reward.experts,
            engine=engine,
            max_failed=reward.max_failed,
            on_failures=reward.on_failures,
            patience_s=reward.patience_s,
        )

    def __call__(self, samples: Sequence[EditSample]) -> list[tuple[Score, Cost, bool]]:
        """Score, cost, and whether it was known, a sample each."""
        keys = [self._key(sample) for sample in samples]
        known = {key: found for key in dict.fromkeys(keys) if (found := self._journal.scored(key)) is not None}
        new = {key: sample for key, sample in zip(keys, samples, strict=True) if key not in known}
        fresh = dict(zip(new, self._stream(new), strict=True))
        return [(*(known.get(key) or fresh[key]), key in known) for key in keys]

    def _stream(self, new: dict[str, EditSample]) -> Iterator[tuple[Score, Cost]]:
        began = time.perf_counter()
        for (key, sample), score in zip(new.items(), self.reward.stream(new.values()), strict=True):
            now = time.perf_counter()
            cost = Cost(0, self._calls.pop(sample.id, 0), now - began)
            began = now
            self._journal.keep_scored(key, score, cost)
            yield score, cost

    def _key(self, sample: EditSample) -> str:
        said = {name: value for name, value in sample_to_json(sample).items() if name not in ("id", "group")}
        return digest(["scored", self.name, said])


class _Counted:
    """A metric, and by sample id how many questions it put to a judge: what it costs where nothing is shared."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self.calls: dict[str, int] = {}

    @property
    def card(self) -> Card:
        return self._metric.card

    def __call__(self, sample: EditSample) -> Asks[Score]:
        return self._count(self._metric(sample), sample.id)

    def _count(self, program: Asks[Score], name: str) -> Asks[Score]:
        answer = None
        while True:
            try:
                asked = program.send(answer)
            except StopIteration as done:
                found: Score = done.value
                return found
            if isinstance(asked, Gather):
                asked = Gather(tuple(self._count(inner, name) for inner in asked.programs))
            else:
                assert isinstance(asked, Ask)
                roles = (asked.role or query.role for query in asked.queries)
                self.calls[name] = self.calls.get(name, 0) + sum(role.partition(".")[0] == "judge" for role in roles)
            answer = yield asked


def digest(said: Any) -> str:
    """What a journal knows something by: sha256 over its JSON, hex."""
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()
