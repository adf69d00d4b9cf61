"""One piece of a batch, until it is scored: sent, sent again elsewhere, cut in two, or given up with a reason."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...reward import EditSample, Score
from .replicas import Replica, Replicas
from .transport import Answer, Body, Lost, Transport
from .wire import Detail, Packing, scores_from_json

log = logging.getLogger("editcritic.serving")

GRACE_S = 1.0
"""A server is to answer by the deadline; so much longer a client waits for that answer to arrive."""

_TRIES = 3
"""Of what may be the request's own fault: time-outs, HTTP 5xx that no overload explains, answers that are none."""

_LOST = 8
"""Connections that may break while a request is at work: it might be what kills the servers."""

_LONGEST_PAUSE_S = 60.0


Piece = Sequence[tuple[int, EditSample]]
"""Samples that are sent together, with their places."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How a client asks. See `RemoteReward`."""

    detail: Detail
    packing: Packing
    reward: str
    timeout_s: float
    patience_s: float
    insist: bool


@dataclass(slots=True)
class Tally:
    """What a batch took. late: ids of samples that were not scored in time."""

    requests: int = 0
    retries: Counter[str] = field(default_factory=Counter)
    late: list[str] = field(default_factory=list)
    replicas: Counter[str] = field(default_factory=Counter)


