"""Progress of a run: rate, time left and usage."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..common.terminal import echo
from .run_budget import Usage


@dataclass(frozen=True, slots=True)
class RunProgress:
    """done of total items; `reused` of them are from earlier runs, `failed` have no score. seconds: since the start."""

    done: int
    total: int
    reused: int
    seconds: float
    usage: Usage = field(default_factory=Usage)
    failed: int = 0

    @property
    def items_per_second(self) -> float | None:
        """Newly scored items per second; None before the first."""
        fresh = self.done - self.reused
        return fresh / self.seconds if fresh and self.seconds > 0 else None

    @property
    def remaining_s(self) -> float | None:
        """Estimated seconds left."""
        return None if self.items_per_second is None else (self.total - self.done) / self.items_per_second

    def __str__(self) -> str:
        parts = [f"{self.done} of {self.total}"]
        if self.items_per_second is not None and self.remaining_s is not None:
            parts += [
                f"{self.items_per_second:.3g} a second"
                if self.items_per_second >= 1
                else f"{1 / self.items_per_second:.3g} s each"
            ]
            parts += [f"{_format_duration(self.remaining_s)} left"] if self.done < self.total else []
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        if self.usage.judge_calls:
            parts.append(f"{self.usage.judge_calls:,} judge calls")
        if self.usage.tokens:
            parts.append(f"{self.usage.tokens:,} tokens")
        if self.usage.cost:
            parts.append(f"cost {self.usage.cost:.4g}")
        if self.usage.requests_without_usage:
            parts.append(f"tokens of {self.usage.requests_without_usage:,} requests unknown")
        return ", ".join(parts)


ProgressCallback = Callable[[RunProgress], None]


def ignore_progress(progress: RunProgress) -> None:
    """A callback that does nothing."""


@contextmanager
def progress_reporter(label: str, *, shown: bool = True, every_s: float = 30.0) -> Iterator[ProgressCallback]:
    """A status line on a terminal; elsewhere one line every `every_s` seconds."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    reported_at = time.monotonic()

    if shown and console.is_terminal:
        with console.status(label) as status:
            yield lambda progress: status.update(f"{label}: {progress}")
        return

    def report(progress: RunProgress) -> None:
        nonlocal reported_at
        if shown and time.monotonic() - reported_at >= every_s:
            reported_at = time.monotonic()
            echo(f"editcritic: {label}: {progress}")

    yield report


def _format_duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
