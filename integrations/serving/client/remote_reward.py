"""A `Reward` that is scored by one or several judge servers, accepted in place of one.

    reward = RemoteReward(["http://127.0.0.1:8000", "http://127.0.0.1:8001"], token_env="JUDGE_TOKEN")
    scores = reward(samples)

All clients of a server share its experts' weights, batches and answers; rollouts of one source are sent to the same
server (see `replicas`). Servers share nothing, and a client holds no weights and no answers.
"""

from __future__ import annotations

import asyncio
import copy
import math
import os
import re
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

from ....reward import BaseReward, Card, EditSample, Score, Scores, SpecError, TooManyFailures
from ....reward.base_reward import require_fields
from ....reward.retry import FailureWindow
from ....reward.reward import OnFailures
from ....reward.timeout_compat import TIMEOUTS, timeout
from ..http_protocol import Detail, ImageEncoding
from .dispatch import RESPONSE_GRACE_S, Dispatcher, DispatchStats
from .replicas import RemoteError, Replica, ReplicaPool, RewardInfo, ServersUnreachable
from .transport import BackgroundLoop, Transport, background_loop, validate_urls

__all__ = ["RemoteError", "RemoteReward"]

_PICKLED_OPTIONS = (
    *("reward", "token_env", "deadline_s", "timeout_s", "outage_timeout_s", "max_concurrency", "chunk_size"),
    *("image_encoding", "detail", "max_failure_rate", "on_failures"),
)


