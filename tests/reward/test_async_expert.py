"""Served experts: all calls of one are independent coroutines of one event loop."""

import asyncio
import gc
import threading
import weakref
from collections import Counter
from typing import Any, ClassVar

import pytest

from editcritic.reward import Engine, ImageError, Score
from editcritic.reward.engine import ask_many
from editcritic.reward.queries import AsyncExpert, ExpertDown, Failure, Measurement, Rate
from editcritic.reward.queries.kinds import Query

from .fakes import known, question, run_all


class Served(AsyncExpert):
    """Answers by a rule after a pause; counts concurrent calls."""

    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (Rate,)

    def __init__(self, rule=known, *, concurrency=4, deadline_s=60.0, patience_s=0.001):
        self.id = "served"
        self.rule = rule
        self.concurrency = concurrency
        self.deadline_s = deadline_s
        self.patience_s = patience_s
        self.seen: Counter[str] = Counter()
        self.threads: set[int] = set()
        self.loads = self.closed = self.now = self.most = self.cancelled = 0

    def load(self):
        self.loads += 1

    async def answer(self, query):
        self.threads.add(threading.get_ident())
        self.seen[query.digest] += 1
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(self.patience_s)
            outcome = self.rule(query)
            return await outcome if asyncio.iscoroutine(outcome) else outcome
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.now -= 1

    async def close(self):
        self.closed += 1

    def usage(self):
        return {"requests": sum(self.seen.values()), "usd": 0.25 * sum(self.seen.values())}


def scores_of(*numbers):
    (answer,) = yield from ask_many([question(number) for number in numbers])
    return Score.of(answer.value or 0.0)


def test_calls_run_side_by_side_up_to_the_limit_and_come_back_to_who_asked():
    expert = Served(concurrency=5)
    with Engine() as engine:
        scores = run_all(engine, [scores_of(number) for number in range(60)], expert)
    assert [score.value for score in scores] == [known(question(number)).value for number in range(60)]
    assert expert.most == 5
    assert len(expert.threads) == 1
    assert expert.loads == 1
    assert set(expert.seen.values()) == {1}


def test_a_slow_call_keeps_nobody_waiting():
    gate = threading.Event()

    async def slow():
        while not gate.is_set():
            await asyncio.sleep(0.001)
        return Measurement(0.5)

    expert = Served(lambda query: slow() if query == question(0) else known(query), concurrency=2)
    with Engine() as engine:
        first, *others = [engine.submit(scores_of(number), {"preference": expert}) for number in range(20)]
        assert all(other.result(60).value is not None for other in others)
        assert not first.done()
        gate.set()
        assert first.result(60).value == 0.5


def test_a_call_past_its_deadline_is_cancelled_and_the_expert_lives_on():
    async def never():
        await asyncio.sleep(3600)

    expert = Served(lambda query: never() if query == question(0) else known(query), concurrency=1, deadline_s=0.2)
    with Engine() as engine:
        late, fine = run_all(engine, [scores_of(0), scores_of(1)], expert)
        assert late.status == "failed"
        assert "no answer within 0.2 s" in late.reason
        assert fine.value == known(question(1)).value
        assert not engine.down_experts()
    assert expert.cancelled == 1


def test_what_is_raised_fails_the_one_query_and_is_asked_again_next_time():
    def rule(query):
        if query == question(0) and expert.seen[query.digest] == 1:
            raise RuntimeError("flaky")
        return known(query)

    expert = Served(rule)
    with Engine() as engine:
        first, other = run_all(engine, [scores_of(0), scores_of(1)], expert)
        assert (first.status, other.status) == ("failed", "scored")
        assert "RuntimeError: flaky" in first.reason
        (again,) = run_all(engine, [scores_of(0)], expert)
        assert again.value == known(question(0)).value


def test_what_crashes_opens_the_breaker_and_an_unread_picture_does_not():
    def rule(query):
        raise RuntimeError("broken")

    expert = Served(rule, concurrency=1)
    with Engine(breaker=3) as engine:
        scores = run_all(engine, [scores_of(number) for number in range(50)], expert)
        assert "3 consecutive failures" in engine.down_experts()["served"]
    assert {score.status for score in scores} == {"failed"}
    assert sum(expert.seen.values()) == 3

    def unread(query):
        raise ImageError("cup.png is truncated")

    with Engine(breaker=3) as engine:
        scores = run_all(engine, [scores_of(number) for number in range(10)], Served(unread))
        assert engine.down_experts() == {}
    assert {(score.status, score.cause) for score in scores} == {("failed", "")}


@pytest.mark.parametrize("error", [ExpertDown("budget of 5 requests is spent"), ConnectionRefusedError("nobody there")])
def test_an_expert_that_is_down_fails_the_rest_without_asking(error):
    def rule(query):
        if sum(expert.seen.values()) > 5:
            raise error
        return known(query)

    expert = Served(rule, concurrency=1)
    with Engine() as engine:
        scores = run_all(engine, [scores_of(number) for number in range(50)], expert)
    assert Counter(score.status for score in scores) == {"scored": 5, "failed": 45}
    assert str(error) in scores[-1].reason
    assert sum(expert.seen.values()) == 6


def test_what_is_no_answer_fails_with_its_words():
    expert = Served(lambda query: "very good")
    with Engine() as engine:
        (score,) = run_all(engine, [scores_of(0)], expert)
    assert score.status == "failed"
    assert "rate expects Measurement, got str" in score.reason
    expert = Served(lambda query: Failure("it refused", raw="I'd rather not."))
    with Engine() as engine:
        (score,) = run_all(engine, [scores_of(0)], expert)
    assert score.reason == "it refused (served)"
    assert [(item.what, item.text) for item in score.evidence] == [("raw output", "I'd rather not.")]


def test_what_it_counts_is_in_the_stats_and_what_it_counted_elsewhere_is_not():
    expert = Served()
    expert([question(9)])
    with Engine() as engine:
        run_all(engine, [scores_of(number) for number in range(3)], expert)
        assert engine.stats().experts["served"].usage["requests"] == 3
        before = engine.stats()
        run_all(engine, [scores_of(number) for number in range(5)], expert)
        spent = engine.stats().since(before)["experts"]["served"]
    assert (spent["queries"], spent["requests"], spent["usd"]) == (2, 2, 0.5)


def test_closing_or_dropping_the_engine_ends_the_loop():
    async def never():
        await asyncio.sleep(3600)

    expert = Served(lambda query: never())
    engine = Engine()
    future = engine.submit(scores_of(0), {"preference": expert})
    while not expert.now:
        assert not future.done()
    engine.close()
    assert future.result(60).status == "failed"
    for thread in threading.enumerate():
        if thread.name == "editcritic served":
            thread.join(60)
            assert not thread.is_alive()
    assert (expert.cancelled, expert.closed) == (1, 1)
    expert = Served()
    engine = Engine()
    run_all(engine, [scores_of(0)], expert)
    gone = weakref.ref(expert)
    threads = [thread for thread in threading.enumerate() if thread.name == "editcritic served"]
    del engine, expert
    for thread in threads:
        thread.join(60)
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("loop", [False, True], ids=["alone", "where an event loop runs"])
def test_outside_of_an_engine_it_answers_a_batch(loop):
    expert = Served(concurrency=3)
    queries = [question(number) for number in range(10)]

    async def notebook():
        return expert(queries)

    assert (asyncio.run(notebook()) if loop else expert(queries)) == [known(query) for query in queries]
    assert (expert.most, expert.closed) == (3, 1)
