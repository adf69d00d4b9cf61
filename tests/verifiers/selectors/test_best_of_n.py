"""Best of N: the highest value, whatever the order, the batches and the number of candidates."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from editcritic.reward.queries import Abstention, Failure, Measurement
from editcritic.verifiers import BestOfN, Journal, Selection, select
from editcritic.verifiers.selection import Selections

from ..numpy_editor import Painter, graded, judge, read, scenes


def without_time(data: Any) -> Any:
    """A report without what differs from run to run: seconds, and how much was known."""
    if isinstance(data, dict):
        return {name: without_time(value) for name, value in data.items() if name not in ("seconds", "cached_cost")}
    return [without_time(item) for item in data] if isinstance(data, list) else data


def chosen(n: int, samples: int = 1, **how: Any) -> Selections:
    how.setdefault("editor", Painter())
    how.setdefault("reward", graded())
    return select(BestOfN(n), scenes(samples), **how)


def ranked(selection: Selection) -> tuple[float, float, int]:
    """What has to be the highest of the winner."""
    winner = selection.winner
    assert winner is not None
    assert winner.value is not None
    return winner.value, read(winner.picture, "second") if winner.picture else 0.0, -winner.noise.seed


def test_the_highest_value_wins() -> None:
    (result,) = chosen(8)

    assert result.winner is not None
    assert result.picture == result.winner.picture
    assert result.value == max(read(one.picture) for one in result.candidates if one.picture)
    assert [one.noise.seed for one in result.candidates] == list(range(8))
    assert f"the highest of 8, {result.value:.4g}" in result.reason


@settings(max_examples=20)  # each is a run or two
@given(n=st.integers(1, 12), more=st.integers(1, 12), seed=st.integers(0, 2**31), levels=st.sampled_from([2, 65536]))
def test_more_candidates_never_lower_the_value(n: int, more: int, seed: int, levels: int) -> None:
    editor, journal = Painter(levels=levels), Journal()

    few = chosen(n, editor=editor, seed=seed, journal=journal)[0]
    many = chosen(n + more, editor=editor, seed=seed, journal=journal)[0]

    assert few.value is not None
    assert many.value is not None
    assert many.value >= few.value
    assert [one.picture for one in many.candidates[:n]] == [one.picture for one in few.candidates]


@settings(max_examples=20)  # each is a run or two
@given(order=st.permutations(range(4)), batch=st.integers(1, 9), again=st.integers(1, 9), seed=st.integers(0, 99))
def test_order_and_batches_change_nothing(order: list[int], batch: int, again: int, seed: int) -> None:
    samples = scenes(4)
    one = select(BestOfN(3), samples, editor=Painter(batch_size=batch, levels=3), reward=graded(), seed=seed)
    shuffled = [samples[number] for number in order]
    other = select(BestOfN(3), shuffled, editor=Painter(batch_size=again, levels=3), reward=graded(), seed=seed)

    by_id = {selection.sample.id: without_time(selection.to_json()) for selection in other}
    assert [by_id[selection.sample.id] for selection in one] == [without_time(result.to_json()) for result in one]


@settings(max_examples=20)  # each is a run or two
@given(levels=st.integers(1, 4), seed=st.integers(0, 99), n=st.integers(1, 8))
def test_ties_go_to_the_second_reward_and_then_to_the_lowest_seed(levels: int, seed: int, n: int) -> None:
    second = judge()
    (result,) = chosen(n, editor=Painter(levels=levels), seed=seed, tiebreak_reward=graded(second, "second"))

    equal = [one for one in result.candidates if one.value == result.value]
    assert ranked(result) == max(
        (one.value or 0.0, read(one.picture, "second"), -one.noise.seed) for one in equal if one.picture
    )
    assert len(second.seen) == (len(equal) if len(equal) > 1 else 0)
    assert result.spent.judge_calls == n + len(second.seen)


def test_without_a_second_reward_the_lowest_seed_wins() -> None:
    (result,) = chosen(9, editor=Painter(levels=1))

    assert result.winner is not None
    assert result.winner.noise.seed == 0
    assert result.reason.endswith("the lowest seed among those")


def test_a_second_reward_that_abstains_leaves_the_seed_to_decide() -> None:
    silent = judge(rule=lambda _: Abstention("too dark"))
    (result,) = chosen(9, editor=Painter(levels=1), tiebreak_reward=graded(silent))

    assert result.winner is not None
    assert result.winner.noise.seed == 0


@pytest.mark.parametrize("outcome", [Failure("down"), Abstention("too dark")])
def test_what_could_not_be_judged_never_wins(outcome: Failure | Abstention) -> None:
    def rule(query: Any) -> Any:
        worth = read(query.image)
        return outcome if worth > 0.5 else Measurement(worth)

    (result,) = chosen(12, reward=graded(judge(rule=rule), on_failures="none"))
    worths = [read(one.picture) for one in result.candidates if one.picture]

    assert max(worths) > 0.5
    assert result.value == max(worth for worth in worths if worth <= 0.5)
    assert all(one.value is None for one in result.candidates if one.picture and read(one.picture) > 0.5)


def test_without_any_value_there_is_no_winner() -> None:
    (result,) = chosen(3, reward=graded(judge(rule=lambda _: Abstention("too dark"))))

    assert [result.winner, result.picture, result.value] == [None] * 3
    assert result.reason == "none of 3 candidates has a score: too dark"


def test_one_candidate_or_more() -> None:
    with pytest.raises(ValueError, match="got 0"):
        BestOfN(0)


def test_what_was_rejected_is_no_choice_beside_what_could_not_be_judged() -> None:
    def rule(query: Any) -> Any:
        value = read(query.image, query.prompt)
        return Abstention("too dark to tell") if value > 0.5 else Measurement(0.0)

    (result,) = select(BestOfN(8), scenes(1), editor=Painter(), reward=graded(judge(rule=rule), on_failures="none"))
    rejected = sum(one.value == 0.0 for one in result.candidates)
    assert 0 < rejected < 8
    assert result.winner is None
    assert (
        result.reason
        == f"{rejected} of 8 candidates were rejected, and the others could not be judged: too dark to tell"
    )


def test_where_all_can_be_judged_and_all_are_rejected_the_lowest_seed_is_chosen() -> None:
    reward = graded(judge(rule=lambda query: Measurement(0.0)))
    (result,) = select(BestOfN(4), scenes(1), editor=Painter(), reward=reward)
    assert result.winner is not None
    assert result.winner.noise.seed == 0
