"""How far a run is: rate, time left, and what it has spent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..terminal import say
from .spending import Spent


@dataclass(frozen=True, slots=True)
class Progress:
    """done of total items; `known` of those from before this run. seconds: since it began."""

    done: int
    total: int
    known: int
    seconds: float
    spent: Spent = field(default_factory=Spent)

    @property
    def rate(self) -> float | None:
        """Items a second, of those that had to be judged; None before the first."""
        fresh = self.done - self.known
        return fresh / self.seconds if fresh and self.seconds > 0 else None

    @property
    def left_s(self) -> float | None:
        """Seconds that the rest takes at that rate."""
        return None if self.rate is None else (self.total - self.done) / self.rate

    def __str__(self) -> str:
        said = [f"{self.done} of {self.total}"]
        if self.rate is not None and self.left_s is not None:
            said += [f"{self.rate:.3g} a second" if self.rate >= 1 else f"{1 / self.rate:.3g} s each"]
            said += [f"{_clock(self.left_s)} left"] if self.done < self.total else []
        if self.spent.judge_calls:
            said.append(f"{self.spent.judge_calls:,} judge calls")
        if self.spent.tokens:
            said.append(f"{self.spent.tokens:,} tokens")
        if self.spent.spend:
            said.append(f"{self.spent.spend:.4g} spent")
        return ", ".join(said)


Watch = Callable[[Progress], None]


def unwatched(progress: Progress) -> None:
    """Nobody looks."""


@contextmanager
def watched(what: str, *, shown: bool = True, every_s: float = 30.0) -> Iterator[Watch]:
    """A line that is kept current on a terminal; one every so many seconds elsewhere."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    told = time.monotonic()

    if shown and console.is_terminal:
        with console.status(what) as status:
            yield lambda progress: status.update(f"{what}: {progress}")
        return

    def tell(progress: Progress) -> None:
        nonlocal told
        if shown and time.monotonic() - told >= every_s:
            told = time.monotonic()
            say(f"editcritic: {what}: {progress}")

    yield tell


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
