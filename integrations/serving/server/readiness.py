"""Readiness of a judge server: experts that are loading, and experts that are unavailable."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from ....reward import Expert, Reward
from ....reward.engine.engine import Engine

_RETRY_S = 30.0
_MAX_RETRY_S = 600.0


class Readiness:
    """The state behind `/readyz`. An unavailable expert is retried after 30 s, then after doubling pauses of up to ten
    minutes: clients that skip servers that are not ready would never trigger a retry.
    """

    def __init__(self, rewards: Mapping[str, Reward]) -> None:
        self._rewards = rewards
        self._loading: dict[str, Future[str]] = {}
        self._pauses: dict[str, float] = {}
        self._retry_at: dict[str, float] = {}

    @property
    def engines(self) -> list[Engine]:
        """The engines of the rewards, each once."""
        return list({id(reward.engine): reward.engine for reward in self._rewards.values()}.values())

    def load(self) -> None:
        """Start loading all experts; returns at once."""
        for engine, expert in self._experts():
            self._prepare(engine, expert)

    def loading(self) -> str:
        """The experts that are still loading, in one line."""
        return ", ".join(sorted(name for name, future in self._loading.items() if not future.done()))

    def unavailable_experts(self) -> dict[str, str]:
        """Unavailable experts with the reason; call regularly, since it schedules retries."""
        unavailable: dict[str, str] = {}
        for engine in self.engines:
            unavailable |= engine.down_experts()
        for engine, expert in self._experts():
            self._schedule_retry(engine, expert, expert.id in unavailable)
        for name in self._pauses.keys() - unavailable.keys():
            if time.monotonic() > self._retry_at[name] + self._pauses[name]:  # it has stayed available
                del self._pauses[name], self._retry_at[name]
        return unavailable

    def report(self, draining: bool = False) -> dict[str, Any]:
        """As JSON: `ready`, and why not. draining: whether the server is stopping."""
        unavailable, loading = self.unavailable_experts(), self.loading()
        report: dict[str, Any] = {"ready": not (unavailable or loading or draining)}
        if draining:
            report["draining"] = True
        if loading:
            report["loading"] = loading
        if unavailable:
            report["unavailable"] = unavailable
        return report

    def _experts(self) -> list[tuple[Engine, Expert]]:
        pairs = ((reward.engine, expert) for reward in self._rewards.values() for expert in _experts_in_use(reward))
        return list({(id(engine), id(expert)): (engine, expert) for engine, expert in pairs}.values())

    def _prepare(self, engine: Engine, expert: Expert) -> None:
        self._loading[expert.id] = engine.prepare(expert)

    def _schedule_retry(self, engine: Engine, expert: Expert, is_down: bool) -> None:
        name, now = expert.id, time.monotonic()
        if not is_down:
            return
        if name not in self._retry_at:
            self._pauses[name] = _RETRY_S
            self._retry_at[name] = now + _RETRY_S
        elif now >= self._retry_at[name]:
            self._pauses[name] = min(2 * self._pauses[name], _MAX_RETRY_S)
            self._retry_at[name] = now + self._pauses[name]
            self._prepare(engine, expert)


def _experts_in_use(reward: Reward) -> list[Expert]:
    """The experts that the reward uses; others may be bound, and need not be loaded."""
    roles = {part for role in reward.card.roles for part in (role, role.partition(".")[0])}
    return [expert for name, expert in reward.experts.items() if name in roles or name.partition(".")[0] in roles]
