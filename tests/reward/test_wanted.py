"""Cancelled programs: they stop, and queries that only they wait for are dropped."""

import threading
from typing import Any

import pytest

from editcritic.reward import Engine, Program, Score
from editcritic.reward.engine import gather

from .fakes import Fake, asks, known


class Gated(Fake):
    """Answers a query once `let` is released."""

    def __init__(self) -> None:
        self.reached = threading.Semaphore(0)
        self.let = threading.Semaphore(0)
        super().__init__(self._when_let, batch=1)

    def _when_let(self, query: Any) -> Any:
        self.reached.release()
        assert self.let.acquire(timeout=30)
        return known(query)


def test_what_they_alone_have_asked_is_not_answered_and_what_others_ask_is() -> None:
    expert, needed = Gated(), threading.Event()
    needed.set()
    with Engine() as engine:
        experts = {"preference": expert}
        first = engine.submit(asks(1), experts)
        assert expert.reached.acquire(timeout=30)
        dropped = engine.submit(asks(2, 3), experts, is_wanted=needed.is_set)
        shared = engine.submit(asks(3, 4), experts)
        needed.clear()
        expert.let.release(100)
        assert first.result(30).status == shared.result(30).status == "scored"
        assert dropped.result(30).status == "failed"
        assert "no longer needed" in dropped.result(30).reason
    assert sum(expert.seen.values()) == 3  # 1, 3 and 4


def test_they_stop_at_their_next_step_and_so_do_those_they_gather() -> None:
    expert, needed = Gated(), threading.Event()
    needed.set()
    ended: list[str] = []

    def inner(name: str, number: int) -> Program[Score]:
        try:
            yield from asks(number)
            return (yield from asks(number + 1))
        finally:
            ended.append(name)

    def outer() -> Program[Score]:
        scores = yield from gather([inner("a", 10), inner("b", 20)])
        return scores[0]

    with Engine() as engine:
        future = engine.submit(outer(), {"preference": expert}, is_wanted=needed.is_set)
        assert expert.reached.acquire(timeout=30)
        needed.clear()
        expert.let.release(100)
        assert future.result(30).status == "failed"
        again = engine.submit(asks(10, 20), {"preference": expert})
        assert again.result(30).status == "scored"
    assert sorted(ended) == ["a", "b"]
    assert sum(expert.seen.values()) == 2  # one of 10 and 20 was cached, the other is new


def test_runs_that_end_early_leave_nothing_to_wait_for():
    expert = Gated()
    with Engine() as engine:
        scores = engine.run(((asks(number), None) for number in range(1, 6)), {"preference": expert})
        expert.let.release()
        assert next(scores).status == "scored"
        assert expert.reached.acquire(timeout=30)
        assert expert.reached.acquire(timeout=30)  # the second query is in flight
        scores.close()
        threading.Timer(0.2, expert.let.release, [100]).start()
        engine.wait_for_cancelled()
        assert sum(expert.seen.values()) == 2
        engine.wait_for_cancelled()  # nothing is in flight
        assert engine.submit(asks(3), {"preference": expert}).result(30).status == "scored"

    def programs() -> Any:
        yield asks(1), None
        raise OSError("the disk is gone")

    with Engine() as engine:
        with pytest.raises(OSError, match="the disk is gone"):
            list(engine.run(programs(), {"preference": Fake()}))
        engine.wait_for_cancelled()
