"""Scoring for many clients: a bounded queue before the engine, which batches over all of them. For clients that cannot
leave a sample out, failed ones are asked again in the rounds of `reward.retry`; a pause holds no place in the queue."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import re
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, TypeVar

from ....reward import EditSample, Engine, Reward, Score, default_experts, load_experts
from ....reward.config import read_spec
from ....reward.lru_cache import LruCache
from ....reward.queries.specs import Spec
from ....reward.retry import retry_rounds
from ....reward.sample_files import sample_to_json
from ....reward.timeout_compat import TIMEOUTS, timeout
from ....reward.training.step_monitor import StepMonitor
from ..http_protocol import APIError, ScoreRequest, images_by_digest
from .decoding import DecodingLanes
from .monitoring import RewardMonitors
from .prometheus_metrics import PrometheusMetrics
from .readiness import Readiness
from .settings import Capacity, ServerBusy, ServerLimits

RequestId = tuple[str, str]
"""Key and fingerprint."""


def fingerprint(request: ScoreRequest) -> str:
    """A digest of a request's content: samples with the digests of their images, and the reward; not its
    deadline, detail and image encoding."""
    rows = [sample_to_json(sample) for sample in request.samples]
    return hashlib.sha256(json.dumps([request.reward, rows], sort_keys=True).encode()).hexdigest()


NAMED_REWARD = re.compile(r"([A-Za-z_][\w.-]*)=(.+)")
"""A reward with a name of its own, as in mine=any-edit."""


def served_rewards(specs: Sequence[str], experts: Sequence[str] | None, engine: Engine) -> dict[str, Reward]:
    """By name, on one engine, of specs or TOML files, as in mine=any-edit. Raises ValueError and ImportError."""
    rewards: dict[str, Reward] = {}
    shared = load_experts(experts, default_experts()) if experts else default_experts()
    for text in specs:
        named = NAMED_REWARD.fullmatch(text)
        target = named[2] if named else text
        spec: Spec = read_spec(target) if target.endswith(".toml") else target
        own = isinstance(spec, Mapping) and "experts" in spec and not experts
        options: dict[str, Any] = {} if own else {"experts": shared}
        reward = Reward.of(spec, engine=engine, **options)
        name = named[1] if named else reward.__name__
        if name in rewards:
            raise ValueError(f"two rewards have the name {name}: rename one, as in --reward mine={text}")
        rewards[name] = reward
    return rewards


T = TypeVar("T")

log = logging.getLogger("editcritic.serving")


class ScoringJob:
    """The samples of one request. Several callers may wait for it: repeats of the request with the same key."""

    def __init__(self, reward: Reward, request: ScoreRequest, fingerprint: str, size: int) -> None:
        self.reward = reward
        self.samples: list[EditSample | None] = list(request.samples)
        self.scores: list[Score | None] = [None] * len(self.samples)
        self.id: RequestId | None = (request.key, fingerprint) if request.key else None
        self.size = size
        self.pending = deque(range(len(self.samples)))
        self.running = 0
        self.waiting = 0
        self.cancelled = False
        self.done = asyncio.Event()


class ScoringService:
    """Scores requests. Used from one event loop, unless noted.

    Args:
        rewards: One, or several by the names used in requests; those on one engine share its answers. Scores are those
            of `reward(samples)`, except that too many failures raise nothing: each sample has its own score or reason.
            See `ServerLimits` for rejected requests.
        monitors: By the names of rewards, which need not all have one; each sees every edit that its reward scores, in
            a thread of their own.
    """

    def __init__(
        self,
        rewards: Reward | Mapping[str, Reward],
        *,
        limits: ServerLimits | None = None,
        monitors: Mapping[str, StepMonitor] | None = None,
    ) -> None:
        by_name = {rewards.__name__: rewards} if isinstance(rewards, Reward) else dict(rewards)
        if not by_name:
            raise ValueError("a service needs at least one reward")
        self.rewards: Mapping[str, Reward] = by_name
        self.monitors = RewardMonitors(by_name, monitors or {})
        self.limits = limits or ServerLimits()
        self.draining = False
        self.stopped = False
        self.samples = Capacity(self.limits.max_queued_samples, "samples")
        self.bytes = Capacity(self.limits.max_queued_bytes, "bytes")
        self.in_flight = 0
        self.active_requests = 0
        """Requests being read, scored or answered."""
        self.readiness = Readiness(by_name)
        self._identities: dict[Reward, str] = {}
        self.metrics = PrometheusMetrics(self)
        self._idempotency_cache: LruCache[RequestId, list[Score]] = LruCache(self.limits.idempotent_scores, len)
        self._jobs_by_id: dict[RequestId, ScoringJob] = {}
        self._jobs: set[ScoringJob] = set()
        self._queue: deque[ScoringJob] = deque()
        self._lanes = DecodingLanes(self.limits.decode_threads)

    def reward(self, name: str = "") -> Reward:
        """The reward of a request. Raises `APIError`."""
        if name in self.rewards:
            return self.rewards[name]
        if not name and len(self.rewards) == 1:
            return next(iter(self.rewards.values()))
        names = ", ".join(sorted(self.rewards))
        problem = f"no reward {name!r:.80}" if name else "the request names no reward"
        raise APIError(f"{problem}: served are {names}", 400)

    def identity(self, reward: Reward) -> str:
        """The reward's identity; its last one while the id of an expert cannot be determined; empty if it had none."""
        with contextlib.suppress(Exception):
            self._identities[reward] = reward.identity
        return self._identities.get(reward, "")

    def expert_ids(self, reward: Reward) -> dict[str, str]:
        """Ids of the experts that the reward uses, by role; why one is not known."""
        ids: dict[str, str] = {}
        for role, expert in reward.used_experts.items():
            try:
                ids[role] = expert.id
            except Exception as error:  # noqa: BLE001  (its server or its weights are gone)
                ids[role] = f"unknown: {error}"
        return ids

    @property
    def engines(self) -> list[Engine]:
        """The engines in use."""
        return self.readiness.engines

    async def run_in_decoder(self, function: Callable[..., T], *args: object) -> T:
        """Run a slow function in a decoder thread, so that the event loop stays responsive."""
        return await self._lanes.run(function, *args)

    def check_ready(self) -> None:
        """Raises `ServerBusy` if any request would be refused; to be called before its body is read."""
        if self.draining:
            raise ServerBusy("the server is stopping: use another one", 5.0)
        if loading := self.readiness.loading():
            raise ServerBusy(f"not ready: {loading} is loading", 2.0)
        if self.samples.used >= self.samples.capacity:
            raise ServerBusy(f"{self.samples.used} samples are queued", self.retry_after_s())

    async def score(self, request: ScoreRequest, *, received_at: float | None = None) -> list[Score | None]:
        """One score per sample, in order; None for samples not scored by the deadline.

        Raises `ServerBusy` and `APIError`. If cancelled, it stops scoring what no other caller waits for.

        Args:
            received_at: When the request arrived, by `time.monotonic`; default: now.
        """
        start = time.monotonic() if received_at is None else received_at
        reward = self.reward(request.reward)
        if not request.samples:
            return []
        fingerprint, size = await self.run_in_decoder(_fingerprint_and_size, reward, request)
        job = self._job(reward, request, fingerprint, size)
        if isinstance(job, list):
            return job
        remaining = None if request.deadline_s is None else start + request.deadline_s - time.monotonic()
        job.waiting += 1
        try:
            async with timeout(remaining):
                await job.done.wait()
        except TIMEOUTS:
            self.metrics.not_scored("late", job.scores.count(None))
        finally:
            job.waiting -= 1
            if not job.waiting and not job.done.is_set():
                self._cancel(job)
        return list(job.scores)

    def retry_after_s(self) -> float:
        """Estimated seconds until there is capacity, from the last minute's rate: in [1, 60]."""
        rate = self.metrics.samples_per_second()
        return min(max(self.samples.used / rate, 1.0), 60.0) if rate else 1.0

    async def drain(self, timeout_s: float) -> bool:
        """Refuse new requests and finish accepted ones. After `timeout_s` the remaining samples are answered as late.

        Returns:
            Whether all were finished.
        """
        self.draining = True
        deadline = time.monotonic() + timeout_s
        while (self.active_requests or self._active_jobs) and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        self.stopped = True
        unfinished = self._active_jobs
        for job in unfinished:
            self._cancel(job)
            job.done.set()
        return not unfinished

    def close(self) -> None:
        """End the threads. Scores in progress fail."""
        self.monitors.close()
        self._lanes.close()
        for engine in self.engines:
            engine.close()

    @property
    def _active_jobs(self) -> list[ScoringJob]:
        return [job for job in self._jobs if not job.cancelled]

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def _job(
        self, reward: Reward, request: ScoreRequest, fingerprint: str, size: int
    ) -> ScoringJob | list[Score | None]:
        """The running job for the request, or its stored scores. Raises `ServerBusy`."""
        if request.key:
            running = self._jobs_by_id.get((request.key, fingerprint))
            if running is not None:
                return running
            scores = self._idempotency_cache.get((request.key, fingerprint))
            if scores is not None:
                self.metrics.not_scored("replayed", len(scores))
                return list(scores)
        count = len(request.samples)
        if count > self.limits.max_samples:
            raise APIError(f"{count} samples: at most {self.limits.max_samples} are accepted per request", 413)
        if size > 3 * self.limits.max_pixels:
            raise APIError(f"images of {size:,} bytes: send fewer in one request", 413)
        if self.stopped:
            raise ServerBusy("the server has stopped: use another one", 5.0)
        self.samples.acquire(count, self.retry_after_s())
        try:
            self.bytes.acquire(size, self.retry_after_s())
        except ServerBusy:
            self.samples.release(count)
            raise
        job = ScoringJob(reward, request, fingerprint, size)
        if job.id:
            self._jobs_by_id[job.id] = job
        self._jobs.add(job)
        self._queue.append(job)
        self._fill()
        return job

    def _fill(self) -> None:
        """Start samples, one per job in turn, while the engine has capacity."""
        while self._queue and self.in_flight < self.limits.max_in_flight:
            job = self._queue.popleft()
            if job.pending:
                self._start(job, job.pending.popleft())
            if job.pending:
                self._queue.append(job)

    def _start(self, job: ScoringJob, index: int) -> None:
        sample = job.samples[index]
        assert sample is not None
        loop = asyncio.get_running_loop()
        self.in_flight += 1
        job.running += 1

        def on_done(future: Future[Score]) -> None:  # in the engine's thread
            score = _score_of(future)
            with contextlib.suppress(RuntimeError):  # the event loop has ended
                loop.call_soon_threadsafe(self._finish_sample, job, index, score)

        try:
            future = job.reward.submit(sample, is_wanted=lambda: not job.cancelled)
        except RuntimeError as error:  # of an engine that is closed or broken
            failed = Score.failed(f"not scored: {error}", cause="infrastructure")
            loop.call_soon(self._finish_sample, job, index, failed)
        else:
            future.add_done_callback(on_done)

    def _finish_sample(self, job: ScoringJob, index: int, score: Score) -> None:
        self.in_flight -= 1
        job.running -= 1
        sample, job.samples[index] = job.samples[index], None  # frees its images
        if not job.cancelled:
            assert sample is not None
            self.monitors.add(job.reward, sample, score)
            job.scores[index] = score
            self.metrics.scored(score)
            if not job.running and not job.pending:
                scores = [final for final in job.scores if final is not None]
                is_final = not any(final.status == "failed" for final in scores)  # failed ones may be retried
                if job.id and is_final and len(scores) <= self.limits.idempotent_scores:
                    self._idempotency_cache.put(job.id, scores)
                job.done.set()
        self._clear(job)
        self._fill()

    def _cancel(self, job: ScoringJob) -> None:
        """No caller waits any more: pending samples are dropped, running ones send no further queries."""
        job.cancelled = True
        self.metrics.not_scored("cancelled", len(job.pending))
        for index in job.pending:
            job.samples[index] = None
        job.pending.clear()
        if job.id and self._jobs_by_id.get(job.id) is job:
            del self._jobs_by_id[job.id]
        self._clear(job)

    def _clear(self, job: ScoringJob) -> None:
        """Release the job's capacity once none of its samples, and so none of its images, is in the engine."""
        if job.running or job.pending or job not in self._jobs:
            return
        self._jobs.remove(job)
        if job.id and self._jobs_by_id.get(job.id) is job:
            del self._jobs_by_id[job.id]
        self.samples.release(len(job.scores))
        self.bytes.release(job.size)


