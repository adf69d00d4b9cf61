"""Several judge servers with one reward: backoff, health, and routing by group (`reward.routing`), the same from every
rank, so that results about a source are computed once. A server with more than its share of samples is skipped.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import quote

from pydantic import TypeAdapter

from ....reward import Card
from ....reward.queries.identity import signature_with_identity
from ....reward.retry import Outage, RetryPolicy
from ....reward.routing import Server, by_preference, choose_server
from ....reward.timeout_compat import TIMEOUTS, timeout
from .transport import Transport, TransportError, TransportResponse

log = logging.getLogger("editcritic.serving")

MIN_BOUNDED_LOAD = 32
"""Samples in flight that never exceed the bound, so that few samples stay together."""

_REPORTED_LOAD_TTL_S = 5.0
"""How long the queue length reported by a server is trusted; a skipped server cannot report a new one."""

_MAX_LOAD_DIGITS = 10

_MIN_BUSY_S, _BUSY_S = 0.1, 0.5
"""Seconds until a busy server is asked again: at least, and if it does not say when."""

_DESCRIPTION_TIMEOUT_S = 60.0
"""How long to wait for a listening server that is asked what it serves, and not for scores. A server that is loading
has the whole outage timeout."""

_FIRST_PROBE_S = 2.0
"""How long at least the first probe of a call may take."""

_PROBES = RetryPolicy(first_pause_s=0.1, longest_pause_s=5.0)
_MAX_RETRY_AFTER_S = 60.0


class RemoteError(RuntimeError):
    """Unusable judge servers: unreachable, unauthorised, or with different rewards."""


class ServersUnreachable(RemoteError):
    """No server has answered in time; later one may."""


@dataclass(frozen=True)
class RewardInfo:
    """A server's description of its reward. identity: see `BaseReward.identity`. experts: role -> id."""

    identity: str
    card: Card
    spec: dict[str, Any]
    experts: dict[str, str]

    @staticmethod
    def of(data: Mapping[str, Any]) -> RewardInfo:
        """Raises ValueError if the data has no card, one that no reward has, or no identity."""
        try:
            values = {one.name: data["card"][one.name] for one in fields(Card) if one.name in data["card"]}
            card = TypeAdapter(Card).validate_python(values)
            low, high = (math.nan if end is None else end for end in card.range)
            if not card.name or low >= high or math.inf in (abs(low), abs(high)):
                raise ValueError(f"no reward has the name {card.name!r:.80} and the range {card.range}")
            spec, experts = dict(data.get("spec") or {}), dict(data.get("experts") or {})
            if not isinstance(data["identity"], str):
                raise TypeError("the identity is no text")
            return RewardInfo(data["identity"], card, spec, experts)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"its /v1/reward has no card or identity ({type(error).__name__}: {error})") from None

    @property
    def signature(self) -> str:
        return signature_with_identity(self.card.signature, self.identity)

    def difference(self, other: RewardInfo) -> str:
        if self.identity == other.identity:
            return ""
        details = ["other options"] if self.spec.get("reward") != other.spec.get("reward") else []
        for role in sorted(self.experts.keys() | other.experts.keys()):
            own_id, other_id = self.experts.get(role, "none"), other.experts.get(role, "none")
            if own_id != other_id:
                details.append(f"{role}: {own_id!r} and {other_id!r}")
        return f"{self.signature} and {other.signature}" + (f" ({'; '.join(details)})" if details else "")


@dataclass(eq=False)
class Replica(Server):
    """A server. in_flight: samples that this client waits for. reported_load: queue of all clients, as reported at
    `reported_at`. unavailable_until: while it is busy. unavailable_reason: why it is not used. rejected_reason: why it
    never will be. degraded: some experts are down; used if there is no other. other_identity: it serves another reward;
    it is probed further.
    """

    reported_load: int = 0
    reported_at: float = 0.0
    unavailable_reason: str = "not probed yet"
    degraded: bool = False
    rejected_reason: str = ""
    other_identity: bool = False
    answered: int = 0
    probing: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def up(self) -> bool:
        return not self.unavailable_reason and not self.rejected_reason

    @property
    def load(self) -> int:
        recent = time.monotonic() < self.reported_at + _REPORTED_LOAD_TTL_S
        return max(self.in_flight, self.reported_load) if recent else self.in_flight

    def update_reported_load(self, response: TransportResponse) -> None:
        waiting = response.headers.get("x-queued-samples", "")
        self.reported_load = int(waiting) if waiting.isdecimal() and len(waiting) < _MAX_LOAD_DIGITS else 0
        self.reported_at = time.monotonic()


