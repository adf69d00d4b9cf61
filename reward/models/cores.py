"""Work for all cores of the CPU, done in turn by one thread of this process.

A model on the CPU uses every core. Two at once get in each other's way; and OpenMP, which torch computes with there,
keeps threads of its own for every thread that calls it, which wait less eagerly once there are more of them than cores:
models called from a thread each are a tenth slower than from one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


def in_turn(work: Callable[[], T]) -> T:
    """What the work returns or raises. Waits for the work of others before it; work may ask for more in turn."""
    global _thread  # noqa: PLW0603  (one for the process)
    if threading.current_thread() is _thread:
        return work()
    with _LOCK:
        if _thread is None or not _thread.is_alive():  # a fork has none
            # A daemon: work that hangs cannot keep the process from exiting.
            _thread = threading.Thread(target=_work, name="editcritic cores", daemon=True)
            _thread.start()
    done: Future[T] = Future()
    _JOBS.put((work, done))
    return done.result()


def _work() -> None:
    while True:
        work, done = _JOBS.get()
        try:
            done.set_result(work())
        except BaseException as error:  # for who waits
            done.set_exception(error)
        del work, done  # a thread that waits for work pins no pictures


_LOCK = threading.Lock()
_thread: threading.Thread | None = None
_JOBS: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
