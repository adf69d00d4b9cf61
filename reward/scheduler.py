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
from collections import OrderedDict, deque
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import Any

from .answers import AnswerLog, LogError
from .asking import Ask, Failed, Gather, Unanswered
from .caller import Answered, ExpertLoop, ExpertThread, LoopSeat, Worker, say
from .expert import AsyncExpert, Expert, ExpertDown
from .forms import Reply
from .image import ImageError
from .outcomes import Abstention, Failure
from .query import Answer, Detections, Mask, Outcome, Query, Reading, Vectors
from .sample import EditSample
from .score import Evidence, Score


@dataclass(slots=True)
class ExpertStats:
    """Work of one expert: `queries` it was given in `calls` calls, `failed` of them, `seconds` spent in it.

    meter: what the expert itself counted since this engine met it (see `Expert.meter`).
    """

    queries: int = 0
    calls: int = 0
    failed: int = 0
    seconds: float = 0.0
    meter: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Stats:
    """asked: questions put by programs; unique: those not seen before; known: answered from memory or the log;
    joined: put while the same question was on its way."""

    programs: int = 0
    asked: int = 0
    unique: int = 0
    known: int = 0
    joined: int = 0
    experts: dict[str, ExpertStats] = field(default_factory=dict)

    def since(self, before: Stats) -> dict[str, Any]:
        """The difference to an earlier snapshot, as plain JSON."""
        return {
            "programs": self.programs - before.programs,
            "asked": self.asked - before.asked,
            "unique": self.unique - before.unique,
            "known": self.known - before.known,
            "joined": self.joined - before.joined,
            "experts": {
                name: {
                    "queries": now.queries - then.queries,
                    "calls": now.calls - then.calls,
                    "failed": now.failed - then.failed,
                    "seconds": round(now.seconds - then.seconds, 4),
                    **{key: round(count - then.meter.get(key, 0.0), 6) for key, count in now.meter.items()},
                }
                for name, now in self.experts.items()
                if (then := before.experts.get(name, ExpertStats())).queries != now.queries
            },
        }


class Task:
    """A running program. `parent` and `slot` are set for the programs of a gather.

    `engine` keeps the engine that it was submitted to from being dropped, and thereby closed, before it is done.
    """

    __slots__ = ("engine", "experts", "future", "missing", "outcomes", "parent", "program", "sample", "slot")

    def __init__(
        self,
        program: Generator[Any, Any, Score],
        experts: Mapping[str, Expert],
        sample: EditSample | None,
        *,
        future: Future[Score] | None = None,
        parent: Task | None = None,
        slot: int = 0,
        engine: object = None,
    ) -> None:
        self.program = program
        self.experts = experts
        self.sample = sample
        self.future = future
        self.parent = parent
        self.slot = slot
        self.engine = engine
        self.outcomes: list[Any] = []
        self.missing = 0


@dataclass(slots=True)
class Reload:
    """Give this expert another chance."""

    expert: str


class Stop:
    """End the thread."""


Event = list[Task] | Answered | Reload | Stop


class Call:
    """One batch on its way through an expert."""

    __slots__ = ("deadline", "queries", "worker")

    def __init__(self, queries: list[Query[Any]], worker: Worker, deadline: float) -> None:
        self.queries = queries
        self.worker = worker
        self.deadline = deadline


class Desk:
    """What the scheduler knows of one expert: who waits for what, what is known, who is at work."""

    def __init__(self, expert: Expert) -> None:
        if not isinstance(expert, Expert):
            raise TypeError(f"{type(expert).__name__} is bound to a role, but is not an Expert")
        self.expert = expert
        self.id = expert.id
        self.kinds = expert.kinds
        self.waiting: dict[str, list[tuple[Task, int]]] = {}
        self.fresh: list[Query[Any]] = []
        self.queues: dict[str, deque[Query[Any]]] = {}
        self.idle: list[Worker] = []
        self.workers = 0
        self.loop: ExpertLoop | None = None
        self.running: dict[int, Call] = {}
        self.crashes = 0
        self.dead = ""
        self.retry_at: float | None = None
        self.stats = ExpertStats()
        self.metered = dict(expert.meter())  # by others, before it came here

    @property
    def queued(self) -> int:
        return sum(len(queue) for queue in self.queues.values())

    @property
    def unchanged(self) -> bool:
        """Whether the expert is who it was. Weights may be unloaded and others put in their place."""
        try:
            return self.expert.id == self.id
        except (ExpertDown, OSError):  # nothing is there any more
            return False

    def snapshot(self) -> ExpertStats:
        meter = {name: count - self.metered.get(name, 0.0) for name, count in self.expert.meter().items()}
        return replace(self.stats, meter=meter)


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
        self._memory_limit = memory_bytes
        self._memory_used = 0
        self._known: OrderedDict[tuple[str, str], Answer | Abstention] = OrderedDict()
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
            for task in self._tasks:
                if task.future is not None and not task.future.done():
                    task.future.set_exception(error)
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
        known = self._known.get((desk.id, digest))
        if known is not None:
            self._known.move_to_end((desk.id, digest))
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
                self._remember(desk.id, query.digest, answer)
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
            queries = [queue.popleft() for _ in range(min(size, len(queue)))]
            worker = desk.idle.pop()
            self._calls += 1
            deadline = time.monotonic() + desk.expert.deadline_s
            desk.running[self._calls] = Call(queries, worker, deadline)
            worker.start(self._calls, queries)
            if desk.dead:
                return

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
            self._remember(desk.id, query.digest, outcome)
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

    def _remember(self, expert: str, digest: str, answer: Answer | Abstention) -> None:
        self._known[expert, digest] = answer
        self._memory_used += _size(answer)
        while self._memory_used > self._memory_limit and len(self._known) > 1:
            self._memory_used -= _size(self._known.popitem(last=False)[1])

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
        if self._ready or any(desk.dead and desk.queued for desk in self.desks.values()):
            self._settle()

    def _end(self) -> None:
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
        self._known.clear()

    @contextlib.contextmanager
    def _log_errors(self) -> Iterator[None]:
        """A log that cannot be used any more (disk full, deleted, damaged) costs the cache, not the scores."""
        try:
            yield
        except (sqlite3.Error, LogError) as error:
            where = self._log.path if self._log is not None else "?"
            self._log = None
            warnings.warn(f"answer log {where} given up, going on without: {error}", RuntimeWarning, stacklevel=2)

    def snapshot(self) -> Stats:
        experts = {name: desk.snapshot() for name, desk in list(self.desks.items())}
        now = self._stats
        return Stats(now.programs, now.asked, now.unique, now.known, now.joined, experts)


def _size(answer: Answer | Abstention) -> int:
    """Bytes an answer takes in memory, roughly."""
    match answer:
        case Detections(boxes):
            return 300 + 200 * len(boxes)
        case Vectors(values) | Mask(values):
            return 400 + int(values.nbytes)
        case Reply(text, probabilities):
            return 400 + len(text) + 100 * len(probabilities)
        case Reading(lines):
            return 300 + 400 * len(lines)
        case _:
            return 300
