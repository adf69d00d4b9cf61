"""Send one chunk of a batch until it is scored: retried, sent to other replicas, split, or failed with a reason."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ....reward import Card, EditSample, ImageError, Score
from ....reward.retry import OUTAGE, FailureWindow, RetryPolicy, failed_rows
from ....reward.timeout_compat import TIMEOUTS, timeout
from ..http_protocol import Detail, ImageEncoding, scores_from_json
from .replicas import Replica, ReplicaPool
from .transport import RequestBody, Transport, TransportError, TransportResponse

log = logging.getLogger("editcritic.serving")

RESPONSE_GRACE_S = 1.0
"""How long after the deadline a client waits for the response to arrive."""

_FAULTS = RetryPolicy(first_pause_s=0.5, attempts=3)
"""After errors that the request itself may cause: timeouts, HTTP 5xx without overload, invalid responses."""

_MAX_LOST_CONNECTIONS = 8
"""Lost connections during a request before it fails: the request may crash the servers."""


@dataclass(slots=True)
class RequestChunk:
    """Samples that are sent together, and their scores so far. refused: indices that every server rejects."""

    samples: Sequence[EditSample]
    scores: list[Score | None]
    refused: set[int] = field(default_factory=set)

    def set_scores(self, indices: Sequence[int], scores: Sequence[Score] | str) -> None:
        """Set the scores at these indices, or fail all of them with one reason, of the servers or the network."""
        if isinstance(scores, str):
            scores = [Score.failed(scores, cause="infrastructure")] * len(indices)
        for index, score in zip(indices, scores, strict=True):
            self.scores[index] = score


@dataclass(slots=True)
class DispatchStats:
    """Statistics of a batch. late: ids of samples that were not scored in time."""

    requests: int = 0
    retries: Counter[str] = field(default_factory=Counter)
    late: list[str] = field(default_factory=list)
    replicas: Counter[str] = field(default_factory=Counter)

    def stats(self, seconds: float) -> dict[str, Any]:
        stats = {"seconds": round(seconds, 4), "requests": self.requests, "retries": dict(self.retries)}
        return stats | {"late": list(self.late), "replicas": dict(self.replicas)}


@dataclass(slots=True)
class Dispatcher:
    """Sends the chunks of one batch. received: scores of all batches. call_start: from which deadlines count. The other
    options are those of `RemoteReward`.
    """

    replicas: ReplicaPool
    transport: Transport
    slots: asyncio.Semaphore
    received: FailureWindow
    detail: Detail
    image_encoding: ImageEncoding
    reward: str
    timeout_s: float
    deadline_s: float | None
    retry_failed: bool
    call_start: float
    stats: DispatchStats = field(default_factory=DispatchStats)
    _batch_failed: int = 0
    _batch_received: int = 0

    async def scores(self, key: str, samples: Sequence[EditSample]) -> list[Score]:
        """One score per sample, in order. Errors become failed scores with a reason; nothing is raised."""
        chunk = RequestChunk(samples, [None] * len(samples))
        with contextlib.suppress(*TIMEOUTS):
            async with timeout(self._remaining(RESPONSE_GRACE_S)), self.slots:
                await self._send(key, chunk, range(len(samples)))
                if self.retry_failed:
                    await self._retry_failed(key, chunk)
        scores = [self._late_score if score is None else score for score in chunk.scores]
        self.stats.late += [
            sample.id for sample, score in zip(samples, scores, strict=True) if score == self._late_score
        ]
        return scores

    async def _retry_failed(self, key: str, chunk: RequestChunk) -> None:
        """Once immediately, then after growing pauses while most scores are failures, as long as an outage may last."""
        outage, retries = self.replicas.outage, 0
        while failed := [index for index in failed_rows(chunk.scores) if index not in chunk.refused]:
            reason = str(chunk.scores[failed[0]])
            if retries:
                if not self._is_outage():
                    return
                outage.begin(reason, self.call_start)
            remaining, deadline = outage.remaining(self.call_start), self._remaining()
            if remaining <= 0 or (deadline is not None and deadline <= 0):
                return
            if retries:
                await asyncio.sleep(min(OUTAGE.pause(retries - 1), remaining))
            retries += 1
            self._count_retry("failed", reason)
            await self._send(f"{key}/retry-{retries}", chunk, failed)

    def _is_outage(self) -> bool:
        """Most of the latest scores are failures, or most of the batch's, or all servers know that experts are down."""
        return (
            self.received.exceeded
            or self._batch_failed > self.received.max_rate * self._batch_received
            or all(replica.degraded for replica in self.replicas.all)
        )

    async def _send(self, key: str, chunk: RequestChunk, indices: Sequence[int]) -> None:
        """Send until there is a response for all of these samples, or a reason why not."""
        samples = [chunk.samples[index] for index in indices]
        body = RequestBody(samples, key, self.detail, self.reward, self.image_encoding)
        outage = self.replicas.outage
        faults, lost_connections, error_message = 0, 0, ""
        avoid: Replica | None = None
        while _FAULTS.allows(faults) and lost_connections < _MAX_LOST_CONNECTIONS:
            if failure := self.replicas.permanent_failure:
                return chunk.set_scores(indices, failure)
            replica = self.replicas.pick(samples[0].group, len(samples), avoid)
            if replica is None:
                problems = self.replicas.problems()
                outage.begin(problems, self.call_start)
                if (remaining := outage.remaining(self.call_start)) <= 0:
                    return chunk.set_scores(indices, f"no response for {outage.timeout_s:.3g} s: {problems}")
                await self.replicas.wait(remaining)
                continue
            try:
                response = await self._post(replica, body, samples)
            except ImageError as error:  # of a sample, whose picture cannot be read any more
                return await self._refuse(key, chunk, indices, str(error))
            except TransportError as error:
                error_message, avoid = f"{replica.url}: {error}", replica
                faults += error.timed_out
                lost_connections += error.request_sent and not error.timed_out
                self.replicas.mark_down(replica, str(error))
                reason = "timeout" if error.timed_out else "connection_lost" if error.request_sent else "unreachable"
                self._count_retry(reason, error_message)
                continue
            if response.status in (502, 503, 504):
                self.replicas.mark_busy(replica, response.retry_after_s)
                self._count_retry("busy", f"{replica.url} is at capacity: {response.message}")
                continue
            if response.status == 404 and response.data is None:
                # Of a proxy whose judge is gone, or not there yet: a judge says so in JSON.
                self.replicas.mark_down(replica, "its proxy knows no judge server now")
                self._count_retry("unreachable", f"{replica.url} returned HTTP 404, not in JSON")
                continue
            if response.status == 200:
                scores = self._read_response(replica, response, samples)
                if not isinstance(scores, str):
                    return chunk.set_scores(indices, scores)
                error_message = scores
            elif response.status < 500 and response.status != 408:
                reason = f"{replica.url} rejected it (HTTP {response.status}): {response.message}"
                return await self._refuse(key, chunk, indices, reason, split=response.status in (400, 413, 422))
            else:
                error_message = f"{replica.url} returned HTTP {response.status}: {response.message}"
            avoid = replica
            faults += 1
            self._count_retry("server_error", error_message)
            await asyncio.sleep(_FAULTS.pause(faults - 1))
        total = faults + lost_connections
        return chunk.set_scores(indices, f"failed after {total} attempts, the last: {error_message}")

    async def _refuse(
        self, key: str, chunk: RequestChunk, indices: Sequence[int], reason: str, *, split: bool = True
    ) -> None:
        """Split what cannot be sent or is rejected, so that valid samples are scored without the invalid ones."""
        if split and len(indices) > 1:
            half = len(indices) // 2
            self._count_retry("split", reason)
            await self._send(f"{key}/1", chunk, indices[:half])
            await self._send(f"{key}/2", chunk, indices[half:])
        else:
            chunk.refused.update(indices)
            chunk.set_scores(indices, [Score.failed(reason)] * len(indices))  # maybe because of its images

    async def _post(self, replica: Replica, body: RequestBody, samples: Sequence[EditSample]) -> TransportResponse:
        """Post a request. Raises `TransportError`, and ImageError for a picture that cannot be read."""
        remaining = self._remaining()
        content, content_type = await asyncio.to_thread(
            body.bytes, None if remaining is None else max(remaining, 0.001)
        )
        self.stats.requests += 1
        with replica.waited_for(len(samples)):
            return await self.transport.post(
                f"{replica.url}/v1/score", content, content_type, self.timeout_s, samples[0].group
            )

    def _read_response(
        self, replica: Replica, response: TransportResponse, samples: Sequence[EditSample]
    ) -> list[Score] | str:
        reward_info = self.replicas.reward_info
        try:
            scores = list(scores_from_json(response.data, [sample.id for sample in samples]))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            return f"{replica.url} sent an invalid response ({error!s:.300})"
        if reward_info is not None and response.data.get("identity") != reward_info.identity:
            served_reward = f"{response.data.get('reward')!s:.100}"
            self.replicas.mark_down(replica, f"it scored with {served_reward} instead of {reward_info.signature}")
            return f"{replica.url} serves another reward: {served_reward} instead of {reward_info.signature}"
        if reward_info is not None:
            scores = [_in_range(score, reward_info.card, replica.url) for score in scores]
        rows = response.data["scores"]
        scores = [self._late_score if row.get("late") else score for row, score in zip(rows, scores, strict=True)]
        failures = len(failed_rows(scores))
        for score in scores:
            self.received.add(score)
        self._batch_received += len(scores)
        self._batch_failed += failures
        self.stats.replicas[replica.url] += len(samples)
        self.replicas.mark_answered(replica, response)
        if failures < len(scores):
            self.replicas.outage.end()
        elif replica.up:
            # Its judge may be down; readiness is probed immediately.
            self.replicas.mark_down(replica, "all scores of its last response failed")
        return scores

    @property
    def _late_score(self) -> Score:
        return Score.failed(f"not scored within {self.deadline_s or 0:g} s", cause="infrastructure")

    def _remaining(self, extra: float = 0.0) -> float | None:
        return None if self.deadline_s is None else self.call_start + self.deadline_s + extra - time.monotonic()

    def _count_retry(self, reason: str, message: str) -> None:
        self.stats.retries[reason] += 1
        log.info("retry (%s): %s", reason, message)


def _in_range(score: Score, card: Card, url: str) -> Score:
    """The score, or a failed one where no such reward gives that value."""
    if score.value is None or card.has_in_range(score.value):
        return score
    return Score.failed(f"{url} sent the value {score.value:g}, which its card's range {card.range} does not have")
