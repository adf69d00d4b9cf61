"""Scores for many clients at once: a queue with bounds before the engine, which batches over all of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from ...reward import EditSample, Reward, Score
from ...reward.compose import signed
from ...reward.engine import Engine
from ...reward.timeouts import TIMEOUTS, timeout
from .idempotency import Remembered, fingerprint, same
from .limits import Busy, Limits, Room
from .metrics import Metrics
from .readiness import Readiness
from .wire import Request, WireError, pictures_of

T = TypeVar("T")

log = logging.getLogger("editcritic.serving")


class Job:
    """The samples of one request on their way. Several may wait for it: those who sent the same with the same key."""

    def __init__(self, reward: Reward, request: Request, asked: str, size: int) -> None:
        self.reward = reward
        self.samples: list[EditSample | None] = list(request.samples)
        self.scores: list[Score | None] = [None] * len(self.samples)
        self.key = request.key
        self.asked = asked
        self.size = size
        self.todo = deque(range(len(self.samples)))
        self.running = 0
        self.waiting = 0
        self.given_up = False
        self.done = asyncio.Event()


class Service:
    """Scores requests. Of one event loop, except for what says otherwise.

    rewards: one, or several by the names that requests call them by; those of one engine share its answers. Scores are
    those of `reward(samples)`, with one difference: nothing is raised for too many failures, each sample has its own
    score or reason. See `Limits` for what is refused.
    """

    def __init__(self, rewards: Reward | Mapping[str, Reward], *, limits: Limits | None = None) -> None:
        named = {rewards.__name__: rewards} if isinstance(rewards, Reward) else dict(rewards)
        if not named:
            raise ValueError("a service needs a reward")
        self.rewards: Mapping[str, Reward] = named
        self.limits = limits or Limits()
        self.draining = False
        self.stopped = False
        self.samples = Room(self.limits.queue_samples, "samples")
        self.bytes = Room(self.limits.queue_bytes, "bytes")
        self.in_flight = 0
        self.active = 0
        """Requests that are being read, scored or answered."""
        self.readiness = Readiness(self)
        self.metrics = Metrics(self)
        self._remembered = Remembered(self.limits.remembered)
        self._keyed: dict[str, Job] = {}
        self._jobs: set[Job] = set()
        self._queue: deque[Job] = deque()
        self._pool = ThreadPoolExecutor(self.limits.decoders, "editcritic-decoder")

    def reward(self, name: str = "") -> Reward:
        """The one that a request means. Raises `WireError`."""
        if name in self.rewards:
            return self.rewards[name]
        if not name and len(self.rewards) == 1:
            return next(iter(self.rewards.values()))
        known = ", ".join(sorted(self.rewards))
        raise WireError(f"{f'no reward {name!r:.80}' if name else 'which reward'}? Served here: {known}", 400)

    @property
    def engines(self) -> list[Engine]:
        """Those that are in use."""
        return list({id(reward.engine): reward.engine for reward in self.rewards.values()}.values())

    async def work(self, function: Callable[..., T], *given: object) -> T:
        """Run what takes long in one of the threads for pictures, so that the event loop goes on."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *given)

    def admit(self) -> None:
        """Raises `Busy` where a request would be refused whatever it holds: to be asked before it is read."""
        if self.draining:
            raise Busy("the server is about to stop: ask another one", 5.0)
        if loading := self.readiness.loading():
            raise Busy(f"not ready, {loading} is being loaded", 2.0)
        if self.samples.taken >= self.samples.most:
            raise Busy(f"{self.samples.taken} samples are waiting already", self.retry_after_s())

    async def score(self, request: Request, *, since: float | None = None) -> list[Score | None]:
        """A score for each sample, in order; None for those that the deadline came before.

        since: when the request came, by `time.monotonic`; default: now. Raises `Busy` and `WireError`. Cancelled, it
        gives up what nobody else waits for.
        """
        start = time.monotonic() if since is None else since
        reward = self.reward(request.reward)
        if not request.samples:
            return []
        asked, size = await self.work(_prepared, reward, request)
        job = self._job(reward, request, asked, size)
        if isinstance(job, list):
            return job
        left = None if request.deadline_s is None else start + request.deadline_s - time.monotonic()
        job.waiting += 1
        try:
            async with timeout(left):
                await job.done.wait()
        except TIMEOUTS:
            self.metrics.late(job.scores.count(None))
        finally:
            job.waiting -= 1
            if not job.waiting and not job.done.is_set():
                self._give_up(job)
        return list(job.scores)

    def retry_after_s(self) -> float:
        """When there will be room again, in seconds, as far as the last minute tells: in [1, 60]."""
        rate = self.metrics.rate()
        return min(max(self.samples.taken / rate, 1.0), 60.0) if rate else 1.0

    async def drain(self, patience_s: float) -> bool:
        """Take nothing more, and finish what was accepted. After so many seconds the rest is answered as late.

        Returns whether all was finished.
        """
        self.draining = True
        until = time.monotonic() + patience_s
        while (self.active or self._wanted) and time.monotonic() < until:
            await asyncio.sleep(0.02)
        self.stopped = True
        left = self._wanted
        for job in left:
            self._give_up(job)
            job.done.set()
        return not left

    def close(self) -> None:
        """End the threads. Scores that are under way fail."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for engine in self.engines:
            engine.close()

    @property
    def _wanted(self) -> list[Job]:
        return [job for job in self._jobs if not job.given_up]

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def _job(self, reward: Reward, request: Request, asked: str, size: int) -> Job | list[Score | None]:
        """The job that answers the request, begun by now; or the answer, where it is known. Raises `Busy`."""
        if request.key:
            running = self._keyed.get(request.key)
            if running is not None:
                same(request.key, running.asked, asked)
                return running
            known = self._remembered.look_up(request.key, asked)
            if known is not None:
                self.metrics.replayed(len(known))
                return list(known)
        count = len(request.samples)
        if count > self.limits.max_samples:
            raise WireError(f"{count} samples: at most {self.limits.max_samples} are taken in one request", 413)
        if size > 3 * self.limits.max_pixels:
            raise WireError(f"pictures of {size:,} bytes: send fewer in one request", 413)
        if self.stopped:
            raise Busy("the server has stopped: ask another one", 5.0)
        self.samples.take(count, self.retry_after_s())
        try:
            self.bytes.take(size, self.retry_after_s())
        except Busy:
            self.samples.give_back(count)
            raise
        job = Job(reward, request, asked, size)
        if job.key:
            self._keyed[job.key] = job
        self._jobs.add(job)
        self._queue.append(job)
        self._fill()
        return job

    def _fill(self) -> None:
        """Start samples, one of each request in turn, while the engine has room."""
        while self._queue and self.in_flight < self.limits.in_flight:
            job = self._queue.popleft()
            if job.todo:
                self._start(job, job.todo.popleft())
            if job.todo:
                self._queue.append(job)

    def _start(self, job: Job, number: int) -> None:
        sample = job.samples[number]
        assert sample is not None
        loop = asyncio.get_running_loop()
        self.in_flight += 1
        job.running += 1

        def came(future: Future[Score]) -> None:  # in the engine's thread
            score = _score_of(future)
            with contextlib.suppress(RuntimeError):  # the event loop has ended, and nobody waits
                loop.call_soon_threadsafe(self._take, job, number, score)

        try:
            program = signed(job.reward.metric, sample)
            future = job.reward.engine.submit(program, job.reward.experts, sample, wanted=lambda: not job.given_up)
        except RuntimeError as error:  # of an engine that is closed or broken
            loop.call_soon(self._take, job, number, Score.failed(f"not scored: {error}"))
        else:
            future.add_done_callback(came)

    def _take(self, job: Job, number: int, score: Score) -> None:
        self.in_flight -= 1
        job.running -= 1
        job.samples[number] = None  # its pictures are not needed any more
        if not job.given_up:
            job.scores[number] = score
            self.metrics.scored(score)
            if not job.running and not job.todo:
                found = [one for one in job.scores if one is not None]
                if job.key and not any(one.status == "failed" for one in found):  # those may be scored another time
                    self._remembered.keep(job.key, job.asked, found)
                job.done.set()
        self._clear(job)
        self._fill()

    def _give_up(self, job: Job) -> None:
        """Nobody waits any more: what was not started will not be, and what has been asks nothing further."""
        job.given_up = True
        self.metrics.gave_up(len(job.todo))
        for number in job.todo:
            job.samples[number] = None
        job.todo.clear()
        if job.key and self._keyed.get(job.key) is job:
            del self._keyed[job.key]
        self._clear(job)

    def _clear(self, job: Job) -> None:
        """Its room is free once nothing of it is in the engine, which holds its pictures."""
        if job.running or job.todo or job not in self._jobs:
            return
        self._jobs.remove(job)
        if job.key and self._keyed.get(job.key) is job:
            del self._keyed[job.key]
        self.samples.give_back(len(job.scores))
        self.bytes.give_back(job.size)


def _prepared(reward: Reward, request: Request) -> tuple[str, int]:
    """The fingerprint of a request, if it has a key, and the bytes of its pictures. Raises `WireError`."""
    try:
        reward.check(request.samples)
    except ValueError as error:
        raise WireError(str(error)) from None
    pictures = pictures_of(request.samples)  # their digests are computed here, and not in the engine's one thread
    size = sum(3 * image.width * image.height for image in pictures.values())
    return (fingerprint(request) if request.key else ""), size


def _score_of(future: Future[Score]) -> Score:
    """What a program came to; what it raised is a failure of this one sample."""
    error = future.exception()
    if error is None:
        return future.result()
    log.error("a reward raised what is no answer", exc_info=error)
    return Score.failed(f"the reward broke on it: {type(error).__name__}: {error}"[:500])
