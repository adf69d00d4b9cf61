"""Asking again: pauses, the clock of an outage, and the share of failures, for all that talks to what may fail.

Whoever talks to the failing thing owns the outage: a `Reward` that of its experts, a `RemoteReward` that of its
servers. What calls them asks nothing again; adapters apply the same policy to a callable that waits for nothing.
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections import deque
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from .score import Score

log = logging.getLogger("editcritic.outages")
WINDOW, MIN_WINDOW = 64, 16
"""Scores among which failures are counted, at most and at least."""
_WARNING_INTERVAL_S = 60.0
_RNG = random.Random()  # its own: a trainer's seeds stay


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Attempts, and the pauses between them in seconds: doubled with each up to the longest, with random jitter: what
    failed together is not asked again together. attempts: in all; None: as many as time allows.
    """

    first_pause_s: float = 1.0
    longest_pause_s: float = 15.0
    attempts: int | None = None

    def pause(self, retries: int) -> float:
        """Seconds before the next attempt, after so many retries."""
        longest: float = min(self.first_pause_s * 2.0 ** min(retries, 64), self.longest_pause_s)
        return longest * _RNG.uniform(0.5, 1.0)

    def allows(self, attempts: int) -> bool:
        """Whether there may be another attempt after so many."""
        return self.attempts is None or attempts < self.attempts


OUTAGE = RetryPolicy()
"""For scores that infrastructure failed."""


class Outage:
    """The clock of an outage, shared by all that wait for the same thing; also says in the log what is waited for.
    what: is waited for. timeout_s: how long an outage lasts at most. A call that begins in one has this time from its
    own beginning. Thread-safe.
    """

    def __init__(self, what: str, timeout_s: float) -> None:
        self.what, self.timeout_s = what, timeout_s
        self._since: float | None = None
        self._warned_at = 0.0
        self.ended_at = float("-inf")
        """When the last one ended, by `time.monotonic`."""
        self._lock = threading.Lock()

    def begin(self, reason: str, call_start: float, since: float | None = None) -> None:
        """It fails, since now or since an earlier time; without effect while it lasts, but for a warning a minute."""
        with self._lock:
            now = time.monotonic()
            if self._since is None:
                self._since, self._warned_at = now if since is None else since, -_WARNING_INTERVAL_S
            if now >= self._warned_at + _WARNING_INTERVAL_S:
                left = max(self._since, call_start) + self.timeout_s - now
                log.warning(
                    "%s: outage for %.0f s, waiting until %s (outage_timeout_s=%g): %s",
                    self.what,
                    now - self._since,
                    time.strftime("%H:%M:%S", time.localtime(time.time() + max(left, 0.0))),
                    self.timeout_s,
                    reason,
                )
                self._warned_at = now

    def end(self) -> None:
        """It is answered again."""
        with self._lock:
            if self._since is not None:
                log.warning("%s: the outage is over after %.0f s", self.what, time.monotonic() - self._since)
                self._since, self.ended_at = None, time.monotonic()

    def remaining(self, call_start: float, since: float | None = None) -> float:
        """Seconds that a call may still wait; infinite while there is no outage. call_start: when the call began.
        since: of an outage that is not known as one yet.
        """
        begun = min((known for known in (self._since, since) if known is not None), default=None)
        if begun is None:
            return math.inf
        return self.timeout_s - (time.monotonic() - max(begun, call_start))


class FailureWindow:
    """The share of failures among the last 64 scores, and whether it is above `max_rate`, of at least 16."""

    def __init__(self, max_rate: float) -> None:
        self.max_rate = max_rate
        self._recent: deque[bool] = deque(maxlen=WINDOW)

    def add(self, score: Score) -> None:
        self._recent.append(score.status == "failed")

    def forgive(self) -> None:
        """The last one was scored after all."""
        self._recent[-1] = False

    def clear(self) -> None:
        self._recent.clear()

    @property
    def exceeded(self) -> bool:
        return len(self._recent) >= MIN_WINDOW and self._share > self.max_rate

    def reset_with_reason(self, last: Score) -> str:
        """Empty the window. What to say of the share that was above the limit; last: the score that exceeded it."""
        message = f"{self._share:.0%} of the last scores failed (allowed: {self.max_rate:.0%}); the last: {last.reason}"
        self.clear()
        return message

    @property
    def _share(self) -> float:
        return sum(self._recent) / max(1, len(self._recent))


def failed_rows(scores: Sequence[Score | None], *, infrastructure: bool = False) -> list[int]:
    """The positions of failed scores, or of those that nothing but infrastructure can have failed."""
    return [
        row
        for row, score in enumerate(scores)
        if score is not None and score.status == "failed" and (not infrastructure or score.cause == "infrastructure")
    ]


def retry_rounds(
    scores: Sequence[Score], until: float, *, skip: Container[int] = (), max_rate: float = 0.0
) -> Iterator[tuple[float, list[int]]]:
    """A pause in seconds and the rows to ask again after it, in rounds; the caller puts their new scores into `scores`.
    Failed rows are asked again at once, and then, after pauses, those that infrastructure failed. until: by
    `time.monotonic`, when the last of these rounds may begin; they are for more than `max_rate` of all rows only. skip:
    rows that are never asked again.
    """
    retries, pause = 0, 0.0
    while rows := [row for row in failed_rows(scores, infrastructure=retries > 0) if row not in skip]:
        if retries:
            pause = OUTAGE.pause(retries - 1)
            if time.monotonic() + pause >= until or len(rows) <= max_rate * len(scores):
                return
        yield pause, rows
        retries += 1
