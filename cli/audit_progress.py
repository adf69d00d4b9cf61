"""How far an audit is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def audit_progress(
    label: str, edits: int, stop: Callable[[], str]
) -> Iterator[tuple[Callable[[], None], Callable[[], str]]]:
    """A status on a terminal, elsewhere a line now and then. Yields two functions: one to call after each edit, and
    `stop`, which is asked between batches and may be the only sign of life for long.
    """
    from ..benchmarks.run.run_progress import RunProgress, progress_reporter

    begun, done = time.monotonic(), 0

    def step() -> None:
        nonlocal done
        done += 1
        show()

    def show() -> None:
        watch(RunProgress(done, edits, 0, time.monotonic() - begun))

    def stop_reason() -> str:
        show()
        return stop()

    with progress_reporter(label) as watch:
        show()
        yield step, stop_reason
