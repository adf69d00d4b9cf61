"""Calls are counted before they are made: by role, by price, by the usage that a judge reports."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.run.run_budget import BudgetLimits, BudgetTracker, Usage
from editcritic.reward import Expert
from editcritic.reward.experts.judge_adapters import JudgeReader, QInsight
from editcritic.reward.experts.openai_judge import OpenAIJudge
from editcritic.reward.queries import AsyncExpert, Failure, Judge, Message, Rate, ReadText, Reply, YesNo
from editcritic.reward.queries.answers import Outcome

from ..suites.tiny_suite import CoinJudge, picture


class Dear(AsyncExpert):
    """A served judge that reports half a dollar and ten tokens a question."""

    id, kinds = "dear@1", (Judge,)
    num_queries = 0

    async def answer(self, query: Judge) -> Outcome:
        self.num_queries += 1
        return Reply("yes", probabilities={"yes": 1.0, "no": 0.0})

    def usage(self) -> Mapping[str, float]:
        number = self.num_queries
        return {"usd": 0.5 * number, "prompt_tokens": 8 * number, "completion_tokens": 2 * number}


def questions(count: int) -> list[Judge]:
    return [Judge((Message((f"Is it {number}?", picture(0))),), YesNo()) for number in range(count)]


def answered(outcomes: Sequence[Outcome]) -> int:
    return sum(not isinstance(outcome, Failure) for outcome in outcomes)


def test_calls_have_the_price_of_their_role():
    judge, other = CoinJudge(), CoinJudge()
    spending = BudgetTracker({"judge": judge, "judge.quality": judge, "reader": other}, {"judge": 0.25})
    assert spending.experts["judge"] is spending.experts["judge.quality"]
    spending.experts["judge"](questions(3))
    spending.experts["reader"](questions(2))
    assert spending.usage == Usage({"judge, judge.quality": 3, "reader": 2}, 3, 0, 0.75)


@pytest.mark.parametrize(
    ("role", "prices", "limits", "options", "calls", "message"),
    [
        ("judge", {"judge": 0.25}, {"cost": 1.0}, {}, 4, "the budget of 1 cost is spent (1 by now)"),
        ("judge", {}, {"judge_calls": 10}, {"before": Usage(judge_calls=4), "share": 0.5}, 3, "(7 by now, of which"),
        ("reader", {}, {"judge_calls": 1}, {}, 9, ""),  # it is no judge
        ("judge", {}, {"seconds": 1e-9}, {}, 0, "seconds"),
    ],
)
def test_no_call_is_made_that_there_is_no_budget_for(role, prices, limits, options, calls, message):
    judge = CoinJudge()
    spending = BudgetTracker({role: judge}, prices, BudgetLimits(**limits), **options)
    assert answered(spending.experts[role](questions(9))) == judge.num_queries == calls
    assert message in spending.exhausted
    assert bool(message) == bool(spending.exhausted)
    assert answered(spending.experts[role](questions(1))) == (not message)


def test_a_judge_that_reports_money_and_tokens_is_believed():
    judge = Dear()
    spending = BudgetTracker({"judge": judge}, {}, BudgetLimits(cost=1.5))
    desk: Any = spending.experts["judge"]
    assert answered([asyncio.run(desk.answer(query)) for query in questions(5)]) == judge.num_queries == 3
    assert (spending.usage.tokens, spending.usage.cost) == (30, 1.5)


class DearOnce(Expert):
    """As `Dear`, many questions at once."""

    id = "dear-once@1"
    kinds = (Judge,)
    usage = Dear.usage
    num_queries = 0

    def __call__(self, queries: Sequence[Judge]) -> list[Outcome]:
        self.num_queries += len(queries)
        return [Reply("text") for _ in queries]


READ = [ReadText(picture(0))]


def test_what_an_expert_asks_of_a_bound_judge_is_counted_once_and_has_its_limits():
    judge = DearOnce()
    spending = BudgetTracker({"judge": judge, "reader": JudgeReader(judge)}, {}, BudgetLimits(cost=1.0))
    reader = spending.experts["reader"]
    assert [answered(reader(READ)) for _ in range(4)] == [1, 1, 0, 0]
    assert (spending.usage.tokens, spending.usage.cost, spending.usage.judge_calls) == (20, 1.0, 2)
    assert answered(spending.experts["judge"](questions(1))) == 0

    judge = DearOnce()
    spending = BudgetTracker({"judge": judge, "reader": JudgeReader(judge)}, {}, BudgetLimits(judge_calls=3))
    assert answered(spending.experts["judge"](questions(2))) == 2
    assert [answered(spending.experts["reader"](READ)) for _ in range(2)] == [1, 0]


def test_what_an_expert_asks_has_the_price_of_the_judge_and_its_own_comes_first():
    judge = DearOnce()
    experts = {"judge": judge, "reader": JudgeReader(judge), "preference": QInsight(judge, draws=4, temperature=1.0)}
    for prices, cost in (({"judge": 2.0}, 2 + 8), ({"judge": 2.0, "reader": 0.5}, 0.5 + 8)):
        spending = BudgetTracker(experts, prices)
        spending.experts["reader"](READ)
        spending.experts["preference"]([Rate(picture(0), quality="image")])
        assert spending.usage.cost == cost
    alone = BudgetTracker({"reader": JudgeReader(DearOnce())}, {})  # a judge that nobody else has is the reader's
    alone.experts["reader"](READ)
    assert (alone.usage.tokens, alone.usage.cost) == (10, 0.5)
    with pytest.raises(InputError, match="detector"):
        BudgetTracker(experts, {"detector": 1.0})


@pytest.mark.parametrize("text", ["calls=3", "cost=much", "cost=-1", "seconds=0", "judge_calls"])
def test_budgets_that_are_none_are_refused(text):
    with pytest.raises(InputError, match="budget"):
        BudgetLimits.parse(text)


class Silent(DearOnce):
    """As `DearOnce`, from a server that stops reporting tokens after `reports` questions."""

    id = "silent@1"
    reports = 3

    def usage(self) -> Mapping[str, float]:
        unknown = max(0, self.num_queries - self.reports)
        counts = {"requests": self.num_queries, "requests_without_usage": unknown, "prompt_tokens": 8}
        return counts if unknown else {**counts, "usd": 0.5 * self.num_queries}


def test_a_limit_of_the_cost_ends_where_the_cost_is_unknown():
    judge = Silent()
    spending = BudgetTracker({"judge": judge, "reader": JudgeReader(judge)}, {}, BudgetLimits(cost=100.0))
    assert [answered(spending.experts["judge"](questions(1))) for _ in range(6)] == [1, 1, 1, 1, 0, 0]
    assert "the cost of 1 requests of judge is unknown" in spending.exhausted
    assert answered(spending.experts["reader"](READ)) == 0
    assert spending.usage.cost == 1.5  # what was known, and no less
    assert spending.usage.requests_without_usage == 1
    assert Usage.from_json((spending.usage + spending.usage).to_json()).requests_without_usage == 2
    told = "the cost of 1 requests of judge is unknown, since the server reported no"
    spending = BudgetTracker({"judge": judge, "reader": JudgeReader(judge)}, {}, BudgetLimits(cost=100.0))
    assert answered(spending.experts["judge"](questions(5))) == 0  # nor is it asked in another run
    assert answered(spending.experts["reader"](READ)) == 0
    assert spending.exhausted.startswith(told)
    assert judge.num_queries == 4


def test_an_unknown_cost_of_earlier_runs_ends_a_run_that_goes_on():
    before = Usage({"judge": 9}, 9, 0, 0.0, 7)
    judge = Silent()
    experts = {"judge": judge, "reader": JudgeReader(judge)}
    spending = BudgetTracker(experts, {}, BudgetLimits(cost=100.0), before)
    assert answered(spending.experts["reader"](READ)) + answered(spending.experts["judge"](questions(2))) == 0
    assert "7 requests of earlier runs, which may have been of judge, is unknown" in spending.exhausted
    assert judge.num_queries == 0
    for prices, limits in (({"judge": 1.0}, BudgetLimits(cost=100.0)), ({}, BudgetLimits(judge_calls=100))):
        for earlier in (before, None):  # with a price per call, or without a limit of the cost, all is asked
            judge = Silent()
            spending = BudgetTracker({"judge": judge}, prices, limits, earlier)
            assert [answered(spending.experts["judge"](questions(1))) for _ in range(6)] == [1] * 6
            assert not spending.exhausted
    local = BudgetTracker({"judge": CoinJudge()}, {}, BudgetLimits(cost=1.0), before)  # asks no server: not its cost
    assert answered(local.experts["judge"](questions(2))) == 2


def test_a_limit_of_the_cost_needs_one_that_is_reported():
    url = "http://127.0.0.1:9/v1"
    with pytest.raises(InputError, match=r"needs the cost of judge, .* give usd_per_million_in"):
        BudgetTracker({"judge": OpenAIJudge("m", url)}, {}, BudgetLimits(cost=1.0))
    priced = OpenAIJudge("m", url, usd_per_million_in=1.0, usd_per_million_out=2.0)
    for experts, prices in (
        ({"judge": priced}, {}),
        ({"judge": OpenAIJudge("m", url)}, {"judge": 0.1}),
        ({"judge": priced, "reader": JudgeReader(priced)}, {}),
        ({"detector": CoinJudge()}, {}),
    ):
        BudgetTracker(experts, prices, BudgetLimits(cost=1.0))
