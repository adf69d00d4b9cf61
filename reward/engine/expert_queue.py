"""State of the scheduler: running programs, a queue for each expert, calls in flight, and the scheduler's events."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from ..queries.expert import Expert, ExpertDown
from ..queries.kinds import Query
from ..queries.response_formats import Reply
from ..sample import EditSample
from ..score import Evidence, Score
from .program import RunOnce
from .workers import CallReport, ExpertCall, ExpertLoop, Worker


@dataclass(slots=True)
class ExpertStats:
    """Work of one expert: number of queries and calls, failed queries, and seconds spent in it. usage: the expert's own
    counters since its first use in this engine (see `Expert.usage`).
    """

    queries: int = 0
    calls: int = 0
    failed: int = 0
    seconds: float = 0.0
    usage: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Stats:
    """queries: issued by programs; unique: sent to experts; cache_hits: answered from the cache or the log;
    coalesced: joined to an equal query in flight; rejected: answers in the log that were damaged, or of another kind
    than their query, and hence asked again."""

    programs: int = 0
    queries: int = 0
    unique: int = 0
    cache_hits: int = 0
    coalesced: int = 0
    rejected: int = 0
    experts: dict[str, ExpertStats] = field(default_factory=dict)

    def since(self, before: Stats) -> dict[str, Any]:
        """The difference to an earlier snapshot, as plain JSON."""
        counts = ("programs", "queries", "unique", "cache_hits", "coalesced", "rejected")
        since: dict[str, Any] = {name: getattr(self, name) - getattr(before, name) for name in counts}
        since["experts"] = {
            name: {
                **{key: getattr(current, key) - getattr(previous, key) for key in ("queries", "calls", "failed")},
                "seconds": round(current.seconds - previous.seconds, 4),
                **{key: round(count - previous.usage.get(key, 0.0), 6) for key, count in current.usage.items()},
            }
            for name, current in self.experts.items()
            if (previous := before.experts.get(name, ExpertStats())).queries != current.queries
        }
        return since


@dataclass(eq=False, repr=False)
class RunningProgram:
    """A running program. `parent` and `slot` are set for the programs of a gather, which have what follows `engine` of
    their parent. engine: keeps the engine from being garbage-collected, and thereby closed, before the program is done.
    is_wanted: whether the score is still needed; None: it is. caller: the call of an expert that waits for the score.
    shared: what it and the programs that it gathers run once. notes: of the replies that all of them got, in order.
    """

    program: Generator[Any, Any, Score]
    experts: Mapping[str, Expert]
    sample: EditSample | None
    future: Future[Score] | None = None
    parent: RunningProgram | None = None
    slot: int = 0
    outcomes: list[Any] = field(default_factory=list)
    pending: int = 0
    engine: object = None
    is_wanted: Callable[[], bool] | None = None
    caller: ExpertCall | None = None
    shared: dict[RunOnce, SharedOutcome] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.parent is not None:
            self.is_wanted, self.caller = self.parent.is_wanted, self.parent.caller
            self.shared, self.notes = self.parent.shared, self.parent.notes

    def receive(self, slot: int, outcome: Any) -> None:
        """One of the outcomes that it waits for."""
        self.outcomes[slot] = outcome
        self.pending -= 1
        if isinstance(outcome, Reply) and outcome.note:
            self.notes[outcome.note] = None

    def noted(self, score: Score) -> Score:
        """The score, with the notes in its evidence."""
        notes = tuple(Evidence("a judge's reply", text=note) for note in self.notes)
        return replace(score, evidence=score.evidence + notes) if notes else score


class SharedProgram(RunningProgram):
    """A program that several others of a score wait for. Its parent is the first of them."""

    def __init__(self, request: RunOnce, parent: RunningProgram) -> None:
        super().__init__(request.program(), parent.experts, parent.sample, parent=parent)
        self.request = request


@dataclass(slots=True, eq=False)
class SharedOutcome:
    """What a shared program has returned, or why it could not. waiters: the programs that wait; None once it is done.
    It does not keep the shared program, whose parents keep it.
    """

    outcome: Any = None
    waiters: list[RunningProgram] | None = field(default_factory=list)


@dataclass(slots=True)
class ResetCircuit:
    """Close the circuit of this expert. trial: let it have a trial batch now, which closes it if it is answered."""

    expert: str
    trial: bool = False


@dataclass(slots=True)
class PrepareExpert:
    """Load this expert before its first query. ready: the reason of a failure, or an empty string."""

    expert: Expert
    ready: Future[str]


class StopScheduler:
    """End the thread."""


SchedulerEvent = list[RunningProgram] | CallReport | ResetCircuit | PrepareExpert | StopScheduler


@dataclass(slots=True, eq=False)
class InFlightCall:
    """A batch in flight. Without queries, the call only loads the expert; `ready` gets its result."""

    queries: list[Query[Any]]
    worker: Worker
    deadline: float
    ready: Future[str] | None = None

    def set_ready(self, problem: str) -> None:
        """Set the result of `ready`, if any."""
        if self.ready is not None:
            self.ready.set_result(problem)


class ExpertQueue:
    """The scheduler's state of one expert. waiters: programs that wait for a query, by its digest. new_queries: not yet
    looked up in the log. pending: to be dispatched, by kind. down_reason: why the circuit is open, or an empty string.
    """

    def __init__(self, expert: Expert) -> None:
        if not isinstance(expert, Expert):
            raise TypeError(f"{type(expert).__name__} is bound to a role, but is not an Expert")
        self.expert = expert
        self.id = expert.id
        self.kinds = expert.kinds
        self.waiters: dict[str, list[tuple[RunningProgram, int]]] = {}
        self.new_queries: list[Query[Any]] = []
        self.pending: dict[str, deque[Query[Any]]] = {}
        self.idle_workers: list[Worker] = []
        self.num_workers = 0
        self.loop: ExpertLoop | None = None
        self.in_flight: dict[int, InFlightCall] = {}
        self.consecutive_failures = 0
        self.down_reason = ""
        self.retry_at: float | None = None
        self.stats = ExpertStats()
        self.usage_at_start = dict(expert.usage())  # from before this engine

    @property
    def num_queued(self) -> int:
        return sum(len(queries) for queries in self.pending.values())

    @property
    def has_same_id(self) -> bool:
        """Whether the expert's id is unchanged: its weights may have been replaced."""
        try:
            return self.expert.id == self.id
        except (ExpertDown, OSError):  # its weights or its server are gone
            return False

    def snapshot(self) -> ExpertStats:
        usage = {name: count - self.usage_at_start.get(name, 0.0) for name, count in self.expert.usage().items()}
        return replace(self.stats, usage=usage)


