"""Best of N: the highest value, whatever the order, the batches and the number of candidates."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from editcritic.reward.queries import Abstention, Measurement
from editcritic.verifiers import BestOfN, Journal

from ..numpy_editor import Painter, graded, judge, pick, read, shown, won, worth


@settings(max_examples=20)  # each is a run or two
@given(n=st.integers(1, 12), more=st.integers(1, 12), seed=st.integers(0, 2**31), levels=st.sampled_from([2, 65536]))
def test_more_candidates_never_lower_the_value(n: int, more: int, seed: int, levels: int) -> None:
    options: dict[str, Any] = {"editor": Painter(levels=levels), "seed": seed, "journal": Journal()}
    (few,), (many,) = pick(BestOfN(n), **options), pick(BestOfN(n + more), **options)
    assert worth(many) >= worth(few)
    assert [one.picture for one in many.candidates[:n]] == [one.picture for one in few.candidates]


@settings(max_examples=20)  # each is a run or two
@given(levels=st.integers(1, 4), seed=st.integers(0, 99), n=st.integers(1, 8))
def test_ties_go_to_the_second_reward_and_then_to_the_lowest_seed(levels: int, seed: int, n: int) -> None:
    second = judge()
    (result,) = pick(BestOfN(n), editor=Painter(levels=levels), seed=seed, tiebreak_reward=graded(second, "second"))
    equal = [one for one in result.candidates if one.value == result.value]
    assert won(result).id == max(equal, key=lambda one: (read(shown(one), "second"), -one.noise.seed)).id
    assert len(second.seen) == (len(equal) if len(equal) > 1 else 0)
    assert result.spent.judge_calls == n + len(second.seen)


@pytest.mark.parametrize("second", [None, graded(judge(rule=lambda _: Abstention("too dark")))])
def test_without_an_answer_of_a_second_reward_the_lowest_seed_wins(second: Any) -> None:
    (result,) = pick(BestOfN(9), editor=Painter(levels=1), tiebreak_reward=second)
    assert won(result).noise.seed == 0
    assert second or result.reason.endswith("the lowest seed among those")


def test_without_any_value_there_is_no_winner() -> None:
    (result,) = pick(BestOfN(3), reward=graded(judge(rule=lambda _: Abstention("too dark"))))
    assert [result.winner, result.picture, result.value] == [None] * 3
    assert result.reason == "none of 3 candidates has a score: too dark"


def test_what_was_rejected_is_no_choice_beside_what_could_not_be_judged() -> None:
    def rule(query: Any) -> Any:
        value = read(query.image, query.prompt)
        return Abstention("too dark to tell") if value > 0.5 else Measurement(0.0)

    (result,) = pick(BestOfN(8), reward=graded(judge(rule=rule), on_failures="none"))
    rejected = sum(one.value == 0.0 for one in result.candidates)
    assert 0 < rejected < 8
    assert result.winner is None
    assert (
        result.reason
        == f"{rejected} of 8 candidates were rejected, and the others could not be judged: too dark to tell"
    )


def test_where_all_can_be_judged_and_all_are_rejected_the_lowest_seed_is_chosen() -> None:
    reward = graded(judge(rule=lambda query: Measurement(0.0)))
    (result,) = pick(BestOfN(4), reward=reward)
    assert result.winner is not None
    assert result.winner.noise.seed == 0
