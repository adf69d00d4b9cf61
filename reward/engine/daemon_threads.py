"""Daemon threads that are asked to end before the process does.

A daemon cannot keep the process from exiting, whatever it hangs in. But one that is at work while the interpreter is
torn down is ended wherever it next needs the interpreter; inside of a library in C++, say while it frees the weights of
a model, that aborts the process. So those that can end are waited for, for a moment.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections.abc import Callable

_PATIENCE_S = 2.0
"""How long the exit waits for all threads together."""

_stops: weakref.WeakKeyDictionary[threading.Thread, weakref.WeakMethod[Callable[[], None]]]
_stops = weakref.WeakKeyDictionary()
_changing = threading.Lock()


def start(thread: threading.Thread, stop: Callable[[], None]) -> None:
    """Start a daemon thread. stop: a method that asks it to end; called, not for the first time perhaps, when the
    process exits, if what it belongs to is still there.
    """
    with _changing:
        _stops[thread] = weakref.WeakMethod(stop)
    thread.start()


@atexit.register
def _leave() -> None:
    with _changing:
        living = [(thread, stop) for thread, stop in _stops.items() if thread.is_alive()]
    for _, known in living:
        stop = known()
        if stop is not None:
            stop()
    until = time.monotonic() + _PATIENCE_S
    for thread, _ in living:
        thread.join(max(0.0, until - time.monotonic()))
