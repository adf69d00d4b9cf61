"""A reward that watches for reward hacking, for any trainer that takes a reward.

reward = MonitoredReward(Reward.of("any-edit", experts), step_samples=64, heldout=RemoteReward(url, ...))
trainer = GRPOTrainer(..., reward_funcs=[RewardFunction(reward)])
reward.alarms
"""

from __future__ import annotations

import copy
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..base_reward import BaseReward
from ..card import Card
from ..sample import EditSample
from ..score import Score, Scores
from .alarm import Alarm
from .audit_probe import AuditProbe
from .reward_hacking_monitor import RewardHackingMonitor
from .step_monitor import Scorer, StepMonitor


class MonitoredReward(BaseReward):
    """The same scores and errors as `reward`; a `StepMonitor` has seen them.

    step_samples, heldout, probe, monitor, state: see `StepMonitor`, which is `self.monitor`.
    Picklable if the rewards are.
    """

    def __init__(
        self,
        reward: BaseReward,
        *,
        step_samples: int,
        heldout: Scorer | None = None,
        probe: AuditProbe | None = None,
        monitor: RewardHackingMonitor | None = None,
        state: str | os.PathLike[str] = "",
    ) -> None:
        self.reward = reward
        name = reward.__name__ if os.fspath(state) else ""  # a server is asked for it, which may not run yet
        self.monitor = StepMonitor(step_samples, heldout=heldout, probe=probe, monitor=monitor, state=state, name=name)

    @property
    def alarms(self) -> Sequence[Alarm]:
        """All so far, oldest first."""
        return self.monitor.alarms

    @property
    def latest(self) -> dict[str, float]:
        """Numbers of the last observed step, by name, to log."""
        return self.monitor.latest

    @property
    def card(self) -> Card:
        return self.reward.card

    @property
    def spec(self) -> dict[str, Any]:
        """That of the reward, without the monitor."""
        return self.reward.spec

    @property
    def expert_ids(self) -> dict[str, str]:
        return self.reward.expert_ids

    @property
    def identity(self) -> str:
        return self.reward.identity

    @property
    def on_failures(self) -> str:
        """That of the reward; empty if it has none."""
        return str(getattr(self.reward, "on_failures", ""))

    def __call__(self, samples: Iterable[EditSample]) -> Scores:
        batch = list(samples)
        scores = self.reward(batch)
        self.monitor.add(batch, scores)
        return scores

    def stream(self, samples: Iterable[EditSample]) -> Iterator[Score]:
        in_flight: deque[EditSample] = deque()

        def noted() -> Iterator[EditSample]:
            for sample in samples:
                in_flight.append(sample)
                yield sample

        for score in self.reward.stream(noted()):
            self.monitor.add([in_flight.popleft()], [score])
            yield score

    def without_failure_limit(self) -> BaseReward:
        """That of the reward, which no monitor watches: a sample that is asked again is no other edit."""
        return self.reward.without_failure_limit()

    def waiting(self, outage_timeout_s: float) -> MonitoredReward:
        waiting = copy.copy(self)  # with the same monitor
        waiting.reward = self.reward.waiting(outage_timeout_s)
        return waiting

    def offload(self) -> None:
        self.reward.offload()
        if isinstance(self.monitor.heldout, BaseReward):
            self.monitor.heldout.offload()
