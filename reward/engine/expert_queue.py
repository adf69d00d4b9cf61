"""What the scheduler works with: programs, a desk for every expert, calls under way, and what it is told."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from .caller import Answered, ExpertLoop, Worker
from .expert import Expert, ExpertDown
from .query import Query
from .sample import EditSample
from .score import Score
from .stats import ExpertStats


class Task:
    """A running program. `parent` and `slot` are set for the programs of a gather.

    `engine` keeps the engine that it was submitted to from being dropped, and thereby closed, before it is done.
    `wanted` says whether anybody waits for the score still; None: somebody does.
    """

    __slots__ = ("engine", "experts", "future", "missing", "outcomes", "parent", "program", "sample", "slot", "wanted")

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
        wanted: Callable[[], bool] | None = None,
    ) -> None:
        self.program = program
        self.experts = experts
        self.sample = sample
        self.future = future
        self.parent = parent
        self.slot = slot
        self.engine = engine
        self.wanted: Callable[[], bool] | None = wanted if parent is None else parent.wanted
        self.outcomes: list[Any] = []
        self.missing = 0


@dataclass(slots=True)
class Reload:
    """Give this expert another chance."""

    expert: str


@dataclass(slots=True)
class Prepare:
    """Have this expert get ready before it is asked. ready: why it could not, or nothing."""

    expert: Expert
    ready: Future[str]


class Stop:
    """End the thread."""


Event = list[Task] | Answered | Reload | Prepare | Stop


class Call:
    """One batch on its way through an expert. Without queries: the expert gets `ready`."""

    __slots__ = ("deadline", "queries", "ready", "worker")

    def __init__(
        self, queries: list[Query[Any]], worker: Worker, deadline: float, ready: Future[str] | None = None
    ) -> None:
        self.queries = queries
        self.worker = worker
        self.deadline = deadline
        self.ready = ready

    def prepared(self, problem: str) -> None:
        """Tell who waits for the expert to be ready."""
        if self.ready is not None:
            self.ready.set_result(problem)


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
