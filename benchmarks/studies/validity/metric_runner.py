"""Where metrics are asked: in this process, or in several, each of which has experts of its own.

Experts that look at small pictures spend their time in Python, and threads of one process share one core of it.
"""

from __future__ import annotations

import gc
import multiprocessing
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Protocol

from ...reward import EditSample, Engine, Expert, build
from ..sceneedit.critics import experts as scene_experts
from ..sceneedit.experts.noise import Noisy, Remembering
from .metrics import Tried
from .study import Row, ask_all

WINDOW = 1024
"""Programs in flight: some fifty cases."""

_CHUNK = 20
"""Cases that go to a process at a time."""

Step = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Noise:
    """How experts err: `misses`, `false_alarms`, `flips` or `bias`, at a level in [0, 1]."""

    kind: str
    level: float
    seed: int

    def on(self, experts: Mapping[str, Expert]) -> dict[str, Expert]:
        """These experts, erring. Those that serve several roles stay one expert."""
        made = {id(one): Noisy(one, **{self.kind: self.level}, seed=self.seed) for one in experts.values()}
        return {role: made[id(one)] for role, one in experts.items()}


@dataclass(frozen=True, slots=True)
class Counts:
    """Questions that experts were asked, and those of them that they had answered before."""

    asked: int = 0
    known: int = 0


class Asker(Protocol):
    """Asks metrics about samples, with or without noise on the answers, and remembers every answer."""

    def ask(
        self,
        tried: Sequence[Tried],
        samples: Iterable[EditSample],
        *,
        noise: Noise | None = None,
        step: Step = lambda: None,
    ) -> Iterator[Row]:
        """A row for each sample and metric, in order. `step` is called after each sample."""

    def counts(self) -> Counts:
        """Of all experts, since the beginning."""


class Desk:
    """Asks in this process. Whatever was asked before costs nothing, under noise too."""

    def __init__(self, experts: Mapping[str, Expert]) -> None:
        made = {id(one): Remembering(one) for one in experts.values()}  # one that serves several roles stays one
        self._experts = {role: made[id(one)] for role, one in experts.items()}
        self._each = list(made.values())

    def ask(
        self,
        tried: Sequence[Tried],
        samples: Iterable[EditSample],
        *,
        noise: Noise | None = None,
        step: Step = lambda: None,
    ) -> Iterator[Row]:
        """See `Asker`."""
        experts = self._experts if noise is None else noise.on(self._experts)
        with Engine(window=WINDOW) as engine:
            yield from ask_all(tried, samples, experts, engine, step=step)

    def counts(self) -> Counts:
        """See `Asker`."""
        return Counts(sum(one.asked for one in self._each), sum(one.known for one in self._each))


class Crew:
    """Asks in several processes with SceneEdit's experts. A sample always goes to the same one, which remembers it.

    Metrics travel by their specs. To be closed, or used in a `with` statement.
    """

    def __init__(self, processes: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pools = [ProcessPoolExecutor(1, mp_context=context, initializer=_sit_down) for _ in range(processes)]

    def ask(
        self,
        tried: Sequence[Tried],
        samples: Iterable[EditSample],
        *,
        noise: Noise | None = None,
        step: Step = lambda: None,
    ) -> Iterator[Row]:
        """See `Asker`."""
        shares: list[list[tuple[int, EditSample]]] = [[] for _ in self._pools]
        for place, sample in enumerate(samples):
            shares[zlib.crc32(sample.id.encode()) % len(shares)].append((place, sample))
        specs = [(one.spec, one.truth) for one in tried]
        waiting: dict[Future[list[Row]], list[int]] = {}
        for pool, share in zip(self._pools, shares, strict=True):
            for start in range(0, len(share), _CHUNK):
                some = share[start : start + _CHUNK]
                work = pool.submit(_asked, specs, [sample for _, sample in some], noise)
                waiting[work] = [place for place, _ in some]
        found: dict[int, list[Row]] = {place: [] for places in waiting.values() for place in places}
        for done in as_completed(waiting):
            for row in done.result():
                place = waiting[done][row.case]
                found[place].append(replace(row, case=place))
            for _ in waiting[done]:
                step()
        for place in sorted(found):
            yield from found[place]

    def counts(self) -> Counts:
        """See `Asker`."""
        each = [pool.submit(_counted).result() for pool in self._pools]
        return Counts(sum(one.asked for one in each), sum(one.known for one in each))

    def close(self) -> None:
        """Let the processes go; what they have not begun is left undone."""
        for pool in self._pools:
            pool.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# -- in the processes -------------------------------------------------------------------------------------------------

_desk: Desk | None = None


def _sit_down() -> None:
    global _desk  # noqa: PLW0603  (a process has one desk, and its pool no other place to keep it)
    gc.set_threshold(50_000, 20, 100)  # what is remembered is no garbage: looking through it takes a tenth of the time
    _desk = Desk(scene_experts())


def _asked(specs: Sequence[tuple[str, str]], samples: Sequence[EditSample], noise: Noise | None) -> list[Row]:
    assert _desk is not None
    tried = [Tried(spec, build(spec), truth) for spec, truth in specs]  # type: ignore[arg-type]
    return list(_desk.ask(tried, samples, noise=noise))


def _counted() -> Counts:
    assert _desk is not None
    return _desk.counts()
