"""Best of N: the highest value, whatever the order, the batches and the number of candidates."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from editcritic.reward import Abstention, Failure, Measured
from editcritic.verifiers import BestOf, Journal, Selection, Selections, select

from .editors import Painter, graded, judge, read, scenes


def without_time(data: Any) -> Any:
    """A report without what differs from run to run: seconds, and how much was known."""
    if isinstance(data, dict):
        return {name: without_time(value) for name, value in data.items() if name not in ("seconds", "known")}
    return [without_time(item) for item in data] if isinstance(data, list) else data


def chosen(n: int, samples: int = 1, **how: Any) -> Selections:
    how.setdefault("editor", Painter())
    how.setdefault("reward", graded())
    return select(BestOf(n), scenes(samples), **how)


def ranked(selection: Selection) -> tuple[float, float, int]:
    """What has to be the highest of the winner."""
    winner = selection.winner
    assert winner is not None
    assert winner.value is not None
    return winner.value, read(winner.picture, "second") if winner.picture else 0.0, -winner.noise.seed


def test_the_highest_value_wins() -> None:
    (found,) = chosen(8)

    assert found.winner is not None
    assert found.picture == found.winner.picture
    assert found.value == max(read(one.picture) for one in found.candidates if one.picture)
    assert [one.noise.seed for one in found.candidates] == list(range(8))
    assert f"the highest of 8, {found.value:.4g}" in found.why


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
    one = select(BestOf(3), samples, editor=Painter(batch=batch, levels=3), reward=graded(), seed=seed)
    shuffled = [samples[number] for number in order]
    other = select(BestOf(3), shuffled, editor=Painter(batch=again, levels=3), reward=graded(), seed=seed)

    by_id = {selection.sample.id: without_time(selection.to_json()) for selection in other}
    assert [by_id[selection.sample.id] for selection in one] == [without_time(found.to_json()) for found in one]


@settings(max_examples=20)  # each is a run or two
@given(levels=st.integers(1, 4), seed=st.integers(0, 99), n=st.integers(1, 8))
def test_ties_go_to_the_second_reward_and_then_to_the_lowest_seed(levels: int, seed: int, n: int) -> None:
    second = judge()
    (found,) = chosen(n, editor=Painter(levels=levels), seed=seed, ties=graded(second, "second"))

    equal = [one for one in found.candidates if one.value == found.value]
    assert ranked(found) == max(
        (one.value or 0.0, read(one.picture, "second"), -one.noise.seed) for one in equal if one.picture
    )
    assert len(second.seen) == (len(equal) if len(equal) > 1 else 0)
    assert found.spent.judge_calls == n + len(second.seen)


def test_without_a_second_reward_the_lowest_seed_wins() -> None:
    (found,) = chosen(9, editor=Painter(levels=1))

    assert found.winner is not None
    assert found.winner.noise.seed == 0
    assert found.why.endswith("the lowest seed among those")


def test_a_second_reward_that_abstains_leaves_the_seed_to_decide() -> None:
    silent = judge(rule=lambda _: Abstention("too dark"))
    (found,) = chosen(9, editor=Painter(levels=1), ties=graded(silent))

    assert found.winner is not None
    assert found.winner.noise.seed == 0


@pytest.mark.parametrize("outcome", [Failure("down"), Abstention("too dark")])
def test_what_could_not_be_judged_never_wins(outcome: Failure | Abstention) -> None:
    def rule(query: Any) -> Any:
        worth = read(query.image)
        return outcome if worth > 0.5 else Measured(worth)

    (found,) = chosen(12, reward=graded(judge(rule=rule), on_failures="none"))
    worths = [read(one.picture) for one in found.candidates if one.picture]

    assert max(worths) > 0.5
    assert found.value == max(worth for worth in worths if worth <= 0.5)
    assert all(one.value is None for one in found.candidates if one.picture and read(one.picture) > 0.5)


def test_without_any_value_there_is_no_winner() -> None:
    (found,) = chosen(3, reward=graded(judge(rule=lambda _: Abstention("too dark"))))

    assert [found.winner, found.picture, found.value] == [None] * 3
    assert found.why == "none of 3 candidates has a score: too dark"


def test_one_candidate_or_more() -> None:
    with pytest.raises(ValueError, match="got 0"):
        BestOf(0)


def test_what_was_rejected_is_no_choice_beside_what_could_not_be_judged() -> None:
    def rule(query: Any) -> Any:
        value = read(query.image, query.prompt)
        return Abstention("too dark to tell") if value > 0.5 else Measured(0.0)

    (found,) = select(BestOf(8), scenes(1), editor=Painter(), reward=graded(judge(rule=rule), on_failures="none"))
    rejected = sum(one.value == 0.0 for one in found.candidates)
    assert 0 < rejected < 8
    assert found.winner is None
    assert (
        found.why == f"{rejected} of 8 candidates were rejected, and the others could not be judged: too dark to tell"
    )


def test_where_all_can_be_judged_and_all_are_rejected_the_lowest_seed_is_chosen() -> None:
    reward = graded(judge(rule=lambda query: Measured(0.0)))
    (found,) = select(BestOf(4), scenes(1), editor=Painter(), reward=reward)
    assert found.winner is not None
    assert found.winner.noise.seed == 0
