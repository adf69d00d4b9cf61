"""Experts can be loaded before their first query, as servers do."""

import threading
from typing import Any

import pytest

from editcritic.reward import Engine
from editcritic.reward.queries.answers import Outcome
from editcritic.reward.queries.expert import AsyncExpert, ExpertDown

from .fakes import Fake, Held, asks, known, run_all


class Loading(Fake):
    """Records the threads of its loads and calls, and fails to load with `problem`."""

    def __init__(self, problem: str = "") -> None:
        super().__init__()
        self.problem = problem
        self.loads: list[int] = []
        self.answered: list[int] = []

    def load(self) -> None:
        self.loads.append(threading.get_ident())
        if self.problem:
            raise ExpertDown(self.problem)

    def __call__(self, queries: Any) -> Any:
        self.answered.append(threading.get_ident())
        return super().__call__(queries)


def test_experts_are_loaded_once_or_dead_until_prepared_again():
    expert = Loading()
    with Engine() as engine:
        assert engine.prepare(expert).result(30) == ""
        assert not expert.answered
        run_all(engine, [asks(1), asks(2)], expert)
        assert engine.prepare(expert).result(30) == ""
        assert expert.loads == [expert.answered[0]]
        assert engine.stats().experts["fake"].queries == 2
    expert = Loading("no weights")
    with Engine() as engine:
        assert engine.prepare(expert).result(30) == "no weights"
        assert engine.down_experts() == {"fake": "no weights"}
        expert.problem = ""
        assert engine.prepare(expert).result(30) == ""
        assert engine.down_experts() == {}
        assert run_all(engine, [asks(1)], expert)[0].status == "scored"


def test_one_that_is_at_work_is_ready() -> None:
    expert = Held()
    with Engine() as engine:
        future = engine.submit(asks(1), {"preference": expert})
        assert expert.begun.wait(30)
        assert engine.prepare(expert).result(30) == ""
        expert.go.set()
        assert future.result(30).status == "scored"


class Hanging(Held):
    def load(self) -> None:
        self.go.wait(30)


def test_nobody_waits_for_one_that_hangs_while_it_loads_or_for_a_closed_engine() -> None:
    hanging = [Hanging(deadline_s=0.1), Hanging()]
    with Engine() as engine:
        assert "no answer within 0.1 s" in engine.prepare(hanging[0]).result(30)
        assert "until it is reset" in engine.down_experts()["fake"]
    engine = Engine()
    waiting = engine.prepare(hanging[1])
    engine.close()
    assert "closed" in waiting.result(30)
    for expert in hanging:
        expert.go.set()
    with pytest.raises(RuntimeError, match="closed"):
        engine.prepare(Fake())


def test_odd_and_served_experts_are_prepared():
    class Odd(Fake):
        def usage(self) -> dict[str, float]:
            raise OSError("gone")

    with Engine() as engine:
        assert "gone" in engine.prepare(Odd(name="odd")).result(30)
        assert run_all(engine, [asks(1)], Fake())[0].status == "scored"
        with pytest.raises(TypeError, match="not an Expert"):
            engine.prepare("fake")  # type: ignore[arg-type]

    class Served(AsyncExpert):
        id = "served"
        kinds = Fake.kinds
        loads = 0

        def load(self) -> None:
            self.loads += 1

        async def answer(self, query: object) -> Outcome:
            return known(query)  # type: ignore[arg-type]

    expert = Served()
    with Engine() as engine:
        assert engine.prepare(expert).result(30) == ""
        assert run_all(engine, [asks(1)], expert)[0].status == "scored"
    assert expert.loads == 1
