"""Workers call experts in threads or event loops, and convert exceptions to a `Failure`."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any, Protocol

from ..forks import at_fork
from ..image import ImageError
from ..queries.answers import Outcome
from ..queries.expert import AsyncExpert, Expert, ExpertDown
from ..queries.kinds import InvalidAnswer, Query
from ..queries.outcomes import Abstention, Failure
from ..timeout_compat import TIMEOUTS

_CONNECTION_ERRORS: tuple[type[Exception], ...] = (ConnectionError, *TIMEOUTS)
_EXPERT_DOWN_ERRORS: tuple[type[Exception], ...] = (ExpertDown, *_CONNECTION_ERRORS)
RUNNING_CALL: ContextVar[ExpertCall | None] = ContextVar("editcritic_expert_call", default=None)
"""The call that this code is part of: see `ExpertThread` and `ExpertLoop`."""
_JOIN_TIMEOUT_S = 2.0  # how long the exit waits for all threads together
_stops_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class ExpertCall:
    """A call of an expert. report: how its worker reports to the scheduler. blocks_loop: the code that waits runs in
    the expert's event loop, so that all other calls wait too.
    """

    report: Callable[[Any], None]
    expert: str
    number: int
    blocks_loop: bool = False


def calling(report: Callable[[Any], None]) -> ExpertCall | None:
    """The call that this code is part of, if it is one of the scheduler that gets these reports."""
    call = RUNNING_CALL.get()
    if call is None or call.report != report:
        return None
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return call
    return replace(call, blocks_loop=True)


@dataclass(slots=True)
class CallReport:
    """Result of a call. outcomes: None for a heartbeat between the halves of a bisected batch."""

    expert: str
    call_number: int
    outcomes: list[Outcome] | None
    calls: int = 0
    seconds: float = 0.0
    down_reason: str = ""
    crashes: int = 0


class Worker(Protocol):
    """Runs one call to an expert at a time, and reports its result."""

    def start(self, number: int, queries: list[Query[Any]]) -> None:
        """Start a call."""

    def detach(self) -> bool:
        """Abandon the call. Returns whether the worker is free for another call."""

    def stop(self) -> None:
        """End the worker after its current call."""


class ExpertThread:
    """Runs one expert's calls. A daemon: a hung call cannot keep the process from exiting. name: the expert's id at its
    first use in the engine; identifies it in reports.
    """

    def __init__(self, expert: Expert, name: str, report: Callable[[CallReport], None], breaker: int) -> None:
        self._jobs: SimpleQueue[tuple[int, list[Query[Any]]] | None] = SimpleQueue()
        self._expert = expert
        self._name = name
        self._report = report
        self._breaker = breaker
        self._calls = 0
        self._crashes = 0
        self._isolated: list[Failure] = []
        self._loaded = False
        start_daemon(threading.Thread(target=self._work, name=f"editcritic {name}", daemon=True), self.stop)

    def start(self, number: int, queries: list[Query[Any]]) -> None:
        self._jobs.put((number, queries))

    def detach(self) -> bool:
        self.stop()  # after the hung call returns, if it does
        return False

    def stop(self) -> None:
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            number, queries = job
            RUNNING_CALL.set(ExpertCall(self._report, self._name, number))
            self._calls = self._crashes = 0
            self._isolated.clear()
            down = ""
            start = time.perf_counter()
            try:
                self._load()
                with _no_gradients():
                    outcomes = self._without_isolated(self._answer(number, queries)) if queries else []
            except ExpertDown as error:
                down = str(error) or "down"
                outcomes = [Failure(down, infrastructure=True)] * len(queries)
            seconds = time.perf_counter() - start
            self._report(CallReport(self._name, number, outcomes, self._calls, seconds, down, self._crashes))
            del job, queries, outcomes  # an idle thread must not keep images in memory

    def _load(self) -> None:
        if not self._loaded:
            _load(self._expert)
            self._loaded = True

    def _answer(self, number: int, queries: list[Query[Any]]) -> list[Outcome]:
        """Call the expert; on an exception, bisect the batch to isolate the queries that cause it."""
        if self._calls:
            self._report(CallReport(self._name, number, None))
        self._calls += 1
        try:
            return _validated(queries, self._expert(tuple(queries)))
        except ExpertDown:
            raise
        except _CONNECTION_ERRORS as error:
            raise ExpertDown(format_exception_line(error)) from error
        except BaseException as error:
            if len(queries) == 1 and isinstance(error, ImageError):
                return [_unreadable(error)]
            if len(queries) == 1:
                self._crashes += 1
                failure = Failure(format_exception_line(error), infrastructure=True)
                if not (isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"):
                    self._isolated.append(failure)
                return [failure]
        middle = len(queries) // 2
        outcomes = self._answer(number, queries[:middle])
        last = outcomes[-1]
        if self._crashes >= self._breaker and all(isinstance(outcome, Failure) for outcome in outcomes):
            # The breaker limit is reached: the rest is not tried.
            reason = last.reason if isinstance(last, Failure) else ""
            return outcomes + [Failure(reason, infrastructure=True)] * (len(queries) - middle)
        return outcomes + self._answer(number, queries[middle:])

    def _without_isolated(self, outcomes: list[Outcome]) -> list[Outcome]:
        """A query that crashes alone, in a batch with answers, may itself be the reason, and not the infrastructure."""
        if all(isinstance(outcome, Failure) for outcome in outcomes):
            return outcomes
        isolated = set(map(id, self._isolated))
        return [
            replace(outcome, infrastructure=False)
            if isinstance(outcome, Failure) and id(outcome) in isolated
            else outcome
            for outcome in outcomes
        ]


class ExpertLoop:
    """The event loop of all calls of one `AsyncExpert`, in its own thread. name: see `ExpertThread`."""

    def __init__(self, expert: AsyncExpert, name: str, report: Callable[[CallReport], None]) -> None:
        self._expert = expert
        self._name = name
        self._report = report
        self._loaded = False
        self._loop = asyncio.new_event_loop()
        self._stopped = False
        start_daemon(threading.Thread(target=self._run, name=f"editcritic {name}", daemon=True), self.stop)

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    def begin(self, number: int, queries: list[Query[Any]]) -> Future[None]:
        return asyncio.run_coroutine_threadsafe(self._work(number, queries), self._loop)

    async def _work(self, number: int, queries: list[Query[Any]]) -> None:
        RUNNING_CALL.set(ExpertCall(self._report, self._name, number))
        down, crashes, calls = "", 0, 0
        start = time.perf_counter()
        try:
            if not self._loaded:
                _load(self._expert)
                self._loaded = True
            calls = len(queries)
            outcomes = _validated(queries, [await self._expert.answer(query) for query in queries])
        except _EXPERT_DOWN_ERRORS as error:
            down = (str(error) or "down") if isinstance(error, ExpertDown) else format_exception_line(error)
            outcomes = [Failure(down, infrastructure=True)] * len(queries)
        except ImageError as error:
            outcomes = [_unreadable(error)] * len(queries)
        except Exception as error:
            crashes = 1
            outcomes = [Failure(format_exception_line(error), infrastructure=True)] * len(queries)
        seconds = time.perf_counter() - start
        self._report(CallReport(self._name, number, outcomes, calls, seconds, down, crashes))

    def stop(self) -> None:
        if not self._stopped:
            self._stopped = True
            asyncio.run_coroutine_threadsafe(self._close(), self._loop)

    async def _close(self) -> None:
        running = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        with contextlib.suppress(Exception):
            await self._expert.close()
        self._loop.stop()


class LoopWorker:
    """One of the concurrent calls of an `AsyncExpert`."""

    def __init__(self, loop: ExpertLoop) -> None:
        self._loop = loop
        self._call: Future[None] | None = None

    def start(self, number: int, queries: list[Query[Any]]) -> None:
        self._call = self._loop.begin(number, queries)

    def detach(self) -> bool:
        self.stop()
        return True

    def stop(self) -> None:
        if self._call is not None:
            self._call.cancel()


def _load(expert: Expert) -> None:
    try:
        expert.load()
    except ExpertDown:
        raise
    except BaseException as error:  # SystemExit, too, must be reported
        raise ExpertDown(f"could not be loaded: {format_exception_line(error)}") from error


def _unreadable(error: ImageError) -> Failure:
    """A picture that cannot be read any more: the expert has not crashed, and the edit may be the reason."""
    return Failure(format_exception_line(error))


def _validated(queries: Sequence[Query[Any]], answers: object) -> list[Outcome]:
    if not isinstance(answers, Sequence) or len(answers) != len(queries):
        got = f"{len(answers)} answers" if isinstance(answers, Sequence) else type(answers).__name__
        raise InvalidAnswer(f"expected a sequence of {len(queries)} answers, got {got}")
    outcomes: list[Outcome] = []
    for query, answer in zip(queries, answers, strict=True):
        try:
            if isinstance(answer, Abstention | Failure):
                if not answer.reason:
                    raise InvalidAnswer(f"{type(answer).__name__} without a reason")
            else:
                query.check(answer)
        except Exception as error:  # malformed contents may make the check itself raise
            outcomes.append(
                Failure(
                    str(error)
                    if isinstance(error, InvalidAnswer)
                    else f"malformed answer: {format_exception_line(error)}"
                )
            )
        else:
            outcomes.append(answer)
    return outcomes


def format_exception_line(error: BaseException) -> str:
    """An exception as one line."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _no_gradients() -> contextlib.AbstractContextManager[Any]:
    """`inference_mode` is thread-local, so it is entered here, if torch has been imported."""
    inference_mode = getattr(sys.modules.get("torch"), "inference_mode", None)
    if inference_mode is None:  # not imported, or being imported by another thread
        return contextlib.nullcontext()
    mode: contextlib.AbstractContextManager[Any] = inference_mode()
    return mode


# -- daemon threads ---------------------------------------------------------------------------------------------------
# A hung daemon cannot keep the process from exiting. But a daemon that is active during interpreter shutdown is ended
# where it next needs the interpreter; inside a C++ library (for example while it frees a model's weights) that aborts
# the process. So the exit waits shortly for threads that can end.


_stops: weakref.WeakKeyDictionary[threading.Thread, weakref.WeakMethod[Callable[[], None]]]
_stops = weakref.WeakKeyDictionary()


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
