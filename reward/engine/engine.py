"""The engine: many programs at once, every question once, experts in large batches.

`Engine` is the handle; its state lives with the scheduler's thread (`scheduler.py`), and experts are called in threads
of their own (`caller.py`).
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import Future, wait
from queue import Empty, SimpleQueue

from .answers import AnswerLog
from .asking import Asks
from .desks import Prepare, Reload, Task
from .expert import Expert
from .sample import EditSample
from .scheduler import Scheduler
from .score import Score
from .stats import Stats
from .threads import start


class Engine:
    """Runs programs. Use it through a `Reward`, or share one among several rewards so that they share answers.

    window: programs in flight at a time in `run`; bounds memory. log: keeps answers on disk. memory_bytes: bounds the
    answers kept in memory (least recently used go first). breaker: so many crashes in a row on single queries, with no
    answer between, and an expert counts as dead; so does one that raises `ExpertDown`. A dead expert is tried again
    with one batch every `cooldown_s`; one whose every thread hangs stays dead until `reload`. reproducible: experts
    see one query a call, so that floating-point results cannot depend on batch companions.
    """

    def __init__(
        self,
        *,
        window: int = 256,
        log: AnswerLog | None = None,
        memory_bytes: int = 512 * 2**20,
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
        self._scheduler = Scheduler(log, memory_bytes, breaker, cooldown_s, reproducible)
        self._started = False
        self._abandoned: set[Future[Score]] = set()
        self._finalizer = weakref.finalize(self, self._scheduler.stop)

    def submit(
        self,
        program: Asks[Score],
        experts: Mapping[str, Expert],
        sample: EditSample | None = None,
        *,
        wanted: Callable[[], bool] | None = None,
    ) -> Future[Score]:
        """Start a program; thread-safe. `experts` binds roles (`judge` also serves `judge.quality`).

        wanted: whether anybody waits for the score still; asked in the engine's thread. Once nobody does the program
        fails at its next step, and what it alone has asked is not answered, unless an expert is at it already.
        """
        future: Future[Score] = Future()
        self._put([Task(program, experts, sample, future=future, engine=self, wanted=wanted)])
        return future

    def prepare(self, expert: Expert) -> Future[str]:
        """Have an expert get ready (load its weights, say) before it is asked; one that is dead gets another chance.

        The result: why it is down, or nothing. Thread-safe, and returns at once.
        """
        if not isinstance(expert, Expert):
            raise TypeError(f"{type(expert).__name__} is not an Expert")
        ready: Future[str] = Future()
        self._put(Prepare(expert, ready))
        return ready

    def _put(self, tasks: list[Task] | Prepare) -> None:
        with self._scheduler.gate:
            if self._scheduler.broken is not None:
                raise RuntimeError("this engine broke down: make a new one") from self._scheduler.broken
            if not self._finalizer.alive:
                raise RuntimeError("this engine is closed: make a new one")
            if not self._started:
                thread = threading.Thread(target=self._scheduler.work, name="editcritic-engine", daemon=True)
                start(thread, self._scheduler.stop)
                self._started = True
            self._scheduler.inbox.put(tasks)

    def run(
        self, programs: Iterable[tuple[Asks[Score], EditSample | None]], experts: Mapping[str, Expert]
    ) -> Generator[Score, None, None]:
        """Scores in the order of the programs, which are taken as there is room (at most `window` at a time).

        When the iterator is closed, what has not been scored is no longer wanted, as in `submit`.
        `wait_for_abandoned` waits for what an expert is at.
        """
        source = iter(programs)
        waiting: deque[Future[Score]] = deque()
        wake = threading.Event()
        active = 0
        ended = False
        wanted = threading.Event()
        wanted.set()
        fresh: list[Task] = []
        finished: SimpleQueue[None] = SimpleQueue()

        def done(_: Future[Score]) -> None:
            finished.put(None)
            wake.set()

        try:
            while True:
                with contextlib.suppress(Empty):
                    while True:
                        finished.get_nowait()
                        active -= 1
                # A slow head must not stop the others, but what piles up behind it is bounded too.
                while not ended and active < self.window and len(waiting) < 16 * self.window:
                    item = next(source, None)
                    if item is None:
                        ended = True
                        break
                    future: Future[Score] = Future()
                    future.add_done_callback(done)
                    waiting.append(future)
                    active += 1
                    fresh.append(Task(item[0], experts, item[1], future=future, wanted=wanted.is_set))
                    del item, future
                    if len(fresh) == _PUT:
                        break
                if fresh:
                    self._put(fresh)
                    fresh = []
                    continue
                if not waiting and ended:
                    return
                if waiting and waiting[0].done():
                    yield waiting.popleft().result()
                    continue
                wake.wait()
                wake.clear()
        finally:
            wanted.clear()
            started = set(waiting) - {task.future for task in fresh}
            self._abandoned |= started
            for future in started:
                future.add_done_callback(self._abandoned.discard)

    def wait_for_abandoned(self) -> None:
        """Wait until nothing of a `run` that was closed early is with an expert any more."""
        wait(self._abandoned.copy())

    @property
    def is_open(self) -> bool:
        return self._finalizer.alive and self._scheduler.broken is None

    def stats(self) -> Stats:
        """Counts since the engine was made."""
        return self._scheduler.snapshot()

    def reload(self, expert: Expert) -> None:
        """Give a dead expert another chance: its breaker is reset and a fresh thread will load it."""
        self._scheduler.inbox.put(Reload(expert.id))

    def dead(self) -> dict[str, str]:
        """Experts that count as dead, by id, with the reason."""
        return {desk.id: desk.dead for desk in list(self._scheduler.desks.values()) if desk.dead}

    def close(self) -> None:
        """Stop taking work. What is in flight is failed; answers already logged stay."""
        with self._scheduler.gate:
            self._finalizer()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_PUT = 32
"""`run` hands programs over in lots: enough to make a batch, and not so many that experts wait for pictures to load."""
