"""A reward that is somewhere else: called like a `Reward`, scored by a judge server, or by several of them.

    reward = RemoteReward(["http://127.0.0.1:8000", "http://127.0.0.1:8001"], token_env="JUDGE_TOKEN")
    scores = reward(samples)

A trainer, a verifier or an adapter takes it wherever it takes a `Reward`. What is shared, and what is not: on a server,
all clients share the experts' weights, the batches, the answers that its engine keeps in memory and those in its answer
log; so rollouts of one source cost less together, and are sent to the same server (see `replicas`). Two servers share
nothing: each has its own weights (two processes on one GPU have them twice), its own memory, and its own log on a disk
of its node. A client holds no weights and no answers.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
import uuid
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from typing import Any, get_args

from ...reward import AnyReward, Card, EditSample, Score, Scores, SpecError, TooManyFailures
from ...reward.reward import OnFailures
from .background import Background, background
from .replicas import About, RemoteError, Replica, Replicas
from .sending import LEAST, ROLLING, Sender, Terms
from .transport import Transport, checked
from .wire import Detail, Packing

__all__ = ["RemoteError", "RemoteReward"]

_OPTIONS = (
    *("reward", "token_env", "deadline_s", "timeout_s", "patience_s", "concurrency", "chunk", "packing", "detail"),
    *("max_failed", "on_failures"),
)


class RemoteReward(AnyReward):
    """The reward that judge servers have, called like a `Reward`.

    urls: of one server, or of several that serve the same reward: same signature, same options, same experts by their
    ids. Others are refused. reward: its name there, where they serve several. token_env: the environment variable that
    holds their token; the token itself is kept nowhere.

    deadline_s: of a call. What is not scored by then comes back as `failed`, saying so, and its id stands in
    `stats["late"]`; what is scored is kept. timeout_s: for the answer to one request: more than a server ever takes for
    `chunk` samples, waiting in line included; after it the request goes elsewhere, three times. patience_s: as long as
    nobody answers any request at all (no connection, or no room in any queue), a request is tried again, after pauses
    that grow and are partly random, or when a server says; then it fails. Refused requests (4xx) fail at once.

    concurrency: requests at a time for each server. chunk: samples in a request, of one server's groups. A request
    keeps its key wherever it is sent, so that none is judged twice by one server. packing: `rgb` sends bare pixels,
    which costs little time and many bytes; `png` half of the bytes for twenty times the time. detail: see `wire`.

    max_failed, on_failures: as for `Reward`: with `wait` too, what has failed is asked for once more at once, and then
    for up to `patience_s` while the share of failures is greater than `max_failed`. Late ones count as failures, as
    nobody learns from a judge that is always late. A failure is never a number.

    Works from any thread and from any event loop (`await reward.score(samples)`). Asks the servers directly, whatever
    the environment says of proxies. Pickles: as its arguments. Raises
    ValueError for arguments that mean nothing; on first use `RemoteError` where no server can be used, or where two of
    them differ, naming both.
    """

    def __init__(
        self,
        urls: str | Sequence[str],
        *,
        reward: str = "",
        token_env: str = "",
        deadline_s: float | None = None,
        timeout_s: float = 600.0,
        patience_s: float = 3600.0,
        concurrency: int = 16,
        chunk: int = 8,
        packing: Packing = "rgb",
        detail: Detail = "parts",
        max_failed: float = 0.5,
        on_failures: OnFailures = "raise",
    ) -> None:
        self.urls = checked(urls)
        for name, value, known in (
            ("packing", packing, get_args(Packing)),
            ("detail", detail, get_args(Detail)),
            ("on_failures", on_failures, get_args(OnFailures)),
        ):
            if value not in known:
                raise ValueError(f"{name} is one of {', '.join(known)}, got {value!r}")
        if not 0 <= max_failed <= 1:
            raise ValueError(f"max_failed is a share in [0, 1], got {max_failed}")
        if concurrency < 1 or chunk < 1:
            raise ValueError(f"concurrency and chunk are 1 or more, got {concurrency} and {chunk}")
        for name, seconds in (("timeout_s", timeout_s), ("patience_s", patience_s), ("deadline_s", deadline_s)):
            if seconds is not None and not 0 < seconds < math.inf:
                raise ValueError(f"{name} is a positive number of seconds, got {seconds}")
        self.reward = reward
        self.token_env = token_env
        self.deadline_s = deadline_s
        self.timeout_s = timeout_s
        self.patience_s = patience_s
        self.concurrency = concurrency
        self.chunk = chunk
        self.packing: Packing = packing
        self.detail: Detail = detail
        self.max_failed = max_failed
        self.on_failures: OnFailures = on_failures
        self._recent: deque[bool] = deque(maxlen=ROLLING)
        self._link: _Link | None = None
        self._making = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.urls, {name: getattr(self, name) for name in _OPTIONS})

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def card(self) -> Card:
        """Asked of the servers once. Raises `RemoteError`."""
        return self._about.card

    @property
    def spec(self) -> dict[str, Any]:
        """That of the servers' reward. Raises SpecError where it is made of what has none."""
        spec = self._about.spec
        if "reward" not in spec:
            raise SpecError(f"{self.urls[0]} has no spec of its reward: {spec.get('problem', 'it says none')}")
        return dict(spec)

    @property
    def expert_ids(self) -> dict[str, str]:
        """Of the servers' experts, by role."""
        return dict(self._about.experts)

    @property
    def _about(self) -> About:
        link = self._linked()
        return link.replicas.about or link.thread.submit(link.replicas.connect()).result()

    # -- scoring ------------------------------------------------------------------------------------------------------

    def __call__(self, samples: Iterable[EditSample]) -> Scores:
        """Score a batch, in the order of the samples. Raises ValueError as `Reward` does, before anything is sent;
        `RemoteError`; `TooManyFailures` with all scores, by `on_failures`.

        `stats`: `seconds`, `requests`, `retries` (by what was the matter), `late` (ids), `replicas` (samples by URL).
        """
        batch = list(samples)
        work = self._start(batch)
        try:
            return self._watched(work.result())
        except BaseException:
            work.cancel()  # whoever interrupts it wants no answer
            raise

    async def score(self, samples: Iterable[EditSample]) -> Scores:
        """The same for an event loop, any one: it goes on meanwhile."""
        batch = list(samples)
        link = self._linked()
        if link.replicas.about is None:
            await asyncio.wrap_future(link.thread.submit(link.replicas.connect()))
        return self._watched(await asyncio.wrap_future(self._start(batch)))

    def stream(self, samples: Iterable[EditSample]) -> Iterator[Score]:
        """Scores one by one, in order; samples are taken as there is room, so that any number of them fits.

        `deadline_s` counts for each of the batches that it makes of them.
        """
        source = iter(samples)
        size = self.chunk * self.concurrency * len(self.urls)
        waiting: deque[Future[Scores]] = deque()
        try:
            while True:
                while len(waiting) < 2 and (batch := list(islice(source, size))):
                    waiting.append(self._start(batch))
                if not waiting:
                    return
                for score in waiting.popleft().result():
                    self._count(score, (score,))
                    yield score
        finally:
            for work in waiting:
                work.cancel()

    def offload(self) -> None:
        """Nothing: the weights are the server's, which has others to serve."""

    def replicas(self) -> list[Replica]:
        """The servers as this client sees them."""
        return list(self._linked().replicas.all)

    def close(self) -> None:
        """Close the connections. The next call opens new ones."""
        with self._making:
            link, self._link = self._link, None
        if link is not None:
            link.end()

    def _start(self, batch: list[EditSample]) -> Future[Scores]:
        self.check(batch)
        link = self._linked()
        return link.thread.submit(self._scored(link, batch))

    async def _scored(self, link: _Link, batch: list[EditSample]) -> Scores:
        start = time.perf_counter()
        terms = Terms(
            self.detail,
            self.packing,
            self.reward,
            self.timeout_s,
            self.patience_s,
            self.max_failed,
            self.on_failures == "wait",
        )
        sender = Sender(link.replicas, link.transport, link.slots, link.recent, terms, self.deadline_s)
        nonce = uuid.uuid4().hex
        pieces = self._pieces(link.replicas, batch)
        work = (sender.scores(f"{nonce}/{number}", [batch[at] for at in piece]) for number, piece in enumerate(pieces))
        found: list[Score | None] = [None] * len(batch)
        for piece, scores in zip(pieces, await asyncio.gather(*work), strict=True):
            for at, score in zip(piece, scores, strict=True):
                found[at] = score
        whole = tuple(score for score in found if score is not None)
        return Scores(whole, tuple(sample.id for sample in batch), sender.tally.stats(time.perf_counter() - start))

    def _pieces(self, replicas: Replicas, batch: Sequence[EditSample]) -> list[list[int]]:
        """The numbers of the samples that are sent together: groups side by side, of one server's groups."""
        groups: dict[str, list[int]] = {}
        for number, sample in enumerate(batch):
            groups.setdefault(sample.group, []).append(number)
        homes: dict[str, list[int]] = {}
        for group, numbers in groups.items():
            homes.setdefault(replicas.order(group)[0].url, []).extend(numbers)
        return [
            numbers[at : at + self.chunk] for numbers in homes.values() for at in range(0, len(numbers), self.chunk)
        ]

    # -- failures -----------------------------------------------------------------------------------------------------

    def _watched(self, scores: Scores) -> Scores:
        for score in scores:
            self._count(score, scores)
        return scores

    def _count(self, score: Score, scores: Sequence[Score]) -> None:
        """Raises `TooManyFailures`."""
        self._recent.append(score.status == "failed")
        if self.on_failures == "none" or score.status != "failed" or len(self._recent) < LEAST:
            return
        if sum(self._recent) > self.max_failed * len(self._recent):
            share = sum(self._recent) / len(self._recent)
            self._recent.clear()
            raise TooManyFailures(
                f"{share:.0%} of the last scores failed (allowed: {self.max_failed:.0%}); the last one: {score.reason}",
                scores,
            )

    def _linked(self) -> _Link:
        with self._making:
            if self._link is None or self._link.pid != os.getpid() or not self._link.thread.thread.is_alive():
                thread = background()
                self._link = thread.submit(_link(self, thread)).result()
                weakref.finalize(self, self._link.end).atexit = False
            return self._link


@dataclass(frozen=True)
class _Link:
    """What a client has in one process."""

    thread: Background
    transport: Transport
    replicas: Replicas
    slots: asyncio.Semaphore
    recent: deque[bool]
    pid: int

    def end(self) -> None:
        """Close the connections, if this is still the process that they belong to."""
        if self.pid == os.getpid() and self.thread.loop.is_running():
            self.thread.submit(self.replicas.close())


async def _link(client: RemoteReward, thread: Background) -> _Link:
    most = client.concurrency * len(client.urls)
    transport = Transport(client.urls, token_env=client.token_env, connections=most + len(client.urls))
    replicas = Replicas(client.urls, transport, reward=client.reward, patience_s=client.patience_s)
    return _Link(thread, transport, replicas, asyncio.Semaphore(most), deque(maxlen=ROLLING), os.getpid())


def _rebuild(urls: tuple[str, ...], options: dict[str, Any]) -> RemoteReward:
    return RemoteReward(urls, **options)
