"""Signals for processes that a test starts and ends by one."""

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def default_signals() -> Iterator[None]:
    """Processes that are started inside handle Ctrl-C, SIGTERM and SIGHUP, however the tests were started.

    What a shell or nohup starts in the background ignores signals, and so does all that it starts in turn.
    """
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_DFL) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