class Sender:
    """Sends pieces of one batch. until: the deadline, by `time.monotonic`; deadline_s: as it was asked for."""

    def __init__(
        self,
        replicas: Replicas,
        transport: Transport,
        slots: asyncio.Semaphore,
        terms: Terms,
        deadline_s: float | None,
    ) -> None:
        self._replicas, self._transport, self._slots, self._terms = replicas, transport, slots, terms
        self._deadline_s = deadline_s
        self._until = None if deadline_s is None else time.monotonic() + deadline_s
        self._chance = random.Random()
        self.tally = Tally()

    async def scores(self, key: str, samples: Sequence[EditSample]) -> list[Score]:
        """A score each, in order. What cannot be had is a failed one that says why; nothing is raised."""
        found: list[Score | None] = [None] * len(samples)
        piece = [(at, sample) for at, sample in enumerate(samples)]
        try:
            async with asyncio.timeout(self._left(GRACE_S)), self._slots:
                await self._ask(key, piece, found)
                if self._terms.insist:
                    await self._insist(key, samples, found)
        except TimeoutError:
            self.tally.late += [sample.id for at, sample in piece if found[at] is None]
        return [self._late if score is None else score for score in found]

    async def _insist(self, key: str, samples: Sequence[EditSample], found: list[Score | None]) -> None:
        """Ask again for what failed: at once, and then as long as there is patience, after longer and longer pauses."""
        start, pause, times = time.monotonic(), 0.0, 0
        while failed := [at for at, score in enumerate(found) if score is not None and score.status == "failed"]:
            waited = time.monotonic() - start
            if waited >= self._terms.patience_s:
                return
            await asyncio.sleep(min(pause, self._terms.patience_s - waited) * self._chance.uniform(0.8, 1.0))
            pause = min(max(1.0, 2 * pause), _LONGEST_PAUSE_S)
            times += 1
            self._again("failed", str(found[failed[0]]))
            await self._ask(f"{key}/again-{times}", [(at, samples[at]) for at in failed], found)

    async def _ask(self, key: str, piece: Piece, found: list[Score | None]) -> None:
        """Ask until there is an answer for all of a piece, or a reason; put them where they belong."""
        terms = self._terms
        samples = [sample for _, sample in piece]
        body = Body(samples, key, terms.detail, terms.reward, terms.packing)
        began = time.monotonic()
        faults, lost, problem = 0, 0, ""
        avoid: Replica | None = None
        while faults < _TRIES and lost < _LOST:
            if why := self._replicas.hopeless:
                return _put(piece, found, why)
            one = self._replicas.pick(samples[0].group, len(samples), avoid)
            if one is None:
                waited = time.monotonic() - max(began, self._replicas.heard_at)
                if waited >= terms.patience_s:
                    return _put(piece, found, f"nobody answered for {waited:.0f} s: {self._replicas.problems()}")
                await self._replicas.wait(terms.patience_s - waited)
                continue
            try:
                answer = await self._asked(one, body, len(samples))
            except Lost as error:
                problem, avoid = f"{one.url}: {error}", one
                faults += error.late
                lost += error.sent and not error.late
                self._replicas.down(one, str(error))
                self._again("time-out" if error.late else "lost" if error.sent else "unreachable", problem)
                continue
            if answer.status in (502, 503, 504):
                self._replicas.busy(one, answer.retry_after_s)
                self._again("busy", f"{one.url} has no room: {answer.said}")
                continue
            if answer.status == 200:
                read = self._read(one, answer, samples)
                if not isinstance(read, str):
                    return _put(piece, found, read)
                problem = read
            elif answer.status < 500 and answer.status != 408:
                return await self._refused(key, piece, found, one, answer)
            else:
                problem = f"{one.url} said HTTP {answer.status}: {answer.said}"
            avoid = one
            faults += 1
            self._again("broken", problem)
            await asyncio.sleep(0.25 * 2**faults * self._chance.uniform(0.5, 1.0))
        return _put(piece, found, f"given up after {faults + lost} tries, the last: {problem}")

    async def _refused(self, key: str, piece: Piece, found: list[Score | None], one: Replica, answer: Answer) -> None:
        """A request that the server will not take: where one sample may be to blame, the others are sent without it."""
        if answer.status in (400, 413, 422) and len(piece) > 1:
            half = len(piece) // 2
            self._again("halved", answer.said)
            await self._ask(f"{key}/1", piece[:half], found)
            await self._ask(f"{key}/2", piece[half:], found)
        else:
            _put(piece, found, f"{one.url} refused it (HTTP {answer.status}): {answer.said}")

    async def _asked(self, one: Replica, body: Body, count: int) -> Answer:
        """Post it. Raises `Lost`."""
        left = self._left()
        content, kind = await asyncio.to_thread(body.bytes, None if left is None else max(left, 0.001))
        one.in_flight += count
        self.tally.requests += 1
        try:
            return await self._transport.post(f"{one.url}/v1/score", content, kind, self._terms.timeout_s)
        finally:
            one.in_flight -= count

    def _read(self, one: Replica, answer: Answer, samples: Sequence[EditSample]) -> list[Score] | str:
        """The scores of an answer; what is wrong with it where it is none."""
        about = self._replicas.about
        try:
            found = list(scores_from_json(answer.data, [sample.id for sample in samples]))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            return f"{one.url} answered what cannot be read ({error})"
        served = answer.data.get("reward")
        if about is not None and served != about.card.signature:
            self._replicas.down(one, f"it answered for {served}, not for {about.card.signature}")
            return f"{one.url} serves another reward: {served}"
        rows = answer.data["scores"]
        late = [at for at, row in enumerate(rows) if row.get("late")]
        self.tally.late += [samples[at].id for at in late]
        for at in late:
            found[at] = self._late
        self.tally.replicas[one.url] += len(samples)
        self._replicas.answered(one, answer)
        if one.up and all(score.status == "failed" for score in found):
            self._replicas.down(one, "all scores of its last answer failed")  # or its judge is; it is asked at once
        return found

    @property
    def _late(self) -> Score:
        return Score.failed(f"not scored within {self._deadline_s or 0:g} s")

    def _left(self, more: float = 0.0) -> float | None:
        return None if self._until is None else self._until + more - time.monotonic()

    def _again(self, what: str, problem: str) -> None:
        self.tally.retries[what] += 1
        log.info("asking again (%s): %s", what, problem)


def _put(piece: Piece, found: list[Score | None], scores: Sequence[Score] | str) -> None:
    """Put scores, or why there are none, where they belong."""
    for number, (at, _) in enumerate(piece):
        found[at] = Score.failed(scores) if isinstance(scores, str) else scores[number]
