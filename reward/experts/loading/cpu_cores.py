"""A queue of jobs that use all CPU cores, executed by one thread of this process.

A model on the CPU uses every core, so two at once slow each other down. OpenMP, torch's CPU backend, also keeps a
thread pool for each calling thread, and these wait passively once there are more threads than cores: models called
from a thread each are 10% slower than from one thread.
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

from ...engine.workers import start_daemon
from ...forks import at_fork

T = TypeVar("T")


def run_in_turn(compute: Callable[[], T], deadline_s: float = math.inf) -> T:
    """The result or exception of `compute`, which waits for earlier jobs; a job may call this function itself.
    deadline_s: a job that takes longer, in seconds, counts as hung: a new thread runs the jobs behind it. The hung job
    continues, and its caller still gets the result if it ever returns."""
    if isinstance(threading.current_thread(), _CpuThread):
        return compute()
    job = _CpuJob(compute, deadline_s)
    with _CHANGED:
        _JOBS.append(job)
        _CHANGED.notify_all()
        while not job.done.done():
            _CHANGED.wait(_wait_seconds())
    return job.done.result()


@dataclass(slots=True, eq=False)
class _CpuJob(Generic[T]):
    compute: Callable[[], T]
    deadline_s: float
    done: Future[T] = field(default_factory=Future)


class _CpuThread(threading.Thread):
    """deadline: when the running job counts as hung."""

    def __init__(self) -> None:
        # A daemon: a hung job does not keep the process from exiting.
        super().__init__(name="editcritic cores", daemon=True)
        self.deadline = math.inf

    def run(self) -> None:
        while True:
            with _CHANGED:
                self.deadline = math.inf
                _CHANGED.notify_all()
                if _worker is not self:
                    return
                _CHANGED.wait_for(lambda: _JOBS or _worker is not self)
                if not _JOBS:
                    return
                job = _JOBS.popleft()
                self.deadline = time.monotonic() + job.deadline_s
                _CHANGED.notify_all()
            try:
                job.done.set_result(job.compute())
            except BaseException as error:  # raised again in the caller
                job.done.set_exception(error)
            del job  # an idle thread holds no references to images

    def dismiss(self) -> None:
        """Stop the thread when its job ends."""
        global _worker  # noqa: PLW0603
        with _CHANGED:
            _worker = None
            _CHANGED.notify_all()


def _wait_seconds() -> float | None:
    """Start a thread if none is working. Returns the seconds until the running job counts as hung."""
    global _worker  # noqa: PLW0603  (one for the process)
    now = time.monotonic()
    if _worker is None or not _worker.is_alive() or _worker.deadline <= now:
        _worker = _CpuThread()
        start_daemon(_worker, _worker.dismiss)
    return None if math.isinf(_worker.deadline) else min(_worker.deadline - now, threading.TIMEOUT_MAX)


def _in_child(_: object) -> None:
    """The thread is not in the child, and neither are those that wait for the jobs."""
    global _CHANGED, _worker
    _CHANGED, _worker = threading.Condition(), None
    _JOBS.clear()


at_fork(run_in_turn, _in_child)

_CHANGED = threading.Condition()  # guards the variables below; notified when a job is added, begins or ends
_JOBS: deque[_CpuJob[Any]] = deque()
_worker: _CpuThread | None = None