class ReplicaPool:
    """The servers of one client. Used from one event loop."""

    def __init__(
        self,
        urls: Sequence[str],
        transport: Transport,
        *,
        reward: str = "",
        identity: str = "",
        on_identity: Callable[[str], None] = lambda identity: None,
        outage_timeout_s: float,
    ) -> None:
        self.all = [Replica(url) for url in urls]
        self.reward_info: RewardInfo | None = None
        self.outage = Outage(", ".join(urls), outage_timeout_s)
        """No server can be used, or all that they answer is failures."""
        self._first_description: tuple[Replica, RewardInfo] | None = None
        """The first described server; the others must have the same reward."""
        self._transport = transport
        self._required_identity = identity
        self._on_identity = on_identity
        self._query = f"?name={quote(reward)}" if reward else ""
        self._rng = random.Random()
        self._changed = asyncio.Event()
        self._connecting = asyncio.Lock()

    # -- reward identity ----------------------------------------------------------------------------------------------

    async def connect(self, call_start: float | None = None) -> RewardInfo:
        """The reward of the servers; requested once. Raises `RemoteError` if they differ, `ServersUnreachable` if none
        responds for `outage_timeout_s` from call_start on (without: a minute, where no server listens).
        """
        start = time.monotonic() if call_start is None else call_start
        async with self._connecting:
            if self.reward_info is not None:
                return self.reward_info
            try:
                self.reward_info = await self._connect(start, for_scores=call_start is not None)
                self._on_identity(self.reward_info.identity)
            except RemoteError:
                self._first_description = None  # so that the next call repeats the check
                raise
            for replica in self.all:
                if not replica.up:
                    self._start_probing(replica)
            return self.reward_info

    async def _connect(self, start: float, *, for_scores: bool) -> RewardInfo:
        retries = 0
        while True:
            left, results = self.outage.remaining(start), list[BaseException | None]()
            with suppress(*TIMEOUTS):
                async with timeout(max(min(left, self.outage.timeout_s), 0.1 if retries else _FIRST_PROBE_S)):
                    results = await asyncio.gather(*map(self._probe_once, self.all), return_exceptions=True)
            for result in results:
                if result is not None:
                    raise result
            if self._first_description is not None and any(replica.up or replica.degraded for replica in self.all):
                self.outage.end()
                return self._first_description[1]
            if self.permanent_failure:
                raise RemoteError(self.permanent_failure)
            self.outage.begin(self.problems(), start, since=start)
            remaining = self.outage.remaining(start)
            loading = any(replica.unavailable_reason.startswith("not ready") for replica in self.all)
            if not for_scores and not loading:
                remaining = min(remaining, start + _DESCRIPTION_TIMEOUT_S - time.monotonic())
            if remaining <= 0:
                raise ServersUnreachable(f"no judge server can be used: {self.problems()}")
            await asyncio.sleep(min(_PROBES.pause(retries), remaining))
            retries += 1

    async def _probe_once(self, replica: Replica) -> None:
        """Request a server's readiness and reward. Raises `RemoteError` if it serves another reward."""
        try:
            ready = await self._transport.get(f"{replica.url}/readyz")
            status = ready.data if isinstance(ready.data, Mapping) else {}
            is_degraded = bool(status.get("unavailable")) and not (status.get("loading") or status.get("draining"))
            if ready.status != 200:
                replica.unavailable_reason = f"not ready: {json.dumps(status)[:300]}"
                if not is_degraded:
                    replica.degraded = False
                    return
            response = await self._transport.get(f"{replica.url}/v1/reward{self._query}")
        except TransportError as error:
            replica.unavailable_reason, replica.degraded = str(error), False
            return
        if response.status >= 500:
            replica.unavailable_reason = f"HTTP {response.status}: {response.message}"
            return
        if response.status in (401, 403):
            needed = (
                "another token" if self._transport.has_token else "token_env, the environment variable with its token"
            )
            raise RemoteError(f"{replica.url} refused access ({response.message}): pass {needed}")
        if response.status != 200:
            raise RemoteError(f"{replica.url}/v1/reward returned HTTP {response.status}: {response.message}")
        try:
            reward_info = RewardInfo.of(response.data)
        except ValueError as error:
            raise RemoteError(f"{replica.url} is not a judge server: {error}") from None
        if problem := self._wrong_identity(replica, reward_info):
            if not replica.other_identity:
                log.error("%s", problem)
            replica.other_identity, replica.unavailable_reason, replica.degraded = True, problem, False
            self._changed.set()
            return
        replica.other_identity = False
        replica.degraded = is_degraded
        if ready.status == 200:
            replica.unavailable_reason = ""
        replica.update_reported_load(ready)
        self._changed.set()

    def _wrong_identity(self, replica: Replica, reward_info: RewardInfo) -> str:
        """Why a server cannot be used because of its reward; empty if it can. Raises `RemoteError` while connecting."""
        required = self._required_identity
        if not reward_info.identity.startswith(required):
            return f"{replica.url} serves {reward_info.signature}, and identity={required[:16]} is required"
        first_replica, expected = self._first_description = self._first_description or (replica, reward_info)
        difference = expected.difference(reward_info)
        if not difference:
            return ""
        if self.reward_info is not None or first_replica is replica:
            return f"{replica.url} serves another reward than before: {difference}; scores would be mixed"
        raise RemoteError(
            f"{first_replica.url} and {replica.url} serve different rewards: {difference}; while servers are upgraded, "
            "identity= selects one"
        )

    # -- routing ------------------------------------------------------------------------------------------------------

    def order(self, group: str) -> list[Replica]:
        return by_preference(self.all, group)

    def pick(self, group: str, count: int, avoid: Replica | None = None) -> Replica | None:
        """The server for samples of a group; None while there is none. avoid: one that failed on them, if possible."""
        now = time.monotonic()
        candidates = [
            replica for replica in self.all if not replica.rejected_reason and replica.unavailable_until <= now
        ]
        available = [replica for replica in candidates if replica.up] or [
            replica for replica in candidates if replica.degraded
        ]
        return choose_server(available, group, count, MIN_BOUNDED_LOAD, avoid)

    async def wait(self, max_wait_s: float) -> None:
        """Wait until a server may be available again, at most so long."""
        now = time.monotonic()
        pauses = [replica.unavailable_until - now for replica in self.all if replica.up or replica.degraded]
        pause = min([max_wait_s, _PROBES.longest_pause_s, *(max(seconds, 0.01) for seconds in pauses)])
        self._changed.clear()
        with suppress(*TIMEOUTS):
            async with timeout(max(min(pause * self._rng.uniform(1.0, 1.1), max_wait_s), 0.0)):
                await self._changed.wait()

    # -- outcomes -----------------------------------------------------------------------------------------------------

    def mark_answered(self, replica: Replica, response: TransportResponse) -> None:
        replica.answered += 1
        replica.update_reported_load(response)
        self._changed.set()

    def mark_busy(self, replica: Replica, retry_after_s: float | None) -> None:
        seconds = _BUSY_S if retry_after_s is None else min(max(retry_after_s, _MIN_BUSY_S), _MAX_RETRY_AFTER_S)
        replica.unavailable_until = time.monotonic() + seconds * self._rng.uniform(1.0, 1.1)

    def mark_down(self, replica: Replica, reason: str) -> None:
        """Stop using a server that fails, and probe its readiness until it is back."""
        replica.unavailable_reason, replica.degraded, replica.reported_load = reason, False, 0
        self._start_probing(replica)

    def _start_probing(self, replica: Replica) -> None:
        if replica.probing is None or replica.probing.done():
            replica.probing = asyncio.get_running_loop().create_task(self._probe_until_up(replica))

    def problems(self) -> str:
        now = time.monotonic()
        reasons = {
            replica.url: replica.rejected_reason
            or replica.unavailable_reason
            or ("busy" if replica.unavailable_until > now else "")
            for replica in self.all
        }
        return "; ".join(f"{url}: {reason}" for url, reason in reasons.items() if reason)

    @property
    def permanent_failure(self) -> str:
        """Why no server can be available without a change of what it serves; empty if one may be."""
        if all(replica.rejected_reason or replica.other_identity for replica in self.all):
            return "; ".join(replica.rejected_reason or replica.unavailable_reason for replica in self.all)
        return ""

    async def close(self) -> None:
        for replica in self.all:
            if replica.probing is not None:
                replica.probing.cancel()
        await self._transport.close()

    async def _probe_until_up(self, replica: Replica) -> None:
        retries = 0
        while replica.unavailable_reason and not replica.rejected_reason:
            try:
                await self._probe_once(replica)
            except RemoteError as error:
                replica.rejected_reason = str(error)
                log.error("%s", error)
                self._changed.set()
            else:
                if replica.unavailable_reason:
                    await asyncio.sleep(_PROBES.pause(retries))
                    retries += 1
