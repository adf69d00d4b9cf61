"""Calls are counted before they are made: by role, by price, by what a judge reports itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from editcritic.benchmarks.inputs import InputError
from editcritic.benchmarks.suite_run.spending import Limits, Spending, Spent, prices_of
from editcritic.reward import AsyncExpert, Expert, Failure, Judge, Message, Reply, YesNo
from editcritic.reward.query import Outcome

from ..suites.toy import CoinJudge, picture


class Dear(AsyncExpert):
    """A served judge that reports half a dollar and ten tokens a question."""

    id = "dear@1"
    kinds = (Judge,)

    def __init__(self) -> None:
        self.asked = 0

    async def answer(self, query: Judge) -> Outcome:
        self.asked += 1
        return Reply("yes", probabilities={"yes": 1.0, "no": 0.0})

    def meter(self) -> Mapping[str, float]:
        return {"usd": 0.5 * self.asked, "prompt_tokens": 8 * self.asked, "completion_tokens": 2 * self.asked}


def questions(count: int) -> list[Judge]:
    return [Judge((Message((f"Is it {number}?", picture(0))),), YesNo()) for number in range(count)]


def answered(outcomes: Sequence[Outcome]) -> int:
    return sum(not isinstance(outcome, Failure) for outcome in outcomes)


def test_calls_have_the_price_of_their_role() -> None:
    judge, other = CoinJudge(), CoinJudge()
    spending = Spending({"judge": judge, "judge.quality": judge, "reader": other}, {"judge": 0.25})
    assert spending.experts["judge"] is spending.experts["judge.quality"]
    spending.experts["judge"](questions(3))
    spending.experts["reader"](questions(2))
    assert spending.spent == Spent({"judge, judge.quality": 3, "reader": 2}, 3, 0, 0.75)


def test_no_call_is_made_that_there_is_no_budget_for() -> None:
    judge = CoinJudge()
    spending = Spending({"judge": judge}, {"judge": 0.25}, Limits(spend=1.0))
    assert answered(spending.experts["judge"](questions(9))) == judge.asked == 4
    assert spending.ended == "the budget of 1 spend is spent (1 by now)"
    assert answered(spending.experts["judge"](questions(1))) == 0


def test_what_earlier_runs_took_counts_and_processes_share_what_is_left() -> None:
    judge = CoinJudge()
    spending = Spending({"judge": judge}, {}, Limits(judge_calls=10), Spent(judge_calls=4), share=0.5)
    assert answered(spending.experts["judge"](questions(9))) == 3


def test_others_than_judges_are_not_judge_calls() -> None:
    reader = CoinJudge()
    spending = Spending({"reader": reader}, {}, Limits(judge_calls=1))
    assert answered(spending.experts["reader"](questions(5))) == 5
    assert not spending.ended


def test_a_judge_that_reports_money_and_tokens_is_believed() -> None:
    judge = Dear()
    spending = Spending({"judge": judge}, {}, Limits(spend=1.5))
    desk = spending.experts["judge"]
    assert isinstance(desk, AsyncExpert)
    outcomes = [asyncio.run(_asked(desk, query)) for query in questions(5)]
    assert answered(outcomes) == judge.asked == 3
    assert (spending.spent.tokens, spending.spent.spend) == (30, 1.5)


async def _asked(desk: AsyncExpert, query: Judge) -> Outcome:
    return await desk.answer(query)


def test_time_that_is_over_ends_everything() -> None:
    judge: Expert = CoinJudge()
    spending = Spending({"judge": judge}, {}, Limits(seconds=1e-9))
    assert answered(spending.experts["judge"](questions(2))) == 0
    assert "seconds" in spending.ended


@pytest.mark.parametrize("text", ["calls=3", "spend=much", "spend=-1", "seconds=0", "judge_calls"])
def test_budgets_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="budget"):
        Limits.of(text)


@pytest.mark.parametrize("text", ["judge", "judge=dear", "=1", "judge=-1", "judge=nan"])
def test_prices_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--price"):
        prices_of([text])


def test_a_price_of_nobody_is_refused() -> None:
    with pytest.raises(InputError, match="detector"):
        Spending({"judge": CoinJudge()}, {"detector": 1.0})
