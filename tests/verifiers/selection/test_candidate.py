"""Costs add up, and a budget says how much more fits in."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.verifiers import Budget
from editcritic.verifiers.selection import Cost

COSTS = st.builds(Cost, st.integers(0, 1000), st.integers(0, 1000), st.floats(0, 1000))
LIMITS = st.builds(Budget, *[st.none() | st.integers(1, 1000)] * 2, st.none() | st.floats(0.1, 1000))


@given(budget=LIMITS, spent=COSTS, each=COSTS)
def test_as_many_fit_in_as_there_is_room_for(budget: Budget, spent: Cost, each: Cost) -> None:
    room = budget.remaining(spent, each)
    assert bool(budget.exhausted_reason(spent, each)) == (room < 1)
    if 0 < room < math.inf:
        for name in ("nfe", "judge_calls"):
            limit = getattr(budget, name)
            assert limit is None or getattr(spent, name) + room * getattr(each, name) <= limit


def test_without_limits_there_is_always_room() -> None:
    assert Budget().remaining(Cost(10**9, 10**9, 1e9), Cost(1, 1, 1.0)) == math.inf


def test_what_costs_nothing_fits_in_until_the_budget_is_spent() -> None:
    assert Budget(judge_calls=3).remaining(Cost(0, 2), Cost(8)) == math.inf
    assert Budget(judge_calls=3).remaining(Cost(0, 3), Cost(8)) == 0


def test_what_is_lacking_is_said_in_words() -> None:
    assert Budget(nfe=20).exhausted_reason(Cost(16), Cost(8)) == "16 of 20 NFE are spent"
    assert Budget(judge_calls=4).exhausted_reason(Cost(0, 4), Cost()) == "4 of 4 judge calls are spent"


def test_a_budget_is_read_from_words() -> None:
    assert Budget.from_string("nfe=64, seconds=1.5") == Budget(64, None, 1.5)
    assert Budget.from_string("") == Budget()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("steps=3", "nfe, judge_calls, seconds"),
        ("nfe=many", "'many'"),
        ("nfe", "nfe"),
        ("nfe=0", "positive"),
        ("seconds=nan", "positive"),
        ("judge_calls=-1", "positive"),
        ("seconds=inf", "positive"),
    ],
)
def test_what_is_no_budget_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Budget.from_string(text)
