"""The scheduler: the single thread that owns an engine's state.

It advances programs until they wait for queries, deduplicates queries, answers them from the cache or the log, and
gives each free worker the largest batch of pending queries.
"""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Any

from ..image import ImageError
from ..lru_cache import LruCache
from ..queries.answers import Answer, Outcome
from ..queries.expert import AsyncExpert, Expert, expert_of_role, rewrites_queries
from ..queries.kinds import Query
from ..queries.outcomes import Abstention, Failure
from ..queries.serialization import approximate_bytes
from ..score import Score
from .answer_log import AnswerLog, AskedQuery, LogError
from .expert_queue import (
    ExpertQueue,
    InFlightCall,
    PrepareExpert,
    ResetCircuit,
    RunningProgram,
    SchedulerEvent,
    SharedOutcome,
    SharedProgram,
    Stats,
    StopScheduler,
    deadlocked_programs,
)
from .program import Ask, Failed, Gather, RunOnce, Unanswered, score_without_value
from .shared_database import DATABASE_ERRORS
from .workers import CallReport, ExpertLoop, ExpertThread, LoopWorker, Worker, format_exception_line

WITHOUT_LOG = "continuing without the answer log"
"""How the warning begins that a log has failed: answers from then on are not in it."""
_LOG_ERRORS: tuple[type[Exception], ...] = (LogError, *DATABASE_ERRORS)
_WAITS_FOR_ITSELF = (
    "an expert waits for itself: a call of it scores with a reward on the engine that runs it, all its workers are in "
    "such calls, and only it can answer. Give that reward an engine of its own, or let the metric ask both (`ask`)"
)
_CANCELLED = "cancelled: the score is no longer needed"
_ENGINE_FAILED = "the engine crashed before the expert was ready"


