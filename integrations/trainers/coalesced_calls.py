"""Concurrent calls with one row each, as few calls with many rows.

    calls = CoalescedCalls(score_rows)  # rows -> a result or an exception for each, in order
    result = await calls(row)  # in any event loop of any thread

For trainers that score a sample at a time and many at once: a judge is asked in batches.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic, sleep
from typing import Generic, TypeVar

Row = TypeVar("Row")
Result = TypeVar("Result")


class CoalescedCalls(Generic[Row, Result]):
    """Gathers calls until none has come for `quiet_s`, or for `longest_s` in all, and runs them together in a thread.

    run: from rows to a result, or an exception that its call raises, for each of them in order. What `run` itself
    raises is raised by all calls. concurrency: of `run`; while all are under way, calls wait, and go together then. A
    call that is cancelled before it is run is left out; later ones lose their result only.
    """

    def __init__(
        self,
        run: Callable[[list[Row]], Sequence[Result | Exception]],
        *,
        quiet_s: float = 0.01,
        longest_s: float = 0.1,
        concurrency: int = 4,
    ) -> None:
        self._run = run
        self._quiet_s = quiet_s
        self._longest_s = longest_s
        self._lock = threading.Lock()
        self._waiting: list[tuple[Row, Future[Result]]] = []
        self._pool = ThreadPoolExecutor(concurrency, "coalesced-calls")

    async def __call__(self, row: Row) -> Result:
        future: Future[Result] = Future()
        with self._lock:
            if not self._waiting:  # what is submitted takes all that wait by then
                self._pool.submit(self._run_waiting)
            self._waiting.append((row, future))
        return await asyncio.wrap_future(future)

    def _run_waiting(self) -> None:
        self._wait_for_more()
        with self._lock:
            calls, self._waiting = self._waiting, []
        calls = [call for call in calls if call[1].set_running_or_notify_cancel()]
        if not calls:
            return
        try:
            results = list(zip(calls, self._run([row for row, _ in calls]), strict=True))
        except BaseException as error:  # noqa: BLE001  (it is the callers', who would wait for ever)
            for _, future in calls:
                future.set_exception(error)
            return
        for (_, future), result in results:
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)

    def _wait_for_more(self) -> None:
        until, seen = monotonic() + self._longest_s, -1
        while len(self._waiting) > seen and monotonic() < until:
            seen = len(self._waiting)
            sleep(self._quiet_s)