def _fingerprint_and_size(reward: Reward, request: ScoreRequest) -> tuple[str, int]:
    """The fingerprint of a request with a key, and the bytes of its images. Raises `APIError`."""
    try:
        reward.validate(request.samples)
    except ValueError as error:
        raise APIError(str(error)) from None
    images = images_by_digest(request.samples)  # computes the digests here instead of in the engine's one thread
    size = sum(3 * image.width * image.height for image in images.values())
    return (fingerprint(request) if request.key else ""), size


def _score_of(future: Future[Score]) -> Score:
    """The score of a program; an exception fails this sample only."""
    error = future.exception()
    if error is None:
        return future.result()
    log.error("a reward raised an exception", exc_info=error)
    return Score.failed(f"the reward raised {type(error).__name__}: {error}"[:500], cause="infrastructure")


_RETRY_SHARE = 0.5
_ANSWER_SHARE = 0.9
"""Of the client's time-out: when the last round may begin, and when the answer is sent with what is there."""


async def score_with_retries(
    service: ScoringService, request: ScoreRequest, *, received_at: float, client_timeout_s: float
) -> list[Score]:
    """One score per sample, in order; one that is late has failed for reasons of infrastructure. received_at: by
    `time.monotonic`. client_timeout_s: how long its client waits. Raises as `ScoringService.score`."""
    until = received_at + _ANSWER_SHARE * client_timeout_s
    late = Score.failed(f"late: not scored within {until - received_at:g} s", cause="infrastructure")

    async def scores_of(samples: Sequence[EditSample]) -> list[Score]:
        remaining = max(0.001, until - time.monotonic())
        asked = replace(request, samples=tuple(samples), deadline_s=remaining)
        return [score or late for score in await service.score(asked)]

    scores = await scores_of(request.samples)
    for pause, rows in retry_rounds(scores, received_at + _RETRY_SHARE * client_timeout_s):
        samples = [request.samples[row] for row in rows]
        await _pause(service, samples, pause)
        if service.draining:
            break
        for row, score in zip(rows, await scores_of(samples), strict=True):
            scores[row] = score
    return scores


async def _pause(service: ScoringService, samples: Sequence[EditSample], seconds: float) -> None:
    if not seconds:
        return
    size = sum(3 * image.width * image.height for image in images_by_digest(samples).values())
    service.bytes.acquire(size, service.retry_after_s())
    try:
        await asyncio.sleep(seconds)
    finally:
        service.bytes.release(size)