# -- experts that ask a reward on their own engine --------------------------------------------------------------------
# A call of an expert may use a reward on its engine, as long as others answer. If all workers of an expert are in calls
# that wait for this expert, none of them ever ends.


def deadlocked_programs(queues: Mapping[str, ExpertQueue]) -> list[RunningProgram]:
    """Programs of experts' calls that no expert will ever answer. To be called when all free workers have a call."""
    awaited: dict[ExpertCall, list[tuple[ExpertQueue, str]]] = {}
    for queue in queues.values():
        for digest, waiters in queue.waiters.items():
            for task, _ in waiters:
                if task.caller is not None and _is_awaited(task, task.caller, queues):
                    awaited.setdefault(task.caller, []).append((queue, digest))
    stuck = set(awaited)
    while True:  # until only those are left that wait for each other
        still = {call for call in stuck if any(_is_stuck(queue, digest, stuck) for queue, digest in awaited[call])}
        if still == stuck:
            break
        stuck = still
    return [
        task
        for queue in queues.values()
        for digest, waiters in queue.waiters.items()
        if any(task.caller in stuck for task, _ in waiters) and _is_stuck(queue, digest, stuck)
        for task, _ in waiters
        if task.caller in stuck
    ]


def _is_awaited(task: RunningProgram, caller: ExpertCall, queues: Mapping[str, ExpertQueue]) -> bool:
    while task.parent is not None:
        task = task.parent
    return caller.number in queues[caller.expert].in_flight and not (task.future is None or task.future.done())


def _is_stuck(queue: ExpertQueue, digest: str, stuck: set[ExpertCall]) -> bool:
    """Whether a query is in a call that never ends, or waits for a worker that never gets free."""
    own = {call.number: call for call in stuck if call.expert == queue.id}
    if any(call.blocks_loop for call in own.values()):
        return True
    for number, call in queue.in_flight.items():
        if any(query.digest == digest for query in call.queries):
            return number in own
    has_worker = queue.idle_workers or queue.num_workers < max(1, queue.expert.concurrency)
    return not has_worker and queue.in_flight.keys() <= own.keys()