class RemoteReward(BaseReward):
    """The reward of judge servers, called like a `Reward`.

    Works from any thread and any event loop (`await reward.score(samples)`). Connects directly, ignoring proxy settings
    of the environment. Picklable if its arguments are. Raises ValueError for invalid arguments; on first use
    `RemoteError` for another token, no judge server, or two of different rewards, naming both. Where no server
    responds, a call raises `TooManyFailures`, or with on_failures="none" has failed scores; all else, `RemoteError`.

    Args:
        urls: Of one server, or of several that serve the same reward, of one identity. Every answer carries the
            identity; others than the first are refused, so a server that is restarted with other weights is not used
            until it has the first identity again. During an upgrade, the servers that still have it are used until
            there are none.
        reward: Its name on the servers, if they serve several.
        identity: The one to use, or its first digits (8 or more), for clients that start while servers are upgraded.
        token_env: The environment variable with their token; the token itself is not stored.
        deadline_s: Of a call. Samples not scored by then return as `failed` with that reason, and their ids are in
            `stats["late"]`; other scores are kept.
        timeout_s: For the response to one request, longer than a server ever takes for `chunk_size` samples including
            the queue; then the request is retried elsewhere, three times.
        outage_timeout_s: While no server responds at all (no connection, or all at capacity), requests are retried with
            growing, jittered pauses, or as a server says; then all of the call that have no score fail. It is counted
            once for the whole call, from the first failure, and anew after any score. 0: nothing is waited for.
            Rejected requests (4xx) fail at once.
        max_concurrency: Concurrent requests per server.
        chunk_size: Samples per request, all of groups routed to one server. A request keeps its key on retries, so that
            a server scores it only once.
        image_encoding: `rgb` sends raw pixels, with little time and many bytes; `png` takes half of the bytes and
            twenty times the time.
        detail: See `http_protocol`.
        max_failure_rate: As for `Reward`: with `wait`, failed samples are retried once at once, and then, in the same
            `outage_timeout_s`, while the share of failures is above `max_failure_rate`. Late samples count as failures.
            A failure is never a number.
        on_failures: See `max_failure_rate`.
    """

    def __init__(
        self,
        urls: str | Sequence[str],
        *,
        reward: str = "",
        identity: str = "",
        token_env: str = "",
        deadline_s: float | None = None,
        timeout_s: float = 600.0,
        outage_timeout_s: float = 3600.0,
        max_concurrency: int = 16,
        chunk_size: int = 8,
        image_encoding: ImageEncoding = "rgb",
        detail: Detail = "parts",
        max_failure_rate: float = 0.5,
        on_failures: OnFailures = "raise",
    ) -> None:
        self.urls = validate_urls(urls)
        for name, value, choices in (
            ("image_encoding", image_encoding, get_args(ImageEncoding)),
            ("detail", detail, get_args(Detail)),
            ("on_failures", on_failures, get_args(OnFailures)),
        ):
            if value not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
        if not 0 <= max_failure_rate <= 1:
            raise ValueError(f"max_failure_rate must be in [0, 1], got {max_failure_rate}")
        if max_concurrency < 1 or chunk_size < 1:
            raise ValueError(
                f"max_concurrency and chunk_size must be 1 or more, got {max_concurrency} and {chunk_size}"
            )
        for name, seconds in (
            ("timeout_s", timeout_s),
            ("outage_timeout_s", outage_timeout_s),
            ("deadline_s", deadline_s),
        ):
            least = 0.0 if name == "outage_timeout_s" else 1e-9
            if seconds is not None and not least <= seconds < math.inf:
                raise ValueError(f"{name} must be a positive number of seconds, got {seconds}")
        if identity and not re.fullmatch("[0-9a-f]{8,64}", identity):
            raise ValueError(f"identity must be 8 to 64 hex digits, as servers and scores have them, got {identity!r}")
        self.reward = reward
        self.required_identity = identity
        self._known_identity = ""  # that of the first answer, also after `close`, in a forked child, and when pickled
        self.token_env = token_env
        self.deadline_s = deadline_s
        self.timeout_s = timeout_s
        self.outage_timeout_s = outage_timeout_s
        self.max_concurrency = max_concurrency
        self.chunk_size = chunk_size
        self.image_encoding: ImageEncoding = image_encoding
        self.detail: Detail = detail
        self.max_failure_rate = max_failure_rate
        self.on_failures: OnFailures = on_failures
        self._window = FailureWindow(max_failure_rate)
        self._connection: _Connection | None = None
        self._connection_lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        options = {name: getattr(self, name) for name in _PICKLED_OPTIONS}
        return _rebuild, (self.urls, {**options, "identity": self.required_identity or self._known_identity})

    # -- description --------------------------------------------------------------------------------------------------

    @property
    def known_card(self) -> Card | None:
        """The card, if a server has been asked for it."""
        connection = self._connection
        info = None if connection is None else connection.replicas.reward_info
        return None if info is None else info.card

    @property
    def card(self) -> Card:
        """The card; requested once. Raises `RemoteError`."""
        return self._reward_info.card

    @property
    def spec(self) -> dict[str, Any]:
        """The spec of the servers' reward.

        Raises:
            SpecError: If it has none.
        """
        spec = self._reward_info.spec
        if "reward" not in spec:
            raise SpecError(f"{self.urls[0]} has no spec of its reward: {spec.get('error', 'no reason given')}")
        return dict(spec)

    @property
    def expert_ids(self) -> dict[str, str]:
        """Ids of the servers' experts, by role."""
        return dict(self._reward_info.experts)

    @property
    def identity(self) -> str:
        """The identity of the servers' reward, which every answer has to have. Raises `RemoteError`."""
        return self._reward_info.identity

    def _keep_identity(self, identity: str) -> None:
        self._known_identity = identity

    @property
    def _reward_info(self) -> RewardInfo:
        connection = self._connect()
        return connection.replicas.reward_info or connection.loop.submit(connection.replicas.connect()).result()

    # -- scoring ------------------------------------------------------------------------------------------------------

    def __call__(self, samples: Iterable[EditSample]) -> Scores:
        """Score a batch, in the order of the samples. Raises ValueError as `Reward` does, before anything is sent;
        `RemoteError`; `TooManyFailures` with all scores, by `on_failures`.

        `stats`: `seconds`, `requests`, `retries` (by reason), `late` (ids), `replicas` (samples by URL).
        """
        batch = list(samples)
        future = self._start(batch)
        try:
            return self._check_failures(future.result())
        except BaseException:
            future.cancel()  # an interrupted caller needs no result
            raise

    async def score(self, samples: Iterable[EditSample]) -> Scores:
        """The same, asynchronous; on any event loop."""
        return self._check_failures(await asyncio.wrap_future(self._start(list(samples))))

    def stream(self, samples: Iterable[EditSample]) -> Iterator[Score]:
        """Scores one by one, in order; samples are consumed as there is capacity, so there may be any number of them.

        `deadline_s` applies to each of its batches.
        """
        source = iter(samples)
        size = self.chunk_size * self.max_concurrency * len(self.urls)
        pending: deque[Future[Scores]] = deque()
        try:
            while True:
                while len(pending) < 2 and (batch := list(islice(source, size))):
                    pending.append(self._start(batch))
                if not pending:
                    return
                for score in pending.popleft().result():
                    self._record(score, (score,))
                    yield score
        finally:
            for future in pending:
                future.cancel()

    def without_failure_limit(self) -> RemoteReward:
        unlimited = copy.copy(self)
        unlimited.on_failures = "none"
        unlimited._window = FailureWindow(self.max_failure_rate)
        return unlimited

    def waiting(self, outage_timeout_s: float) -> RemoteReward:
        waiting = self.without_failure_limit()
        waiting.on_failures, waiting.outage_timeout_s = "wait", outage_timeout_s
        waiting._connection, waiting._connection_lock = None, threading.Lock()  # its outages are its own
        return waiting

    def offload(self) -> None:
        """Does nothing: the weights are the server's, which may serve other clients."""

    def replicas(self) -> list[Replica]:
        """The servers and their state in this client."""
        return list(self._connect().replicas.all)

    def close(self) -> None:
        """Close the connections. The next call opens new ones, and accepts the same identity only."""
        with self._connection_lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.end()

    def _start(self, batch: list[EditSample]) -> Future[Scores]:
        connection = self._connect()
        return connection.loop.submit(self._score_batch(connection, batch))

    async def _score_batch(self, connection: _Connection, batch: list[EditSample]) -> Scores:
        start = time.monotonic()
        if connection.replicas.reward_info is None and batch:
            try:
                async with timeout(None if self.deadline_s is None else self.deadline_s + RESPONSE_GRACE_S):
                    await connection.replicas.connect(start)
            except ServersUnreachable as error:
                return self._unreached(batch, start, str(error))
            except TIMEOUTS:
                reason = f"not scored within {self.deadline_s:g} s: {connection.replicas.problems()}"
                return self._unreached(batch, start, reason, is_late=True)
        if connection.replicas.reward_info is not None:
            require_fields(connection.replicas.reward_info.card, batch)
        dispatcher = Dispatcher(
            *(connection.replicas, connection.transport, connection.slots, connection.received),
            detail=self.detail,
            image_encoding=self.image_encoding,
            reward=self.reward,
            timeout_s=self.timeout_s,
            deadline_s=self.deadline_s,
            retry_failed=self.on_failures == "wait",
            call_start=start,
        )
        nonce = uuid.uuid4().hex
        chunks = self._chunk_indices(connection.replicas, batch)
        tasks = (
            dispatcher.scores(f"{nonce}/{chunk_index}", [batch[index] for index in chunk])
            for chunk_index, chunk in enumerate(chunks)
        )
        all_scores: list[Score | None] = [None] * len(batch)
        for chunk, scores in zip(chunks, await asyncio.gather(*tasks), strict=True):
            for index, score in zip(chunk, scores, strict=True):
                all_scores[index] = score
        complete = tuple(score for score in all_scores if score is not None)
        info = connection.replicas.reward_info
        stats = dispatcher.stats.stats(time.monotonic() - start)
        return Scores(complete, tuple(sample.id for sample in batch), stats, "" if info is None else info.signature)

    def _unreached(self, batch: Sequence[EditSample], start: float, reason: str, *, is_late: bool = False) -> Scores:
        """The scores of a call without any server. Raises `TooManyFailures`, unless failures are let pass."""
        ids = tuple(sample.id for sample in batch)
        stats = DispatchStats(late=list(ids) if is_late else []).stats(time.monotonic() - start)
        scores = Scores((Score.failed(reason, cause="infrastructure"),) * len(batch), ids, stats, "")
        if self.on_failures != "none":
            raise TooManyFailures(reason, scores)
        return scores

    def _chunk_indices(self, replicas: ReplicaPool, batch: Sequence[EditSample]) -> list[list[int]]:
        """Indices of the samples that are sent together: groups stay together, and go to their server."""
        groups: dict[str, list[int]] = {}
        for index, sample in enumerate(batch):
            groups.setdefault(sample.group, []).append(index)
        by_server: dict[str, list[int]] = {}
        for group, indices in groups.items():
            by_server.setdefault(replicas.order(group)[0].url, []).extend(indices)
        return [
            indices[start : start + self.chunk_size]
            for indices in by_server.values()
            for start in range(0, len(indices), self.chunk_size)
        ]

    # -- failures -----------------------------------------------------------------------------------------------------

    def _check_failures(self, scores: Scores) -> Scores:
        for score in scores:
            self._record(score, scores)
        return scores

    def _record(self, score: Score, scores: Sequence[Score]) -> None:
        self._window.add(score)
        if self.on_failures != "none" and score.status == "failed" and self._window.exceeded:
            raise TooManyFailures(self._window.reset_with_reason(score), scores)

    def _connect(self) -> _Connection:
        with self._connection_lock:
            if (
                self._connection is None
                or self._connection.pid != os.getpid()
                or not self._connection.loop.thread.is_alive()
            ):
                loop = background_loop()
                self._connection = loop.submit(_open_connection(self, loop)).result()
                weakref.finalize(self, self._connection.end).atexit = False
            return self._connection


@dataclass(frozen=True)
class _Connection:
    loop: BackgroundLoop
    transport: Transport
    replicas: ReplicaPool
    slots: asyncio.Semaphore
    received: FailureWindow
    pid: int

    def end(self) -> None:
        """Close the connections, if this is still their process."""
        if self.pid == os.getpid() and self.loop.loop.is_running():
            self.loop.submit(self.replicas.close())


async def _open_connection(client: RemoteReward, loop: BackgroundLoop) -> _Connection:
    max_requests = client.max_concurrency * len(client.urls)
    transport = Transport(client.urls, token_env=client.token_env, connections=max_requests + len(client.urls))
    replicas = ReplicaPool(
        client.urls,
        transport,
        reward=client.reward,
        identity=client.required_identity or client._known_identity,
        on_identity=client._keep_identity,
        outage_timeout_s=client.outage_timeout_s,
    )
    return _Connection(
        loop, transport, replicas, asyncio.Semaphore(max_requests), FailureWindow(client.max_failure_rate), os.getpid()
    )


def _rebuild(urls: tuple[str, ...], options: dict[str, Any]) -> RemoteReward:
    return RemoteReward(urls, **options)
