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

_stops: weakref.WeakKeyDictionary[threading.Thread, Callable[[], object]] = weakref.WeakKeyDictionary()
_changing = threading.Lock()


def started(thread: threading.Thread, stop: Callable[[], object]) -> threading.Thread:
    """Start a daemon thread that `stop` asks to end; called when the process exits, perhaps not for the first time."""
    with _changing:
        _stops[thread] = stop
    thread.start()
    return thread


@atexit.register
def _leave() -> None:
    with _changing:
        living = [(thread, stop) for thread, stop in _stops.items() if thread.is_alive()]
    for _, stop in living:
        stop()
    until = time.monotonic() + _PATIENCE_S
    for thread, _ in living:
        thread.join(max(0.0, until - time.monotonic()))
