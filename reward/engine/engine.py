"""The engine: concurrent programs, deduplicated queries, large batches.

`Engine` is the handle; its state belongs to the scheduler's thread (`scheduler.py`), and experts are called in worker
threads (`workers.py`).
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import Future, wait
from functools import partial
from queue import Empty, SimpleQueue

from ..forks import at_fork, keep_in_child
from ..queries.expert import Expert
from ..sample import EditSample
from ..score import Score
from .answer_log import AnswerLog
from .expert_queue import PrepareExpert, ResetCircuit, RunningProgram, Stats
from .program import Program
from .scheduler import Scheduler
from .workers import calling, start_daemon

_GAVE_UP = "not scored before the end of the time for an outage"
_GAVE_UP_POLL_S = 0.1
_SUBMIT_CHUNK = 32
"""`run` submits programs in chunks: enough for a batch, without making experts wait for images to load."""


class Engine:
    """Runs programs. Use it through a `Reward`; rewards that share an engine share answers.

    Args:
        window: Programs in flight in `run`; bounds memory.
        log: Stores answers on disk.
        cache_bytes: Size of the in-memory LRU cache of answers; 0: every query is asked, equal ones in flight once.
        breaker: After `breaker` consecutive failures of single queries, an expert's circuit opens; it also opens when
            the expert raises `ExpertDown`. While it is open, queries fail at once, except for one trial batch every
            `cooldown_s`. If all worker threads hang, it stays open until `reset_circuit`.
        reproducible: One query per call, so that floating-point results cannot depend on the composition of a batch.
    """

    def __init__(
        self,
        *,
        window: int = 256,
        log: AnswerLog | None = None,
        cache_bytes: int = 512 * 2**20,
        breaker: int = 16,
        cooldown_s: float = 30.0,
        reproducible: bool = False,
    ) -> None:
        if window < 1:
            raise ValueError(f"window must be at least 1, got {window}")
        if breaker < 1:
            raise ValueError(f"breaker must be at least 1, got {breaker}")
        self.window = window
        self.log = log
        self._make_scheduler = partial(Scheduler, log, cache_bytes, breaker, cooldown_s, reproducible)
        self._start_anew()
        at_fork(self, Engine._in_child)

    def _start_anew(self) -> None:
        self._scheduler = self._make_scheduler()
        self._thread: threading.Thread | None = None
        self._cancelled: set[Future[Score]] = set()
        self._finalizer = weakref.finalize(self, self._scheduler.stop)

    def _in_child(self) -> None:
        """A forked child begins without programs, threads and cached answers, and continues the log."""
        if self._finalizer.detach() is not None:  # else it was closed
            keep_in_child(self._scheduler)  # with the event loops of its experts: see `asyncio` and epoll
            self._start_anew()

    def submit(
        self,
        program: Program[Score],
        experts: Mapping[str, Expert],
        sample: EditSample | None = None,
        *,
        is_wanted: Callable[[], bool] | None = None,
    ) -> Future[Score]:
        """Start a program; thread-safe. `experts` binds roles (`judge` also serves `judge.quality`).

        The future is done in this process only, not in one forked from it.

        Args:
            is_wanted: Whether the score is still needed; called in the engine's thread. Once it returns False, the
                program fails at its next step, and queries that only it waits for are dropped unless they are already
                in flight.
        """
        future: Future[Score] = Future()
        self._put([RunningProgram(program, experts, sample, future=future, engine=self, is_wanted=is_wanted)])
        return future

    def prepare(self, expert: Expert) -> Future[str]:
        """Load an expert before its first query, and reset its circuit.

        The future's result: the reason of a failure, or an empty string. Thread-safe; returns at once.
        """
        if not isinstance(expert, Expert):
            raise TypeError(f"{type(expert).__name__} is not an Expert")
        ready: Future[str] = Future()
        self._put(PrepareExpert(expert, ready))
        return ready

    def _put(self, tasks: list[RunningProgram] | PrepareExpert) -> None:
        with self._scheduler.submit_lock:
            if self._scheduler.broken is not None:
                raise RuntimeError("this engine has crashed: make a new one") from self._scheduler.broken
            if self._scheduler.stopped:  # by `close`, or since the process exits
                raise RuntimeError("this engine is closed: make a new one")
            if self._thread is None:
                self._thread = threading.Thread(target=self._scheduler.run, name="editcritic-engine", daemon=True)
                start_daemon(self._thread, self._scheduler.stop)
            self._scheduler.inbox.put(tasks)

    def run(
        self,
        programs: Iterable[tuple[Program[Score], EditSample | None]],
        experts: Mapping[str, Expert],
        gave_up: Callable[[], bool] | None = None,
    ) -> Generator[Score, None, None]:
        """Yield scores in the order of the programs, which are consumed lazily (at most `window` in flight).

        Closing the iterator cancels the remaining programs, as `is_wanted` does in `submit`. `wait_for_cancelled` waits
        for their queries in flight.

        Args:
            gave_up: Asked a few times a second; once it is true, programs that are not done fail, and are cancelled
                when the iterator is closed.

        Raises:
            RuntimeError: Where it would wait for ever: in the engine's own thread (a metric asks with `ask` and
                `gather` instead), in a call of an expert that alone could answer, and in a child that was forked after
                the first score.
        """
        self._refuse_own_thread()
        scheduler = self._scheduler
        caller = calling(scheduler.inbox.put)
        source = iter(programs)
        futures: deque[Future[Score]] = deque()
        abandoned: list[Future[Score]] = []
        wake = threading.Event()
        active = 0
        exhausted = False
        is_open = threading.Event()
        is_open.set()
        new_tasks: list[RunningProgram] = []
        finished: SimpleQueue[None] = SimpleQueue()

        def done(_: Future[Score]) -> None:
            finished.put(None)
            wake.set()

        try:
            while True:
                if self._scheduler is not scheduler:
                    futures.clear()
                    raise RuntimeError("these scores were begun before this process was forked: begin them anew in it")
                with contextlib.suppress(Empty):
                    while True:
                        finished.get_nowait()
                        active -= 1
                # A slow first program must not stop the others, but the number of finished scores behind it is bounded.
                while not exhausted and active < self.window and len(futures) < 16 * self.window:
                    item = next(source, None)
                    if item is None:
                        exhausted = True
                        break
                    future: Future[Score] = Future()
                    future.add_done_callback(done)
                    futures.append(future)
                    active += 1
                    task = RunningProgram(
                        item[0], experts, item[1], future=future, is_wanted=is_open.is_set, caller=caller
                    )
                    new_tasks.append(task)
                    del item, future, task
                    if len(new_tasks) == _SUBMIT_CHUNK:
                        break
                if new_tasks:
                    self._put(new_tasks)
                    new_tasks = []
                    continue
                if not futures and exhausted:
                    return
                if futures and futures[0].done():
                    yield futures.popleft().result()
                    continue
                if futures and gave_up is not None and gave_up():
                    abandoned.append(futures.popleft())
                    yield Score.failed(_GAVE_UP, cause="infrastructure")
                    continue
                wake.wait(None if gave_up is None else _GAVE_UP_POLL_S)
                wake.clear()
        finally:
            is_open.clear()
            submitted = {*futures, *abandoned} - {task.future for task in new_tasks}
            self._cancelled |= submitted
            for future in submitted:
                future.add_done_callback(self._cancelled.discard)

    def wait_for_cancelled(self) -> None:
        """Wait until no query of a `run` that was closed early is in flight. Not in the engine's own thread."""
        self._refuse_own_thread()
        wait(self._cancelled.copy())

    def _refuse_own_thread(self) -> None:
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                "a metric (or an expert's id or rewrite_query) used a reward on the engine that runs it: the engine "
                "would wait for itself. Let the metric `yield from gather([metric(sample), ...])` or `ask(...)`, or "
                "give that reward an engine of its own"
            )

    @property
    def is_open(self) -> bool:
        """Whether it takes samples: it was not closed, and its scheduler did not break."""
        return not self._scheduler.stopped and self._scheduler.broken is None

    def stats(self) -> Stats:
        """Counts since the engine was made."""
        return self._scheduler.snapshot()

    def reset_circuit(self, expert: Expert) -> None:
        """Close an expert's circuit: its failure count is reset, and a new thread loads it if the old ones hang."""
        self._scheduler.inbox.put(ResetCircuit(expert.id))

    def try_circuit(self, expert: Expert) -> None:
        """Let an expert whose circuit is open have a trial batch now, which closes it if it is answered."""
        self._scheduler.inbox.put(ResetCircuit(expert.id, trial=True))

    def down_experts(self) -> dict[str, str]:
        """Experts whose circuit is open, by id, with the reason."""
        return {queue.id: queue.down_reason for queue in list(self._scheduler.queues.values()) if queue.down_reason}

    def close(self) -> None:
        """Stop the engine. Programs in flight fail; logged answers are kept."""
        with self._scheduler.submit_lock:
            self._finalizer()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
