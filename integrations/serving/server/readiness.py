"""Whether a judge server can score: experts that are being loaded, and experts that are dead."""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from ...reward import Expert, Reward
from ...reward.engine import Engine

if TYPE_CHECKING:
    from .service import Service

_PAUSE_S = 30.0
_LONGEST_PAUSE_S = 600.0


class Readiness:
    """What `/readyz` says. An expert that is dead gets another chance after 30 s, then after twice as long, and so on
    to ten minutes: whoever asks only servers that are ready would never find out otherwise.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._loading: dict[str, Future[str]] = {}
        self._pauses: dict[str, float] = {}
        self._again: dict[str, float] = {}

    def load(self) -> None:
        """Have all experts load; returns at once."""
        for engine, expert in self._experts():
            self._prepare(engine, expert)

    def loading(self) -> str:
        """The experts that are not ready yet, in a line."""
        return ", ".join(sorted(name for name, ready in self._loading.items() if not ready.done()))

    def dead(self) -> dict[str, str]:
        """The experts that are dead, with the reason; to be asked now and then."""
        dead: dict[str, str] = {}
        for engine in self._service.engines:
            dead |= engine.dead()
        for engine, expert in self._experts():
            self._consider(engine, expert, expert.id in dead)
        for name in self._pauses.keys() - dead.keys():
            if time.monotonic() > self._again[name] + self._pauses[name]:  # it has stood the test
                del self._pauses[name], self._again[name]
        return dead

    def report(self) -> dict[str, Any]:
        """As JSON: `ready`, and what stands in the way."""
        dead, loading = self.dead(), self.loading()
        draining = self._service.draining
        found: dict[str, Any] = {"ready": not (dead or loading or draining)}
        if draining:
            found["draining"] = True
        if loading:
            found["loading"] = loading
        if dead:
            found["dead"] = dead
        return found

    def _experts(self) -> list[tuple[Engine, Expert]]:
        pairs = ((reward.engine, expert) for reward in self._service.rewards.values() for expert in _asked(reward))
        return list({(id(engine), id(expert)): (engine, expert) for engine, expert in pairs}.values())

    def _prepare(self, engine: Engine, expert: Expert) -> None:
        self._loading[expert.id] = engine.prepare(expert)

    def _consider(self, engine: Engine, expert: Expert, dead: bool) -> None:
        name, now = expert.id, time.monotonic()
        if not dead:
            return
        if name not in self._again:
            self._pauses[name] = _PAUSE_S
            self._again[name] = now + _PAUSE_S
        elif now >= self._again[name]:
            self._pauses[name] = min(2 * self._pauses[name], _LONGEST_PAUSE_S)
            self._again[name] = now + self._pauses[name]
            self._prepare(engine, expert)


def _asked(reward: Reward) -> list[Expert]:
    """Those that the reward asks; others may be bound, and need not be loaded."""
    roles = {part for role in reward.card.roles for part in (role, role.partition(".")[0])}
    return [expert for name, expert in reward.experts.items() if name in roles or name.partition(".")[0] in roles]
