"""Experts that ask a reward on their own engine: which of them wait for themselves.

A call of an expert may use a reward on its engine, as long as others answer. If all workers of an expert are in calls
that wait for this expert, none of them ever ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .expert_queue import ExpertQueue, RunningProgram


@dataclass(frozen=True, slots=True)
class ExpertCall:
    """A call of an expert. report: how its worker reports to the scheduler. blocks_loop: the code that waits runs in
    the expert's event loop, so that all other calls wait too.
    """

    report: Callable[[Any], None]
    expert: str
    number: int
    blocks_loop: bool = False


RUNNING_CALL: ContextVar[ExpertCall | None] = ContextVar("editcritic_expert_call", default=None)
"""The call that this code is part of: see `ExpertThread` and `ExpertLoop`."""


def calling(report: Callable[[Any], None]) -> ExpertCall | None:
    """The call that this code is part of, if it is one of the scheduler that gets these reports."""
    call = RUNNING_CALL.get()
    if call is None or call.report != report:
        return None
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return call
    return replace(call, blocks_loop=True)


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
    """Whether its caller still waits for the program."""
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
