"""Daemon threads that are stopped before the process exits.

A hung daemon cannot keep the process from exiting. But a daemon that is active during interpreter shutdown is ended
where it next needs the interpreter; inside a C++ library (for example while it frees a model's weights) that aborts
the process. So the exit waits shortly for threads that can end.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections.abc import Callable

from ..forks import at_fork

_JOIN_TIMEOUT_S = 2.0
"""How long the exit waits for all threads together."""

_stops: weakref.WeakKeyDictionary[threading.Thread, weakref.WeakMethod[Callable[[], None]]]
_stops = weakref.WeakKeyDictionary()
_stops_lock = threading.Lock()


def start_daemon(thread: threading.Thread, stop: Callable[[], None]) -> None:
    """Start a daemon thread. stop: a bound method that ends it; called at exit, possibly again, if its object still
    exists.
    """
    with _stops_lock:
        _stops[thread] = weakref.WeakMethod(stop)
    thread.start()


def _in_child(_: object) -> None:
    """A forked child has none of these threads."""
    global _stops, _stops_lock
    _stops, _stops_lock = weakref.WeakKeyDictionary(), threading.Lock()


at_fork(start_daemon, _in_child)


@atexit.register
def _stop_all() -> None:
    with _stops_lock:
        alive = [(thread, reference) for thread, reference in _stops.items() if thread.is_alive()]
    for _, reference in alive:
        stop = reference()
        if stop is not None:
            stop()
    deadline = time.monotonic() + _JOIN_TIMEOUT_S
    for thread, _ in alive:
        thread.join(max(0.0, deadline - time.monotonic()))