class Scheduler:
    """All state of an engine, accessed by its thread only (except that `snapshot` and `down_experts` read it)."""

    def __init__(
        self, log: AnswerLog | None, cache_bytes: int, breaker: int, cooldown_s: float, reproducible: bool
    ) -> None:
        self.inbox: SimpleQueue[SchedulerEvent] = SimpleQueue()
        self.submit_lock = threading.Lock()
        """Held to submit tasks and to shut down: a task submitted after the shutdown would wait for ever."""
        self.broken: BaseException | None = None
        self.stopped = False
        self.queues: dict[str, ExpertQueue] = {}
        self._log, self._breaker, self._cooldown, self._reproducible = log, breaker, cooldown_s, reproducible
        self._cache: LruCache[tuple[str, str], Answer | Abstention] = LruCache(
            cache_bytes, approximate_bytes, least=min(1, cache_bytes)
        )
        self._ready: deque[tuple[RunningProgram, Any]] = deque()
        self._calls = 0
        self._stats = Stats()
        self._tasks: set[RunningProgram] = set()
        self._has_nested = False  # whether an expert of this engine has ever asked this engine

    def run(self) -> None:
        try:
            self._loop()
        except BaseException as error:  # a bug of ours: fail all futures, since this thread ends
            with self.submit_lock:
                self.broken = error
            with contextlib.suppress(Empty):
                while True:
                    event = self.inbox.get_nowait()
                    self._tasks.update(event if isinstance(event, list) else ())
                    if isinstance(event, PrepareExpert):
                        event.ready.set_result(_ENGINE_FAILED)
            for task in self._tasks:
                if task.future is not None and not task.future.done():
                    task.future.set_exception(error)
            for call in self._in_flight():
                call.set_ready(_ENGINE_FAILED)
            raise

    def _loop(self) -> None:
        while True:
            event = self._next_event()
            while event is not None:
                if isinstance(event, StopScheduler):
                    self._shut_down()
                    return
                self._handle(event)
                try:
                    event = self.inbox.get_nowait()
                except Empty:
                    event = None
            self._advance_all()
            self._expire_calls()

    def _next_event(self) -> SchedulerEvent | None:
        deadlines = [call.deadline for queue in self.queues.values() for call in queue.in_flight.values()]
        if not deadlines:
            return self.inbox.get()
        try:
            return self.inbox.get(timeout=min(max(0.0, min(deadlines) - time.monotonic()), 3600.0))  # never infinite
        except Empty:
            return None

    def _handle(self, event: SchedulerEvent) -> None:
        match event:
            case list():
                for task in event:
                    if task.future is not None and task.future.set_running_or_notify_cancel():
                        self._stats.programs += 1
                        self._tasks.add(task)
                        self._has_nested |= task.caller is not None
                        self._ready.append((task, None))
            case CallReport():
                self._handle_report(event)
            case ResetCircuit(expert, trial=True) if expert in self.queues:  # others have had no queries
                self.queues[expert].retry_at = time.monotonic()
            case ResetCircuit(expert) if expert in self.queues:
                queue = self.queues[expert]
                queue.down_reason, queue.consecutive_failures, queue.retry_at = "", 0, None
            case PrepareExpert(expert, ready):
                self._prepare(expert, ready)
            case ResetCircuit() | StopScheduler():
                pass

    def _advance_all(self) -> None:
        """Advance all ready programs and dispatch batches; repeat until every program waits for an expert."""
        while True:
            while self._ready:
                self._advance(*self._ready.popleft())
            for queue in self.queues.values():
                self._resolve_from_log(queue)
            if self._ready:
                continue
            for queue in self.queues.values():
                self._dispatch_batches(queue)
            if self._has_nested:
                for task in deadlocked_programs(self.queues):
                    self._abort(task, RuntimeError(_WAITS_FOR_ITSELF))
            if not self._ready:
                return

    # -- programs -----------------------------------------------------------------------------------------------------

    def _advance(self, task: RunningProgram, value: Any) -> None:
        if not _is_wanted(task):
            with contextlib.suppress(BaseException):  # as in `_abort`
                task.program.close()
            self._complete(task, Failed(_CANCELLED, (Failure(_CANCELLED, infrastructure=True),)))
            return
        try:
            request = task.program.send(value)
        except StopIteration as stop:
            self._complete(task, stop.value)
        except (Unanswered, ImageError) as error:  # the latter is an error of the sample, not of the metric
            self._complete(task, error)
        except BaseException as error:  # SystemExit, too, concerns this program only
            self._abort(task, error)
        else:
            if isinstance(request, Ask) and all(isinstance(query, Query) for query in request.queries):
                self._submit_queries(task, request)
            elif isinstance(request, Gather):
                task.outcomes = [None] * len(request.programs)
                task.pending = len(request.programs)
                for slot, program in enumerate(request.programs):
                    child = RunningProgram(program, task.experts, task.sample, parent=task, slot=slot)
                    self._ready.append((child, None))
            elif isinstance(request, RunOnce):
                task.outcomes, task.pending = [None], 1
                shared = task.shared.get(request)
                if shared is None:
                    shared = task.shared[request] = SharedOutcome()
                    self._ready.append((SharedProgram(request, task), None))
                if shared.waiters is not None:
                    shared.waiters.append(task)
                else:
                    self._set_outcome(task, 0, shared.outcome)
            else:
                self._abort(task, TypeError(f"a program must yield Ask (of queries) or Gather, got {request!r:.200}"))

    def _complete(self, task: RunningProgram, outcome: Any) -> None:
        """outcome: what the program returned, or why it could not."""
        if isinstance(task, SharedProgram):
            shared = task.shared[task.request]
            if isinstance(outcome, Failed | ImageError):  # who comes later tries again, as with a query
                del task.shared[task.request]
            for waiter in shared.waiters or ():
                self._set_outcome(waiter, 0, outcome)
            shared.outcome, shared.waiters = outcome, None
            return
        score = score_without_value(outcome) if isinstance(outcome, Unanswered | ImageError) else outcome
        if not isinstance(score, Score):
            self._abort(task, TypeError(f"a program must return a Score, got {type(score).__name__}"))
        elif task.parent is not None:
            self._set_outcome(task.parent, task.slot, score)
        else:
            self._tasks.discard(task)
            assert task.future is not None
            if not task.future.done():  # aborted, while some of its programs still waited for answers
                task.future.set_result(task.noted(score))

    def _abort(self, task: RunningProgram, error: BaseException) -> None:
        while True:
            with contextlib.suppress(BaseException):  # its `finally` may raise, and it may not be a generator
                task.program.close()
            if task.parent is None:
                break
            task = task.parent
        self._tasks.discard(task)
        assert task.future is not None
        if not task.future.done():
            task.future.set_exception(error)

    def _set_outcome(self, task: RunningProgram, slot: int, outcome: Any) -> None:
        task.receive(slot, outcome)
        if task.pending == 0:
            outcomes, task.outcomes = tuple(task.outcomes), []
            self._ready.append((task, outcomes))

    def _submit_queries(self, task: RunningProgram, request: Ask) -> None:
        task.outcomes = [None] * len(request.queries)
        task.pending = len(request.queries)
        self._stats.queries += len(request.queries)
        records = self._log is not None and self._log.records_queries
        asked: list[AskedQuery] = []
        for slot, query in enumerate(request.queries):
            role = request.role or query.role
            try:
                queue = self._queue_of(task.experts, role)
            except Exception as error:
                reason = f"the expert of role {role!r} cannot be used: {format_exception_line(error)}"
                self._set_outcome(task, slot, Failure(reason, infrastructure=True))
                continue
            if queue is None:
                bound = ", ".join(sorted(task.experts)) or "none"
                reason = f"no expert is bound to the role {role!r} (bound: {bound})"
                self._set_outcome(task, slot, Failure(reason, infrastructure=True))
                continue
            try:
                rewritten = queue.expert.rewrite_query(query, task.sample)
                digest = "" if isinstance(rewritten, Abstention) else rewritten.digest
                if records:
                    _ = query.digest  # a replay finds the rewritten query by it
                    asked.append((queue.id, query, rewritten if rewrites_queries(queue.expert) else None))
            except ImageError as error:  # an image that can no longer be read
                self._set_outcome(task, slot, Failure(str(error)))
            except Exception as error:
                self._set_outcome(task, slot, Failure(format_exception_line(error), queue.id, infrastructure=True))
            else:
                if isinstance(rewritten, Abstention):
                    self._set_outcome(task, slot, rewritten)
                else:
                    self._enqueue_or_answer(task, slot, rewritten, digest, queue)
        if asked and self._log is not None:
            with self._log_errors():
                self._log.record_asked(task.sample, asked)

    def _enqueue_or_answer(
        self, task: RunningProgram, slot: int, query: Query[Any], digest: str, queue: ExpertQueue
    ) -> None:
        answer = self._cache.get((queue.id, digest))
        if answer is not None:
            self._stats.cache_hits += 1
            self._set_outcome(task, slot, answer)
        elif digest in queue.waiters:
            self._stats.coalesced += 1
            queue.waiters[digest].append((task, slot))
        else:
            self._stats.unique += 1
            queue.waiters[digest] = [(task, slot)]
            queue.new_queries.append(query)

    def _queue_of(self, experts: Mapping[str, Expert], role: str) -> ExpertQueue | None:
        """The queue of the expert bound to a role, or to the part of its name before the dot."""
        expert = expert_of_role(experts, role)
        if expert is None:
            return None
        queue = self.queues.get(expert.id)
        if queue is None:
            queue = self.queues[expert.id] = ExpertQueue(expert)
        return queue

    def _in_flight(self) -> list[InFlightCall]:
        return [call for queue in self.queues.values() for call in queue.in_flight.values()]

    # -- experts ------------------------------------------------------------------------------------------------------

    def _resolve_from_log(self, queue: ExpertQueue) -> None:
        if not queue.new_queries:
            return
        queries, queue.new_queries = queue.new_queries, []
        logged: dict[str, Answer | Abstention | None] = {}
        if self._log is not None:
            with self._log_errors():
                logged = self._log.get(queue.id, queries)
                self._stats.rejected += sum(answer is None for answer in logged.values())
        for query in queries:
            answer = logged.get(query.digest)
            if answer is not None:
                self._stats.cache_hits += 1
                self._stats.unique -= 1
                self._cache.put((queue.id, query.digest), answer)
                self._deliver(queue, query, answer)
            elif type(query) not in queue.kinds:
                kinds = ", ".join(kind.kind for kind in queue.kinds)
                reason = f"{queue.id} answers {kinds}, not {query.kind}: bind another expert to this role"
                self._deliver(queue, query, Failure(reason, infrastructure=True))
            else:
                queue.pending.setdefault(query.kind, deque()).append(query)

    def _dispatch_batches(self, queue: ExpertQueue) -> None:
        if queue.down_reason:
            if queue.retry_at is None or time.monotonic() < queue.retry_at:
                self._fail_queued(queue)
            elif queue.in_flight:
                return  # the trial batch is in flight
        unbatched = self._reproducible or isinstance(queue.expert, AsyncExpert)
        size = 1 if unbatched else max(1, queue.expert.batch)
        while queue.num_queued and (queue.idle_workers or queue.num_workers < max(1, queue.expert.concurrency)):
            pending = max(queue.pending.values(), key=len)
            if queries := self._next_batch(queue, pending, size):
                self._start_call(queue, queries)
                if queue.down_reason:
                    return

    def _next_batch(self, queue: ExpertQueue, pending: deque[Query[Any]], size: int) -> list[Query[Any]]:
        queries: list[Query[Any]] = []
        while pending and len(queries) < size:
            query = pending.popleft()
            if any(_is_wanted(task) for task, _ in queue.waiters[query.digest]):
                queries.append(query)
            else:
                self._deliver(queue, query, Failure(_CANCELLED, queue.id, infrastructure=True))
        return queries

    def _prepare(self, expert: Expert, ready: Future[str]) -> None:
        try:
            queue = self.queues.get(expert.id) or self.queues.setdefault(expert.id, ExpertQueue(expert))
        except Exception as error:
            ready.set_result(format_exception_line(error))
            return
        queue.down_reason, queue.consecutive_failures, queue.retry_at = "", 0, None
        if queue.idle_workers or queue.num_workers < max(1, expert.concurrency):
            self._start_call(queue, [], ready)
        else:
            ready.set_result("")  # all workers are busy: the expert is loaded

    def _start_call(self, queue: ExpertQueue, queries: list[Query[Any]], ready: Future[str] | None = None) -> None:
        worker = queue.idle_workers.pop() if queue.idle_workers else self._new_worker(queue)
        self._calls += 1
        deadline = time.monotonic() + queue.expert.deadline_s
        queue.in_flight[self._calls] = InFlightCall(queries, worker, deadline, ready)
        worker.start(self._calls, queries)

    def _new_worker(self, queue: ExpertQueue) -> Worker:
        queue.num_workers += 1
        if not isinstance(queue.expert, AsyncExpert):
            return ExpertThread(queue.expert, queue.id, self.inbox.put, self._breaker)
        if queue.loop is None:
            queue.loop = ExpertLoop(queue.expert, queue.id, self.inbox.put)
        return LoopWorker(queue.loop)

    def _handle_report(self, event: CallReport) -> None:
        queue = self.queues[event.expert]
        call = queue.in_flight.get(event.call_number)
        if call is None:
            return  # reported after its deadline: the queries have failed already
        if event.outcomes is None:
            call.deadline = time.monotonic() + queue.expert.deadline_s
            return
        del queue.in_flight[event.call_number]
        queue.idle_workers.append(call.worker)
        queue.stats.queries += len(call.queries)
        queue.stats.calls += event.calls
        queue.stats.seconds += event.seconds
        answered: list[tuple[Query[Any], Answer | Abstention]] = []
        for query, outcome in zip(call.queries, event.outcomes, strict=True):
            if isinstance(outcome, Failure):
                queue.stats.failed += 1
            else:
                answered.append((query, outcome))
        cacheable = answered if queue.has_same_id else []
        for query, outcome in cacheable:
            self._cache.put((queue.id, query.digest), outcome)
        if cacheable and self._log is not None:
            with self._log_errors():
                self._log.put(queue.id, cacheable)
        for query, outcome in zip(call.queries, event.outcomes, strict=True):
            self._deliver(queue, query, outcome)
        queue.consecutive_failures = 0 if answered else queue.consecutive_failures + event.crashes
        queue.down_reason = event.down_reason
        if queue.consecutive_failures >= self._breaker:
            failure = next(outcome for outcome in event.outcomes if isinstance(outcome, Failure))
            queue.down_reason = f"{queue.consecutive_failures} consecutive failures, the last: {failure.reason}"
        queue.retry_at = time.monotonic() + self._cooldown if queue.down_reason else None
        call.set_ready(queue.down_reason)

    def _deliver(self, queue: ExpertQueue, query: Query[Any], outcome: Outcome) -> None:
        if isinstance(outcome, Failure) and not outcome.expert:
            outcome = replace(outcome, expert=queue.id)
        for task, slot in queue.waiters.pop(query.digest):
            self._set_outcome(task, slot, outcome)

    def _fail_queued(self, queue: ExpertQueue) -> None:
        failure = Failure(f"not asked, the expert is down: {queue.down_reason}", queue.id, infrastructure=True)
        for pending in queue.pending.values():
            while pending:
                queue.stats.failed += 1
                self._deliver(queue, pending.popleft(), failure)

    def _expire_calls(self) -> None:
        now = time.monotonic()
        for queue in self.queues.values():
            for number, call in [(n, c) for n, c in queue.in_flight.items() if c.deadline <= now]:
                del queue.in_flight[number]
                if call.worker.detach():
                    queue.idle_workers.append(call.worker)
                else:
                    queue.num_workers -= 1  # a hung thread: it is a daemon, and its answer will be ignored
                reason = f"no answer within {queue.expert.deadline_s:g} s"
                if queue.num_workers == 0:
                    queue.down_reason, queue.retry_at = f"{reason}; its circuit stays open until it is reset", None
                queue.stats.queries += len(call.queries)
                queue.stats.calls += 1
                queue.stats.failed += len(call.queries)
                for query in call.queries:
                    self._deliver(queue, query, Failure(reason, queue.id, infrastructure=True))
                call.set_ready(reason)
        if self._ready or any(queue.down_reason and queue.num_queued for queue in self.queues.values()):
            self._advance_all()

    def _shut_down(self) -> None:
        for call in self._in_flight():
            call.set_ready("the engine was closed before the expert was ready")
        for queue in self.queues.values():
            for worker in (*queue.idle_workers, *(call.worker for call in queue.in_flight.values())):
                worker.stop()
            if queue.loop is not None:
                queue.loop.stop()
            queue.waiters.clear()
        for task in self._tasks:
            if task.future is not None and not task.future.done():
                reason = "the engine was closed before this was scored"
                task.future.set_result(Score.failed(reason, cause="infrastructure"))
        self._tasks.clear()
        self._ready.clear()
        self._cache.clear()

    @contextlib.contextmanager
    def _log_errors(self) -> Iterator[None]:
        """On a log error (disk full, deleted, damaged), continue without the log; scores are not affected."""
        try:
            yield
        except _LOG_ERRORS as error:
            path = self._log.path if self._log is not None else "?"
            self._log = None
            warnings.warn(f"{WITHOUT_LOG} {path}: {error}", RuntimeWarning, stacklevel=2)

    def stop(self) -> None:
        """End the thread after it has handled the events already in the inbox. Later ones would wait for ever."""
        self.stopped = True
        self.inbox.put(StopScheduler())

    def snapshot(self) -> Stats:
        experts = {name: queue.snapshot() for name, queue in list(self.queues.items())}
        stats = self._stats
        return replace(stats, experts=experts)


def _is_wanted(task: RunningProgram) -> bool:
    return task.is_wanted is None or task.is_wanted()
