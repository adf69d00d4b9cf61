"""Where experts are called, in threads or event loops: the boundary at which what they raise becomes a `Failure`."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Protocol

from .expert import AsyncExpert, Expert, ExpertDown
from .outcomes import Abstention, Failure
from .query import BadAnswer, Outcome, Query
from .threads import start
from .timeouts import TIMEOUTS

_LOST: tuple[type[Exception], ...] = (ConnectionError, *TIMEOUTS)
_DOWN: tuple[type[Exception], ...] = (ExpertDown, *_LOST)


@dataclass(slots=True)
class Answered:
    """From an expert thread. `call` says which call; None for `outcomes` is a sign of life between two halves."""

    expert: str
    call: int
    outcomes: list[Outcome] | None
    calls: int = 0
    seconds: float = 0.0
    down: str = ""
    crashes: int = 0


class Worker(Protocol):
    """Takes one call at a time to an expert, and reports what came of it."""

    def start(self, number: int, queries: list[Query[Any]]) -> None:
        """Begin a call."""

    def abandon(self) -> bool:
        """Nobody waits for the call any more. Whether the worker is free for another."""

    def stop(self) -> None:
        """No further call will come."""


class ExpertThread:
    """Runs one expert's calls. A daemon: a hung call cannot keep the process from exiting.

    name: the expert's id when the engine met it, which its reports bear.
    """

    def __init__(self, expert: Expert, name: str, report: Callable[[Answered], None], breaker: int) -> None:
        self._jobs: SimpleQueue[tuple[int, list[Query[Any]]] | None] = SimpleQueue()
        self._expert = expert
        self._name = name
        self._report = report
        self._breaker = breaker
        self._calls = 0
        self._crashes = 0
        self._loaded = False
        start(threading.Thread(target=self._work, name=f"editcritic {name}", daemon=True), self.stop)

    def start(self, number: int, queries: list[Query[Any]]) -> None:
        self._jobs.put((number, queries))

    def abandon(self) -> bool:
        self.stop()  # once it comes back from the call it hangs in
        return False

    def stop(self) -> None:
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            number, queries = job
            self._calls = self._crashes = 0
            down = ""
            start = time.perf_counter()
            try:
                self._load()
                with _no_gradients():
                    outcomes = self._answer(number, queries) if queries else []
            except ExpertDown as error:
                down = str(error) or "down"
                outcomes = [Failure(down)] * len(queries)
            seconds = time.perf_counter() - start
            self._report(Answered(self._name, number, outcomes, self._calls, seconds, down, self._crashes))
            del job, queries, outcomes  # a thread that waits for work pins no pictures

    def _load(self) -> None:
        if not self._loaded:
            _load(self._expert)
            self._loaded = True

    def _answer(self, number: int, queries: list[Query[Any]]) -> list[Outcome]:
        """Ask, and halve the batch until whoever makes the expert raise stands alone."""
        if self._calls:
            self._report(Answered(self._name, number, None))
        self._calls += 1
        try:
            return _checked(queries, self._expert(tuple(queries)))
        except ExpertDown:
            raise
        except _LOST as error:
            raise ExpertDown(say(error)) from error
        except BaseException as error:
            if len(queries) == 1:
                self._crashes += 1
                return [Failure(say(error))]
        middle = len(queries) // 2
        outcomes = self._answer(number, queries[:middle])
        last = outcomes[-1]
        if self._crashes >= self._breaker and all(isinstance(outcome, Failure) for outcome in outcomes):
            # Hopeless: the rest is not tried one by one.
            return outcomes + [Failure(last.reason if isinstance(last, Failure) else "")] * (len(queries) - middle)
        return outcomes + self._answer(number, queries[middle:])


class ExpertLoop:
    """The event loop that all calls of one `AsyncExpert` share, in a thread of its own. name: as of `ExpertThread`."""

    def __init__(self, expert: AsyncExpert, name: str, report: Callable[[Answered], None]) -> None:
        self._expert = expert
        self._name = name
        self._report = report
        self._loaded = False
        self._loop = asyncio.new_event_loop()
        self._stopped = False
        start(threading.Thread(target=self._run, name=f"editcritic {name}", daemon=True), self.stop)

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    def begin(self, number: int, queries: list[Query[Any]]) -> Future[None]:
        return asyncio.run_coroutine_threadsafe(self._work(number, queries), self._loop)

    async def _work(self, number: int, queries: list[Query[Any]]) -> None:
        down, crashes, calls = "", 0, 0
        start = time.perf_counter()
        try:
            if not self._loaded:
                _load(self._expert)
                self._loaded = True
            calls = len(queries)
            outcomes = _checked(queries, [await self._expert.answer(query) for query in queries])
        except _DOWN as error:
            down = (str(error) or "down") if isinstance(error, ExpertDown) else say(error)
            outcomes = [Failure(down)] * len(queries)
        except Exception as error:
            crashes = 1
            outcomes = [Failure(say(error))] * len(queries)
        seconds = time.perf_counter() - start
        self._report(Answered(self._name, number, outcomes, calls, seconds, down, crashes))

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


class LoopSeat:
    """One of the calls an `AsyncExpert` may have under way."""

    def __init__(self, loop: ExpertLoop) -> None:
        self._loop = loop
        self._call: Future[None] | None = None

    def start(self, number: int, queries: list[Query[Any]]) -> None:
        self._call = self._loop.begin(number, queries)

    def abandon(self) -> bool:
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
    except BaseException as error:  # an exit must not end the thread unheard either
        raise ExpertDown(f"could not be loaded: {say(error)}") from error


def _checked(queries: Sequence[Query[Any]], answers: object) -> list[Outcome]:
    if not isinstance(answers, Sequence) or len(answers) != len(queries):
        got = str(len(answers)) if isinstance(answers, Sequence) else type(answers).__name__
        raise BadAnswer(f"{len(queries)} queries were asked, {got} answers came back")
    checked: list[Outcome] = []
    for query, answer in zip(queries, answers, strict=True):
        try:
            if isinstance(answer, Abstention | Failure):
                if not answer.reason:
                    raise BadAnswer(f"{type(answer).__name__} without a reason")
            else:
                query.check(answer)
        except Exception as error:  # what is malformed deep inside trips the check itself
            checked.append(Failure(str(error) if isinstance(error, BadAnswer) else f"malformed answer: {say(error)}"))
        else:
            checked.append(answer)
    return checked


def say(error: BaseException) -> str:
    """An exception in a line."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _no_gradients() -> contextlib.AbstractContextManager[Any]:
    """`inference_mode` does not cross threads, so it is entered here; torch is not imported for it."""
    inference_mode = getattr(sys.modules.get("torch"), "inference_mode", None)
    if inference_mode is None:  # not imported, or another thread is just importing it
        return contextlib.nullcontext()
    mode: contextlib.AbstractContextManager[Any] = inference_mode()
    return mode
