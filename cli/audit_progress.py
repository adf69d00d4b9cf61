"""How far an audit is, and whether it makes sense to go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..reward import Score
    from ..reward.audit import AuditRun

_OUTAGE = 16
"""The last scores that have to fail for reasons of infrastructure for the audit to end."""


@contextmanager
def audit_progress(
    label: str, edits: int, stop: Callable[[], str]
) -> Iterator[tuple[Callable[[], None], Callable[[], str]]]:
    """A status on a terminal, elsewhere a line now and then. Yields two functions: one to call after each edit, and
    `stop`, which is asked between batches and may be the only sign of life for long.
    """
    from ..benchmarks.run.run_progress import RunProgress, progress_reporter

    begun, done = time.monotonic(), 0

    def step() -> None:
        nonlocal done
        done += 1
        show()

    def show() -> None:
        watch(RunProgress(done, edits, 0, time.monotonic() - begun))

    def stop_reason() -> str:
        show()
        return stop()

    with progress_reporter(label) as watch:
        show()
        yield step, stop_reason


def latest_scores(run: AuditRun) -> list[Score]:
    """The last scores of pictures that can be read: of others, an expert may crash without an outage."""
    readable = {family.name for family in run.maker.families if family.relation != "no_number"}
    variants = (trial.variant for trial in reversed(run.trials) if trial.family in readable)
    return [*run.edits[-_OUTAGE:], *reversed([*islice(variants, _OUTAGE)])]


def outage(scores: Sequence[Score], all_known: int = _OUTAGE) -> str:
    """Why the last scores all failed, if that is a matter of infrastructure: nothing more can be found out then.

    all_known: fewer scores are enough where there are so few edits.
    """
    last = scores[-min(_OUTAGE, all_known) :]
    if last and len(last) == min(_OUTAGE, all_known) and all(score.cause == "infrastructure" for score in last):
        return f"the last {len(last)} scores failed: {last[-1].reason}"
    return ""
