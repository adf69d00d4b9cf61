"""Work for all cores of the CPU, done in turn by one thread of this process.

A model on the CPU uses every core. Two at once get in each other's way; and OpenMP, which torch computes with there,
keeps threads of its own for every thread that calls it, which wait less eagerly once there are more of them than cores:
models called from a thread each are a tenth slower than from one.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ..threads import start

T = TypeVar("T")


def in_turn(work: Callable[[], T], deadline_s: float = math.inf) -> T:
    """What the work returns or raises. Waits for the work of others before it; work may ask for more in turn.

    deadline_s: work that takes longer, in seconds, counts as hung: a fresh thread does what waits behind it. It goes on
    beside that, and who asked for it still gets its result, should it ever come back.
    """
    if isinstance(threading.current_thread(), _Worker):
        return work()
    job = _Job(work, deadline_s)
    with _CHANGED:
        _JOBS.append(job)
        _CHANGED.notify_all()
        while not job.done.done():
            _CHANGED.wait(_patience())
    return job.done.result()


@dataclass(slots=True, eq=False)
class _Job(Generic[T]):
    work: Callable[[], T]
    deadline_s: float
    done: Future[T] = field(default_factory=Future)


class _Worker(threading.Thread):
    """until: when what it does counts as hung."""

    def __init__(self) -> None:
        # A daemon: work that hangs cannot keep the process from exiting.
        super().__init__(name="editcritic cores", daemon=True)
        self.until = math.inf

    def run(self) -> None:
        while True:
            with _CHANGED:
                self.until = math.inf
                _CHANGED.notify_all()
                if _worker is not self:
                    return
                _CHANGED.wait_for(lambda: _JOBS or _worker is not self)
                if not _JOBS:
                    return
                job = _JOBS.popleft()
                self.until = time.monotonic() + job.deadline_s
                _CHANGED.notify_all()
            try:
                job.done.set_result(job.work())
            except BaseException as error:  # for who waits
                job.done.set_exception(error)
            del job  # a thread that waits for work pins no pictures

    def dismiss(self) -> None:
        """Nothing more comes."""
        global _worker  # noqa: PLW0603
        with _CHANGED:
            _worker = None
            _CHANGED.notify_all()


def _patience() -> float | None:
    """Sees to it that a thread works; how long to wait, in seconds, before it has to be seen to again."""
    global _worker  # noqa: PLW0603  (one for the process)
    now = time.monotonic()
    if _worker is None or not _worker.is_alive() or _worker.until <= now:  # a fork has none
        _worker = _Worker()
        start(_worker, _worker.dismiss)
    return None if math.isinf(_worker.until) else min(_worker.until - now, threading.TIMEOUT_MAX)


_CHANGED = threading.Condition()
"""Held to touch what follows; told of every job that comes, begins and ends."""
_JOBS: deque[_Job[Any]] = deque()
_worker: _Worker | None = None
