"""Readiness of a judge server: experts that are loading, and experts that are unavailable."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from ....reward import Expert, Reward
from ....reward.engine.engine import Engine

_RETRY_S = 30.0
_MAX_RETRY_S = 600.0


class Readiness:
    """The state behind `/readyz`. An unavailable expert is retried after pauses that double, from 30 to 600 s."""

    def __init__(self, rewards: Mapping[str, Reward]) -> None:
        self.on_unavailable: Callable[[str], None] | None = None
        """Called with each reason why the server is not ready, once; from any thread. Set it before `load`."""
        self._announced: set[str] = set()
        self._rewards = rewards
        self._loading: dict[str, Future[str]] = {}
        self._retries: dict[str, tuple[float, float]] = {}
        """When an expert is tried again, and the pause until then."""
        self._names: dict[int, str] = {}
        """Names of the experts by object: their ids, or their role while these cannot be determined."""

    @property
    def engines(self) -> list[Engine]:
        return list({id(reward.engine): reward.engine for reward in self._rewards.values()}.values())

    def load(self) -> None:
        """Start loading all experts; returns at once."""
        for engine, expert, role in self._experts():
            self._prepare(engine, expert, role)

    def loading(self) -> str:
        return ", ".join(sorted(name for name, future in self._loading.items() if not future.done()))

    def unavailable_experts(self) -> dict[str, str]:
        """Unavailable experts with the reason; call regularly, since it schedules retries."""
        unavailable: dict[str, str] = {}
        for engine in self.engines:
            unavailable |= engine.down_experts()
        for engine, expert, role in self._experts():
            name = self._names.get(id(expert), "")
            if name == role and (reason := self._loading[name]).done() and reason.result():
                unavailable[name] = reason.result()
            if name in unavailable and self._is_retry_due(name):
                self._prepare(engine, expert, role)
        for name in self._retries.keys() - unavailable.keys():
            if time.monotonic() > sum(self._retries[name]):  # it has stayed available
                del self._retries[name]
        return unavailable

    def report(self, draining: bool = False) -> dict[str, Any]:
        """As JSON: `ready`, and why not. draining: whether the server is stopping."""
        reasons = {"draining": draining, "loading": self.loading(), "unavailable": self.unavailable_experts()}
        return {"ready": not any(reasons.values()), **{name: reason for name, reason in reasons.items() if reason}}

    def _experts(self) -> list[tuple[Engine, Expert, str]]:
        """The experts in use, each once per engine, with a role that no other expert has."""
        in_use: dict[tuple[int, int], tuple[Engine, Expert, str]] = {}
        roles: dict[int, str] = {}
        for reward_name, reward in self._rewards.items():
            for name, expert in reward.used_experts.items():
                role = roles.setdefault(id(expert), f"{name} of {reward_name}")
                in_use[id(reward.engine), id(expert)] = (reward.engine, expert, role)
        return list(in_use.values())

    def _prepare(self, engine: Engine, expert: Expert, role: str) -> None:
        try:
            name = expert.id
        except Exception:  # noqa: BLE001  (of a judge whose server is not up yet, or of weights that are not there)
            name = role
        if self._names.get(id(expert), name) != name:
            self._loading.pop(self._names[id(expert)], None)
        self._names[id(expert)] = name
        self._loading[name] = engine.prepare(expert)
        self._loading[name].add_done_callback(self._announce)

    def _announce(self, prepared: Future[str]) -> None:
        if prepared.cancelled() or prepared.exception() is not None or self.on_unavailable is None:
            return
        if (reason := prepared.result()) and reason not in self._announced:
            self._announced.add(reason)
            self.on_unavailable(reason)

    def _is_retry_due(self, name: str) -> bool:
        """Whether to prepare an unavailable expert again, now; then the next time is set."""
        now = time.monotonic()
        due, pause = self._retries.get(name, (None, _RETRY_S / 2))
        if due is not None and now < due:
            return False
        pause = min(2 * pause, _MAX_RETRY_S)
        self._retries[name] = now + pause, pause
        return due is not None
