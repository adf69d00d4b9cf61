"""The scheduler: the one thread that owns an engine's state.

It advances programs until they wait, drops what is asked twice and what is known, and gives each free expert the
largest batch of what is waiting.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any

from .answers import AnswerLog, LogError
from .asking import Ask, Failed, Gather, Unanswered
from .caller import Answered, ExpertLoop, ExpertThread, LoopSeat, Worker, say
from .desks import Call, Desk, Event, Prepare, Reload, Stop, Task
from .expert import AsyncExpert, Expert
from .image import ImageError
from .memory import Memory
from .outcomes import Abstention, Failure
from .query import Answer, Outcome, Query
from .score import Evidence, Score
from .stats import Stats


class Scheduler:
    """All state of an engine, touched by its one thread only (`snapshot` and `dead` read counters)."""

    def __init__(
        self, log: AnswerLog | None, memory_bytes: int, breaker: int, cooldown_s: float, reproducible: bool
    ) -> None:
        self.inbox: SimpleQueue[Event] = SimpleQueue()
        self.gate = threading.Lock()
        """Held to put tasks and to end: what came in after the end would wait for ever."""
        self.broken: BaseException | None = None
        self.desks: dict[str, Desk] = {}
        self._log = log
        self._memory = Memory(memory_bytes)
        self._breaker = breaker
        self._cooldown = cooldown_s
        self._reproducible = reproducible
        self._ready: deque[tuple[Task, Any]] = deque()
        self._calls = 0
        self._stats = Stats()
        self._tasks: set[Task] = set()

    def work(self) -> None:
        try:
            self._loop()
        except BaseException as error:  # a bug of ours: nobody may wait forever for a thread that is gone
            with self.gate:
                self.broken = error
            with contextlib.suppress(Empty):
                while True:
                    event = self.inbox.get_nowait()
                    self._tasks.update(event if isinstance(event, list) else ())
                    if isinstance(event, Prepare):
                        event.ready.set_result(_BROKEN)
            for task in self._tasks:
                if task.future is not None and not task.future.done():
                    task.future.set_exception(error)
            for call in self._under_way():
                call.prepared(_BROKEN)
            raise

    def _loop(self) -> None:
        while True:
            event = self._next_event()
            while event is not None:
                if isinstance(event, Stop):
                    self._end()
                    return
                self._handle(event)
                try:
                    event = self.inbox.get_nowait()
                except Empty:
                    event = None
            self._settle()
            self._expire()

    def _next_event(self) -> Event | None:
        deadlines = [call.deadline for desk in self.desks.values() for call in desk.running.values()]
        if not deadlines:
            return self.inbox.get()
        try:
            # At most an hour at a time: a deadline may be infinite, a timeout may not.
            return self.inbox.get(timeout=min(max(0.0, min(deadlines) - time.monotonic()), 3600.0))
        except Empty:
            return None

    def _handle(self, event: Event) -> None:
        match event:
            case list():
                for task in event:
                    if task.future is not None and task.future.set_running_or_notify_cancel():
                        self._stats.programs += 1
                        self._tasks.add(task)
                        self._ready.append((task, None))
            case Answered():
                self._take_answers(event)
            case Reload(expert) if expert in self.desks:
                desk = self.desks[expert]
                desk.dead, desk.crashes, desk.retry_at = "", 0, None
            case Prepare(expert, ready):
                self._prepare(expert, ready)
            case _:
                pass  # another chance for an expert that was never asked

    def _settle(self) -> None:
        """Advance whatever can be advanced, then hand out work; repeat until only experts can bring news."""
        while True:
            while self._ready:
                self._advance(*self._ready.popleft())
            for desk in self.desks.values():
                self._look_up(desk)
            if self._ready:
                continue
            for desk in self.desks.values():
                self._dispatch(desk)
            if not self._ready:
                return

    # -- programs -----------------------------------------------------------------------------------------------------

    def _advance(self, task: Task, value: Any) -> None:
        if not _wanted(task):
            with contextlib.suppress(BaseException):  # as in `_break`
                task.program.close()
            self._finish(task, Score.failed(_NOBODY))
            return
        try:
            request = task.program.send(value)
        except StopIteration as stop:
            self._finish(task, stop.value)
        except Unanswered as unanswered:
            status = Score.failed if isinstance(unanswered, Failed) else Score.abstained
            said = [outcome for outcome in unanswered.outcomes if isinstance(outcome, Failure) and outcome.raw]
            evidence = tuple(Evidence("said instead of an answer", text=failure.raw) for failure in said)
            self._finish(task, status(unanswered.reason or say(unanswered), evidence=evidence))
        except ImageError as error:  # a sample's trouble, not the metric's
            self._finish(task, Score.failed(str(error) or say(error)))
        except BaseException as error:  # an exit, too, is for who submitted the program, not for everybody else
            self._break(task, error)
        else:
            if isinstance(request, Ask) and all(isinstance(query, Query) for query in request.queries):
                self._ask(task, request)
            elif isinstance(request, Gather):
                task.outcomes = [None] * len(request.programs)
                task.missing = len(request.programs)
                for slot, program in enumerate(request.programs):
                    child = Task(program, task.experts, task.sample, parent=task, slot=slot)
                    self._ready.append((child, None))
            else:
                self._break(task, TypeError(f"a program must yield Ask (of queries) or Gather, got {request!r:.200}"))

    def _finish(self, task: Task, score: Any) -> None:
        if not isinstance(score, Score):
            self._break(task, TypeError(f"a program must return a Score, got {type(score).__name__}"))
        elif task.parent is not None:
            self._arrive(task.parent, task.slot, score)
        else:
            self._tasks.discard(task)
            assert task.future is not None
            task.future.set_result(score)

    def _break(self, task: Task, error: BaseException) -> None:
        while True:
            with contextlib.suppress(BaseException):  # whatever its `finally` raises, and it may be no generator at all
                task.program.close()
            if task.parent is None:
                break
            task = task.parent
        self._tasks.discard(task)
        assert task.future is not None
        if not task.future.done():
            task.future.set_exception(error)

    def _arrive(self, task: Task, slot: int, outcome: Any) -> None:
        task.outcomes[slot] = outcome
        task.missing -= 1
        if task.missing == 0:
            outcomes, task.outcomes = tuple(task.outcomes), []
            self._ready.append((task, outcomes))

    def _ask(self, task: Task, request: Ask) -> None:
        task.outcomes = [None] * len(request.queries)
        task.missing = len(request.queries)
        self._stats.asked += len(request.queries)
        for slot, query in enumerate(request.queries):
            role = request.role or query.role
            try:
                desk = self._desk(task.experts, role)
            except Exception as error:
                self._arrive(task, slot, Failure(f"nobody can be asked as {role!r}: {say(error)}"))
                continue
            if desk is None:
                bound = ", ".join(sorted(task.experts)) or "none"
                self._arrive(task, slot, Failure(f"no expert is bound to the role {role!r} (bound: {bound})"))
                continue
            try:
                adapted = desk.expert.adapt(query, task.sample)
                digest = "" if isinstance(adapted, Abstention) else adapted.digest
            except ImageError as error:  # a picture that cannot be read any more
                self._arrive(task, slot, Failure(str(error)))
            except Exception as error:
                self._arrive(task, slot, Failure(say(error), desk.id))
            else:
                if isinstance(adapted, Abstention):
                    self._arrive(task, slot, adapted)
                else:
                    if self._log is not None and self._log.describes:
                        with self._log_errors():
                            self._log.note(adapted)
                    self._look(task, slot, adapted, digest, desk)

    def _look(self, task: Task, slot: int, query: Query[Any], digest: str, desk: Desk) -> None:
        known = self._memory.look_up(desk.id, digest)
        if known is not None:
            self._stats.known += 1
            self._arrive(task, slot, known)
        elif digest in desk.waiting:
            self._stats.joined += 1
            desk.waiting[digest].append((task, slot))
        else:
            self._stats.unique += 1
            desk.waiting[digest] = [(task, slot)]
            desk.fresh.append(query)

    def _desk(self, experts: Mapping[str, Expert], role: str) -> Desk | None:
        """The desk of the expert bound to a role, or to the part of its name before the dot."""
        expert = experts.get(role) or experts.get(role.partition(".")[0])
        if expert is None:
            return None
        desk = self.desks.get(expert.id)
        if desk is None:
            desk = self.desks[expert.id] = Desk(expert)
        return desk

    def _under_way(self) -> list[Call]:
        return [call for desk in self.desks.values() for call in desk.running.values()]

    # -- experts ------------------------------------------------------------------------------------------------------

    def _look_up(self, desk: Desk) -> None:
        """Sort what was newly asked into known (by the log) and to be asked."""
        if not desk.fresh:
            return
        fresh, desk.fresh = desk.fresh, []
        logged: dict[str, Answer | Abstention] = {}
        if self._log is not None:
            with self._log_errors():
                logged = self._log.look_up(desk.id, [query.digest for query in fresh])
        for query in fresh:
            answer = logged.get(query.digest)
            if answer is not None:
                self._stats.known += 1
                self._stats.unique -= 1
                self._memory.keep(desk.id, query.digest, answer)
                self._deliver(desk, query, answer)
            elif type(query) not in desk.kinds:
                kinds = ", ".join(kind.kind for kind in desk.kinds)
                reason = f"{desk.id} answers {kinds}, not {query.kind}: bind another expert to this role"
                self._deliver(desk, query, Failure(reason))
            else:
                desk.queues.setdefault(query.kind, deque()).append(query)

    def _dispatch(self, desk: Desk) -> None:
        if desk.dead:
            if desk.retry_at is None or time.monotonic() < desk.retry_at:
                self._fail_queued(desk)
            elif desk.running:
                return  # the batch that tries it is under way
        alone = self._reproducible or isinstance(desk.expert, AsyncExpert)
        size = 1 if alone else max(1, desk.expert.batch)
        while desk.queued and (desk.idle or desk.workers < max(1, desk.expert.concurrency)):
            if not desk.idle:
                desk.idle.append(self._worker(desk))
                desk.workers += 1
            queue = max(desk.queues.values(), key=len)
            queries = self._batch(desk, queue, size)
            if queries:
                self._begin(desk, queries)
                if desk.dead:
                    return

    def _batch(self, desk: Desk, queue: deque[Query[Any]], size: int) -> list[Query[Any]]:
        """The next queries that somebody waits for."""
        queries: list[Query[Any]] = []
        while queue and len(queries) < size:
            query = queue.popleft()
            if any(_wanted(task) for task, _ in desk.waiting[query.digest]):
                queries.append(query)
            else:
                self._deliver(desk, query, Failure(_NOBODY, desk.id))
        return queries

    def _prepare(self, expert: Expert, ready: Future[str]) -> None:
        try:
            desk = self.desks.get(expert.id) or self.desks.setdefault(expert.id, Desk(expert))
        except Exception as error:
            ready.set_result(say(error))
            return
        desk.dead, desk.crashes, desk.retry_at = "", 0, None
        if not desk.idle:
            if desk.workers >= max(1, expert.concurrency):
                ready.set_result("")  # all of them are at work: it has been ready before
                return
            desk.idle.append(self._worker(desk))
            desk.workers += 1
        self._begin(desk, [], ready)

    def _begin(self, desk: Desk, queries: list[Query[Any]], ready: Future[str] | None = None) -> None:
        worker = desk.idle.pop()
        self._calls += 1
        deadline = time.monotonic() + desk.expert.deadline_s
        desk.running[self._calls] = Call(queries, worker, deadline, ready)
        worker.start(self._calls, queries)

    def _worker(self, desk: Desk) -> Worker:
        if not isinstance(desk.expert, AsyncExpert):
            return ExpertThread(desk.expert, desk.id, self.inbox.put, self._breaker)
        if desk.loop is None:
            desk.loop = ExpertLoop(desk.expert, desk.id, self.inbox.put)
        return LoopSeat(desk.loop)

    def _take_answers(self, event: Answered) -> None:
        desk = self.desks[event.expert]
        call = desk.running.get(event.call)
        if call is None:
            return  # it came after its deadline: the queries have failed already
        if event.outcomes is None:
            call.deadline = time.monotonic() + desk.expert.deadline_s
            return
        del desk.running[event.call]
        desk.idle.append(call.worker)
        desk.stats.queries += len(call.queries)
        desk.stats.calls += event.calls
        desk.stats.seconds += event.seconds
        kept: list[tuple[Query[Any], Answer | Abstention]] = []
        for query, outcome in zip(call.queries, event.outcomes, strict=True):
            if isinstance(outcome, Failure):
                desk.stats.failed += 1
            else:
                kept.append((query, outcome))
        known = kept if desk.unchanged else []
        for query, outcome in known:
            self._memory.keep(desk.id, query.digest, outcome)
        if known and self._log is not None:
            with self._log_errors():
                self._log.keep(desk.id, known)
        for query, outcome in zip(call.queries, event.outcomes, strict=True):
            self._deliver(desk, query, outcome)
        desk.crashes = 0 if kept else desk.crashes + event.crashes
        desk.dead = event.down
        if desk.crashes >= self._breaker:
            failure = next(outcome for outcome in event.outcomes if isinstance(outcome, Failure))
            desk.dead = f"{desk.crashes} failures in a row, the last: {failure.reason}"
        desk.retry_at = time.monotonic() + self._cooldown if desk.dead else None
        call.prepared(desk.dead)

    def _deliver(self, desk: Desk, query: Query[Any], outcome: Outcome) -> None:
        if isinstance(outcome, Failure) and not outcome.expert:
            outcome = Failure(outcome.reason, desk.id, outcome.raw)
        for task, slot in desk.waiting.pop(query.digest):
            self._arrive(task, slot, outcome)

    def _fail_queued(self, desk: Desk) -> None:
        failure = Failure(f"not asked, the expert is down: {desk.dead}", desk.id)
        for queue in desk.queues.values():
            while queue:
                desk.stats.failed += 1
                self._deliver(desk, queue.popleft(), failure)

    def _expire(self) -> None:
        now = time.monotonic()
        for desk in self.desks.values():
            for number, call in [(n, c) for n, c in desk.running.items() if c.deadline <= now]:
                del desk.running[number]
                if call.worker.abandon():
                    desk.idle.append(call.worker)
                else:
                    desk.workers -= 1  # a thread that hangs: it is a daemon, and its answer will be ignored
                reason = f"no answer within {desk.expert.deadline_s:g} s"
                if desk.workers == 0:
                    desk.dead, desk.retry_at = f"{reason}; it counts as dead until it is reloaded", None
                desk.stats.queries += len(call.queries)
                desk.stats.calls += 1
                desk.stats.failed += len(call.queries)
                for query in call.queries:
                    self._deliver(desk, query, Failure(reason, desk.id))
                call.prepared(reason)
        if self._ready or any(desk.dead and desk.queued for desk in self.desks.values()):
            self._settle()

    def _end(self) -> None:
        for call in self._under_way():
            call.prepared("the engine was closed before it was ready")
        for desk in self.desks.values():
            for worker in (*desk.idle, *(call.worker for call in desk.running.values())):
                worker.stop()
            if desk.loop is not None:
                desk.loop.stop()
            desk.waiting.clear()
        for task in self._tasks:
            if task.future is not None and not task.future.done():
                task.future.set_result(Score.failed("the engine was closed before this was scored"))
        self._tasks.clear()
        self._ready.clear()
        self._memory.clear()

    @contextlib.contextmanager
    def _log_errors(self) -> Iterator[None]:
        """A log that cannot be used any more (disk full, deleted, damaged) costs the cache, not the scores."""
        try:
            yield
        except (sqlite3.Error, LogError) as error:
            where = self._log.path if self._log is not None else "?"
            self._log = None
            warnings.warn(f"answer log {where} given up, going on without: {error}", RuntimeWarning, stacklevel=2)

    def stop(self) -> None:
        """Have the thread end, once it has done what is in the inbox before this."""
        self.inbox.put(Stop())

    def snapshot(self) -> Stats:
        experts = {name: desk.snapshot() for name, desk in list(self.desks.items())}
        now = self._stats
        return Stats(now.programs, now.asked, now.unique, now.known, now.joined, experts)


def _wanted(task: Task) -> bool:
    return task.wanted is None or task.wanted()


_NOBODY = "nobody waits for it any more"
_BROKEN = "the engine broke down before it was ready"
