"""One piece of a batch, until it is scored: sent, sent again elsewhere, cut in two, or given up with a reason."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...reward import EditSample, Score
from ...reward.timeouts import TIMEOUTS, timeout
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

ROLLING, LEAST = 64, 16
"""Failures are counted among so many of the latest scores, once there are as many as the second says."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How a client asks. See `RemoteReward`."""

    detail: Detail
    packing: Packing
    reward: str
    timeout_s: float
    patience_s: float
    max_failed: float
    insist: bool


@dataclass(slots=True)
class Piece:
    """Samples that are sent together, and what is known of them. refused: those that no server will take."""

    samples: Sequence[EditSample]
    found: list[Score | None]
    refused: set[int] = field(default_factory=set)

    def put(self, places: Sequence[int], scores: Sequence[Score] | str) -> None:
        """Scores, or why there are none, where they belong."""
        for number, at in enumerate(places):
            self.found[at] = Score.failed(scores) if isinstance(scores, str) else scores[number]


@dataclass(slots=True)
class Tally:
    """What a batch took. late: ids of samples that were not scored in time."""

    requests: int = 0
    retries: Counter[str] = field(default_factory=Counter)
    late: list[str] = field(default_factory=list)
    replicas: Counter[str] = field(default_factory=Counter)

    def stats(self, seconds: float) -> dict[str, Any]:
        """As `Scores.stats` has it."""
        plain = {"seconds": round(seconds, 4), "requests": self.requests, "retries": dict(self.retries)}
        return plain | {"late": list(self.late), "replicas": dict(self.replicas)}


class Sender:
    """Sends pieces of one batch. recent: of the latest scores of a client, which have failed."""

    def __init__(
        self,
        replicas: Replicas,
        transport: Transport,
        slots: asyncio.Semaphore,
        recent: deque[bool],
        terms: Terms,
        deadline_s: float | None,
    ) -> None:
        self._replicas, self._transport, self._slots, self._terms = replicas, transport, slots, terms
        self._recent = recent
        self._deadline_s = deadline_s
        self._until = None if deadline_s is None else time.monotonic() + deadline_s
        self._chance = random.Random()
        self.tally = Tally()

    async def scores(self, key: str, samples: Sequence[EditSample]) -> list[Score]:
        """A score each, in order. What cannot be had is a failed one that says why; nothing is raised."""
        piece = Piece(samples, [None] * len(samples))
        with contextlib.suppress(*TIMEOUTS):
            async with timeout(self._left(GRACE_S)), self._slots:
                await self._ask(key, piece, range(len(samples)))
                if self._terms.insist:
                    await self._insist(key, piece)
        scores = [self._late if score is None else score for score in piece.found]
        self.tally.late += [sample.id for sample, score in zip(samples, scores, strict=True) if score == self._late]
        return scores

    async def _insist(self, key: str, piece: Piece) -> None:
        """Ask again for what failed: once, at once; and while most of all that is asked fails, as long as there is
        patience, after longer and longer pauses.
        """
        start, pause, times = time.monotonic(), 0.0, 0
        while not times or self._outage():
            failed = [at for at, score in enumerate(piece.found) if score is not None and score.status == "failed"]
            failed = [at for at in failed if at not in piece.refused]
            left, waited = self._left(), time.monotonic() - start
            if not failed or waited >= self._terms.patience_s or (left is not None and left <= 0):
                return
            await asyncio.sleep(min(pause, self._terms.patience_s - waited) * self._chance.uniform(0.8, 1.0))
            pause = min(max(1.0, 2 * pause), _LONGEST_PAUSE_S)
            times += 1
            self._again("failed", str(piece.found[failed[0]]))
            await self._ask(f"{key}/again-{times}", piece, failed)

    def _outage(self) -> bool:
        return len(self._recent) >= LEAST and sum(self._recent) > self._terms.max_failed * len(self._recent)

    async def _ask(self, key: str, piece: Piece, places: Sequence[int]) -> None:
        """Ask until there is an answer for all of these, or a reason."""
        terms = self._terms
        samples = [piece.samples[at] for at in places]
        body = Body(samples, key, terms.detail, terms.reward, terms.packing)
        began = time.monotonic()
        faults, lost, problem = 0, 0, ""
        avoid: Replica | None = None
        while faults < _TRIES and lost < _LOST:
            if why := self._replicas.hopeless:
                return piece.put(places, why)
            one = self._replicas.pick(samples[0].group, len(samples), avoid)
            if one is None:
                waited = time.monotonic() - max(began, self._replicas.heard_at)
                if waited >= terms.patience_s:
                    return piece.put(places, f"nobody answered for {waited:.0f} s: {self._replicas.problems()}")
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
                    return piece.put(places, read)
                problem = read
            elif answer.status < 500 and answer.status != 408:
                return await self._refused(key, piece, places, one, answer)
            else:
                problem = f"{one.url} said HTTP {answer.status}: {answer.said}"
            avoid = one
            faults += 1
            self._again("broken", problem)
            await asyncio.sleep(0.25 * 2**faults * self._chance.uniform(0.5, 1.0))
        return piece.put(places, f"given up after {faults + lost} tries, the last: {problem}")

    async def _refused(self, key: str, piece: Piece, places: Sequence[int], one: Replica, answer: Answer) -> None:
        """A request that the server will not take: where one sample may be to blame, the others are sent without it."""
        if answer.status in (400, 413, 422) and len(places) > 1:
            half = len(places) // 2
            self._again("halved", answer.said)
            await self._ask(f"{key}/1", piece, places[:half])
            await self._ask(f"{key}/2", piece, places[half:])
        else:
            piece.refused.update(places)
            piece.put(places, f"{one.url} refused it (HTTP {answer.status}): {answer.said}")

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
        found = [self._late if row.get("late") else score for row, score in zip(rows, found, strict=True)]
        self._recent.extend(score.status == "failed" for score in found)
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
