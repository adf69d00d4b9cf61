"""Code in an engine's threads that would wait for itself gets an error that says what to do; other code is answered."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ClassVar

import pytest

from editcritic.reward import Card, EditSample, Engine, Program, Reward, Score, ask
from editcritic.reward.engine import gather
from editcritic.reward.queries import AsyncExpert, Measurement, Rate
from editcritic.reward.queries.kinds import Query

from ..fakes import Fake, Says, alone, asks, known, question, run_all, sample

SOON = 20.0


class Nested:
    """A metric whose program scores with a reward on its own engine, in the wrong or the right way."""

    def __init__(self, nested: Callable[[], Any]) -> None:
        self.nested = nested

    @property
    def card(self) -> Card:
        return Card("nested", 1, "asks a reward", roles=("preference",))

    def __call__(self, sample: EditSample) -> Program[Score]:
        yield from ask(question(1))
        result = self.nested()
        if isinstance(result, Score):
            return result
        (score,) = yield from gather([result])
        return score


def soon(work: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result(SOON)


def test_a_metric_that_calls_a_reward_on_its_own_engine_is_told_so() -> None:
    experts = {"preference": Fake(known)}
    with Engine() as engine:
        inner = Reward(Says(number=2), experts, engine=engine)
        for use in (lambda: inner([sample()])[0], engine.wait_for_cancelled, lambda: next(inner.stream([sample()]))):
            outer = Reward(Nested(use), experts, engine=engine)
            with pytest.raises(RuntimeError, match=r"used a reward on the engine that runs it.*an engine of its own"):
                soon(partial(outer, [sample()]))
        assert inner([sample()])[0].status == "scored"
        apart = Reward(Nested(lambda: Reward(Says(number=2), experts)([sample()])[0]), experts, engine=engine)
        gathered = Reward(Nested(lambda: Says(number=2)(sample())), experts, engine=engine)
        assert soon(lambda: apart([sample()])[0].value) == soon(lambda: gathered([sample()])[0].value)


class Asking(Fake):
    """Asks a reward for every query of number 10 or more, and answers with its value."""

    def __init__(self, **options: Any) -> None:
        super().__init__(self._asked, batch=1, **options)
        self.reward: Any = None
        self.errors: list[str] = []

    def _asked(self, query: Rate) -> Measurement:
        if int(query.prompt) < 10:
            return known(query)
        try:
            (score,) = self.reward([sample()])
        except RuntimeError as error:
            self.errors.append(str(error))
            raise
        return Measurement(score.value)


def test_experts_that_only_themselves_could_answer_are_told_so():
    with Engine() as engine:
        expert = Asking()
        expert.reward = Reward(Says(number=2), {"preference": expert}, engine=engine)
        (score,) = run_all(engine, [asks(10)], expert)
        assert (score.status, len(expert.errors)) == ("failed", 1)
        assert "an expert waits for itself" in score.reason
        assert "Give that reward an engine of its own" in score.reason
        assert run_all(engine, [asks(1)], expert) == [alone(asks(1), known)]
    with Engine() as engine:
        expert = Asking(concurrency=4)
        expert.reward = Reward(Says(number=10), {"preference": expert}, engine=engine)
        (score,) = run_all(engine, [asks(10)], expert)
        assert "an expert waits for itself" in score.reason
    with Engine() as engine:
        first, second = Asking(name="first"), Asking(name="second")
        first.reward = Reward(Says(number=10), {"preference": second}, engine=engine)
        second.reward = Reward(Says(number=11), {"preference": first}, engine=engine)
        (score,) = run_all(engine, [asks(10)], first)
        assert "an expert waits for itself" in score.reason


def test_an_expert_is_answered_by_free_workers_and_other_experts():
    with Engine() as engine:
        expert = Asking(concurrency=2)
        expert.reward = Reward(Says(number=2), {"preference": expert}, engine=engine)
        assert run_all(engine, [asks(10)], expert)[0].value == known(question(2)).value
        scores = run_all(engine, [asks(11), asks(12), asks(13)], expert)  # answered from the cache now
        assert {score.status for score in scores} == {"scored"}
        deeper = Asking(concurrency=3, name="deeper")
        deeper.reward = Reward(Says(number=10), {"preference": deeper}, engine=engine)
        run_all(engine, [asks(14), asks(15), asks(16), asks(17)], deeper)
        assert deeper.errors
    with Engine() as engine:
        expert = Asking()
        expert.reward = Reward(Says(number=2), {"preference": Fake(known, name="other", jitter_s=0.01)}, engine=engine)
        scores = run_all(engine, [asks(number) for number in range(10, 30)], expert)
        assert {score.value for score in scores} == {known(question(2)).value}


class Served(AsyncExpert):
    """Asks a reward inside of its event loop, or in a thread beside it."""

    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (Rate,)
    id = "served"
    concurrency = 8

    def __init__(self, in_thread: bool) -> None:
        self.in_thread = in_thread
        self.reward: Any = None

    async def answer(self, query: Any) -> Measurement:
        if int(query.prompt) < 10:
            return known(query)

        def nested() -> Measurement:
            return Measurement(self.reward([sample()])[0].value)

        return await asyncio.to_thread(nested) if self.in_thread else nested()


@pytest.mark.parametrize("in_thread", [True, False])
def test_a_served_expert_that_blocks_its_own_loop_is_told_so(in_thread: bool) -> None:
    with Engine() as engine:
        expert = Served(in_thread)
        expert.reward = Reward(Says(number=2), {"preference": expert}, engine=engine)
        (score,) = run_all(engine, [asks(10)], expert)
        assert (score.status == "scored") is in_thread
        assert ("an expert waits for itself" in score.reason) is not in_thread
