"""Several judge servers that serve one reward: which of them is asked, and which is left alone for how long.

Routing is by group: rollouts of one source and instruction go to the same server, whichever rank they come from, so
that what its engine finds out about the source is found out once. The server of a group is the first by rendezvous
hashing of its key (Thaler and Ravishankar, 1998): ranks need not talk to each other, and when a server goes away, its
groups alone move. One that has more than its share waiting is passed over (bounded loads: Mirrokni, Thorup and
Zadimoghaddam, 2016). Servers are told apart by their URLs, so every rank has to be given the same ones.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import quote

from ...reward import Card
from ...reward.timeouts import TIMEOUTS, timeout
from .transport import Answer, Lost, Transport

log = logging.getLogger("editcritic.serving")

SPREAD = 1.25
"""A server may have so many times its share in flight, before others take over what would go to it."""

HOLD = 32
"""Samples in flight that are never too many: few samples stay together."""

_RECENT_S = 5.0
"""So long a server is taken to be as busy as it said: one that is passed over has no other way to say more."""

_STARTING_S = 60.0
"""So long nobody may be listening, when a client starts. One that answers that it is loading has all its patience."""

_LONGEST_PAUSE_S = 5.0
_LONGEST_REST_S = 60.0


class RemoteError(RuntimeError):
    """Judge servers that cannot be used: none is there, none lets us in, or they are not of one kind."""


@dataclass(frozen=True)
class About:
    """What a server says of its reward. experts: role -> id."""

    card: Card
    spec: dict[str, Any]
    experts: dict[str, str]

    @staticmethod
    def of(data: Mapping[str, Any]) -> About:
        """Raises ValueError where this is no card."""
        try:
            said = {one.name: data["card"][one.name] for one in fields(Card) if one.name in data["card"]}
            said = {name: tuple(value) if isinstance(value, list) else value for name, value in said.items()}
            return About(Card(**said), dict(data.get("spec") or {}), dict(data.get("experts") or {}))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"its /v1/reward holds no card ({type(error).__name__}: {error})") from None

    def difference(self, other: About) -> str:
        """What makes it another reward, in words; empty where it is the same."""
        if self.card.signature != other.card.signature:
            return f"{self.card.signature} and {other.card.signature}"
        if self.spec.get("reward") != other.spec.get("reward"):
            return f"{self.card.signature} with other options"
        roles = sorted(self.experts.keys() | other.experts.keys())
        apart = [role for role in roles if self.experts.get(role) != other.experts.get(role)]
        return "; ".join(
            f"{role}: {self.experts.get(role, 'nobody')!r} and {other.experts.get(role, 'nobody')!r}" for role in apart
        )


@dataclass(eq=False)
class Replica:
    """A server. in_flight: samples that this client waits for. reported: what it said was waiting when last heard of,
    of all its clients, and believed for some seconds. problem: why it is not asked; empty while it is. refused: why it
    never will be. poorly: it answers, but some of its experts are dead; asked where there is no other, and then its
    scores say what failed. rests_until, reported_at: by `time.monotonic`.
    """

    url: str
    in_flight: int = 0
    reported: int = 0
    reported_at: float = 0.0
    problem: str = "not asked yet"
    poorly: bool = False
    refused: str = ""
    rests_until: float = 0.0
    answered: int = 0
    probing: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def up(self) -> bool:
        return not self.problem and not self.refused

    @property
    def load(self) -> int:
        recent = time.monotonic() < self.reported_at + _RECENT_S
        return max(self.in_flight, self.reported) if recent else self.in_flight

    def heard(self, answer: Answer) -> None:
        """Take what it says is waiting."""
        said = answer.headers.get("x-samples-waiting", "")
        self.reported = int(said) if said.isdecimal() else 0
        self.reported_at = time.monotonic()

    def weight(self, group: str) -> bytes:
        return hashlib.blake2b(f"{self.url}\n{group}".encode(), digest_size=8).digest()


class Replicas:
    """The servers of one client. Of one event loop."""

    def __init__(self, urls: Sequence[str], transport: Transport, *, reward: str = "", patience_s: float) -> None:
        self.all = [Replica(url) for url in urls]
        self.about: About | None = None
        self.heard_at = time.monotonic()
        """When any of them last answered."""
        self._seen: tuple[Replica, About] | None = None
        """The first that said what it serves: the others have to say the same."""
        self._transport = transport
        self._query = f"?name={quote(reward)}" if reward else ""
        self._patience_s = patience_s
        self._chance = random.Random()
        self._changed = asyncio.Event()
        self._connecting = asyncio.Lock()

    # -- what they serve ----------------------------------------------------------------------------------------------

    async def connect(self) -> About:
        """What they serve; asked once. Raises `RemoteError` where none answers, or where they are not of one kind."""
        async with self._connecting:
            if self.about is not None:
                return self.about
            try:
                self.about = await self._connect()
            except RemoteError:
                self._seen = None  # so that the next call is told the same
                raise
            for one in self.all:
                if not one.up:
                    self._watch(one)
            return self.about

    async def _connect(self) -> About:
        start, pause = time.monotonic(), 0.1
        while True:
            found = await asyncio.gather(*(self._look_at(one) for one in self.all), return_exceptions=True)
            for one in found:
                if isinstance(one, BaseException):
                    raise one
            if self._seen is not None and any(one.up or one.poorly for one in self.all):
                return self._seen[1]
            waited = time.monotonic() - start
            loading = any(one.problem.startswith("not ready") for one in self.all)
            if waited > (self._patience_s if loading else min(self._patience_s, _STARTING_S)):
                raise RemoteError(f"no judge server can be used: {self.problems()}")
            await asyncio.sleep(pause * self._chance.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    async def _look_at(self, one: Replica) -> None:
        """Ask a server whether it is ready, and what it serves. Raises `RemoteError` for one of another kind."""
        try:
            ready = await self._transport.get(f"{one.url}/readyz")
            said = ready.data if isinstance(ready.data, Mapping) else {}
            poorly = bool(said.get("dead")) and not (said.get("loading") or said.get("draining"))
            if ready.status != 200:
                one.problem = f"not ready: {json.dumps(said)[:300]}"
                if not poorly:
                    one.poorly = False
                    return
            about = await self._transport.get(f"{one.url}/v1/reward{self._query}")
        except Lost as error:
            one.problem, one.poorly = str(error), False
            return
        if about.status >= 500:
            one.problem = f"HTTP {about.status}: {about.said}"
            return
        if about.status in (401, 403):
            why = "another token" if self._transport.has_token else "token_env, the environment variable with its token"
            raise RemoteError(f"{one.url} does not let us in ({about.said}): give {why}")
        if about.status != 200:
            raise RemoteError(f"{one.url}/v1/reward says HTTP {about.status}: {about.said}")
        try:
            found = About.of(about.data)
        except ValueError as error:
            raise RemoteError(f"{one.url} is no judge server: {error}") from None
        first, known = self._seen = self._seen or (one, found)
        if apart := known.difference(found):
            if first is one:
                raise RemoteError(f"{one.url} serves another reward than before: {apart}; scores would be mixed up")
            raise RemoteError(f"{first.url} and {one.url} serve different rewards: {apart}")
        one.poorly = poorly
        if ready.status == 200:
            one.problem = ""
        one.heard(ready)
        self._changed.set()

    # -- whom to ask --------------------------------------------------------------------------------------------------

    def order(self, group: str) -> list[Replica]:
        """The servers in the order in which this group prefers them."""
        return sorted(self.all, key=lambda one: one.weight(group), reverse=True)

    def pick(self, group: str, count: int, avoid: Replica | None = None) -> Replica | None:
        """Whom to ask about so many samples of a group; None while nobody can be asked.

        avoid: one that has just failed at it; asked again where there is no other.
        """
        now = time.monotonic()
        rested = [one for one in self.order(group) if not one.refused and one.rests_until <= now]
        free = [one for one in rested if one.up] or [one for one in rested if one.poorly]
        free = [one for one in free if one is not avoid] or free
        if not free:
            return None
        most = max(HOLD, SPREAD * (sum(one.load for one in free) + count) / len(free))
        return next((one for one in free if one.load + count <= most), min(free, key=lambda one: one.load))

    async def wait(self, longest_s: float) -> None:
        """Until somebody may be free again, but no longer than that."""
        now = time.monotonic()
        rests = [one.rests_until - now for one in self.all if one.up or one.poorly]
        pause = min([longest_s, _LONGEST_PAUSE_S, *(max(rest, 0.01) for rest in rests)])
        self._changed.clear()
        try:
            async with timeout(max(pause, 0.0) * self._chance.uniform(1.0, 1.1)):
                await self._changed.wait()
        except TIMEOUTS:
            pass

    # -- what became of it --------------------------------------------------------------------------------------------

    def answered(self, one: Replica, answer: Answer) -> None:
        self.heard_at = time.monotonic()
        one.answered += 1
        one.heard(answer)
        self._changed.set()

    def busy(self, one: Replica, retry_after_s: float | None) -> None:
        """It has no room: it is left alone for a while."""
        rest = 0.5 if retry_after_s is None else min(retry_after_s, _LONGEST_REST_S)
        one.rests_until = time.monotonic() + rest * self._chance.uniform(1.0, 1.1)

    def down(self, one: Replica, problem: str) -> None:
        """It does not answer: it is asked nothing but whether it is ready, until it is."""
        one.problem, one.poorly, one.reported = problem, False, 0
        self._watch(one)

    def _watch(self, one: Replica) -> None:
        if one.probing is None or one.probing.done():
            one.probing = asyncio.get_running_loop().create_task(self._probe(one))

    def problems(self) -> str:
        """Why nobody can be asked."""
        now = time.monotonic()
        said = {one.url: one.refused or one.problem or ("busy" if one.rests_until > now else "") for one in self.all}
        return "; ".join(f"{url}: {problem}" for url, problem in said.items() if problem)

    @property
    def hopeless(self) -> str:
        """Why nobody will ever be able to be asked; empty while there is hope."""
        return "; ".join(one.refused for one in self.all) if all(one.refused for one in self.all) else ""

    async def close(self) -> None:
        for one in self.all:
            if one.probing is not None:
                one.probing.cancel()
        await self._transport.close()

    async def _probe(self, one: Replica) -> None:
        pause = 0.1
        while one.problem and not one.refused:
            try:
                await self._look_at(one)
            except RemoteError as error:
                one.refused = str(error)
                log.error("%s", error)
                self._changed.set()
            else:
                if one.problem:
                    await asyncio.sleep(pause * self._chance.uniform(0.5, 1.0))
                    pause = min(2 * pause, _LONGEST_PAUSE_S)
