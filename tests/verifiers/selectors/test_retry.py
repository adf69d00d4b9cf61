"""Retrying goes on until a verifier accepts, tells the editor what was wrong, and pays for the verifier, too."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from editcritic.reward import Reward
from editcritic.reward.queries import Abstention, Failure, Measurement
from editcritic.verifiers import Budget, Journal
from editcritic.verifiers.combinators import AllOf
from editcritic.verifiers.selection import Selections, SelectionStopped
from editcritic.verifiers.selectors.retry import RetryUntilAccepted, append_rejection_reason
from editcritic.verifiers.verifier import Decision, Verifier, VerifierLike, at_least

from ..numpy_editor import Graded, Painter, gated, graded, judge, pick, read, scenes, worth


def retried(verifier: VerifierLike | float, samples: int = 1, tries: int = 4, **how: Any) -> Selections:
    feedback = {"feedback": how.pop("feedback")} if "feedback" in how else {}
    return pick(RetryUntilAccepted(verifier, tries, **feedback), samples, **how)


def second(least: float, **how: Any) -> Verifier:
    return Verifier(graded(how.pop("expert", None), "second"), at_least(least), **how)


def test_it_stops_at_the_first_that_is_accepted() -> None:
    result = retried(second(0.6), samples=6, tries=8, feedback=None)
    for selection in result:
        worths = [read(one.picture, "second") for one in selection.candidates if one.picture]
        assert [worth >= 0.6 for worth in worths] == [False] * (len(worths) - 1) + [True]
        assert selection.winner == selection.candidates[-1]
        assert selection.reason.startswith(f"accepted at attempt {len(worths)} of 8: graded is ")
    assert len({len(selection.candidates) for selection in result}) > 1


def test_if_none_is_accepted_the_best_is_returned_and_it_says_so() -> None:
    (result,) = retried(second(1.1), tries=5, feedback=None)
    assert len(result.candidates) == 5
    assert result.value == max(one.value for one in result.candidates if one.value is not None)
    assert result.reason.startswith("none of 5 attempts was accepted (the last time: graded is ")
    assert f"the highest of 5, {result.value:.4g}" in result.reason


def test_a_number_is_what_the_runs_own_reward_has_to_reach() -> None:
    expert = judge()
    result = retried(0.7, samples=3, tries=24, feedback=None, reward=graded(expert))
    for selection in result:
        assert [worth(one) >= 0.7 for one in selection.candidates] == [False] * (len(selection.candidates) - 1) + [True]
        assert selection.reason.startswith("accepted")
    assert sum(expert.seen.values()) == result.spent.judge_calls == sum(len(one.candidates) for one in result)


def test_the_editor_is_told_what_was_wrong_and_judged_by_what_was_asked() -> None:
    painter = Painter(heeds={"graded is": 3.0})
    (result,) = retried(Verifier(graded(), at_least(0.95)), editor=painter)
    told = (
        f"make it blue. An earlier attempt was turned down: graded is {result.candidates[0].value:.3g}, and 0.95 is "
        "needed. Avoid that this time."
    )
    assert painter.requests == [("make it blue", 0), (told, 1)]
    assert result.winner is not None
    assert all(one.sample is not None and one.sample.instruction == "make it blue" for one in result.candidates)


def test_feedback_may_be_anybodys_or_none() -> None:
    painter = Painter()
    retried(second(1.1), editor=painter, feedback=None)
    assert painter.requests == [("make it blue", seed) for seed in range(4)]
    painter, seen = Painter(), []

    def feedback(sample: Any, decision: Decision) -> str:
        seen.append((sample.edited, decision.answer))
        return f"{sample.instruction} {len(seen)}"

    (result,) = retried(second(1.1), tries=3, editor=painter, feedback=feedback)
    assert [words for words, _ in painter.requests] == ["make it blue", "make it blue 1", "make it blue 2"]
    assert seen == [(one.picture, "reject") for one in result.candidates]


def test_doubt_leaves_the_words_alone() -> None:
    sample = scenes(1)[0]
    assert append_rejection_reason(sample, Decision("can't tell", "too dark")) == "make it blue"
    assert append_rejection_reason(replace(sample, instruction="Do!"), Decision("reject", "no.")).startswith(
        "Do! An earlier"
    )


def test_neither_cant_tell_nor_what_the_reward_cannot_value_is_accepted() -> None:
    dark = graded(judge(name="unsure", rule=lambda _: Abstention("too dark")))
    (result,) = retried(Verifier(dark, at_least(0.5)), tries=3)
    assert len(result.candidates) == 3
    assert "none of 3 attempts was accepted (the last time: graded can't be told: too dark)" in result.reason
    (result,) = retried(second(0.0), tries=3, reward=dark)
    assert len(result.candidates) == 3
    assert result.winner is None


def test_an_editor_that_fails_is_a_try() -> None:
    painter = Painter(bad_seeds=[1])
    (result,) = retried(second(1.1), tries=3, editor=painter)
    assert [one.status for one in result.candidates] == ["made", "failed", "made"]
    assert result.notes[1].startswith("candidate 1: the editor failed")
    assert result.winner is not None


def test_the_verifier_is_paid_for() -> None:
    ours, theirs = judge(), judge(name="theirs")
    result = retried(second(0.6, expert=theirs), samples=4, reward=graded(ours), feedback=None)
    count = sum(len(selection.candidates) for selection in result)
    assert sum(ours.seen.values()) == sum(theirs.seen.values()) == count
    assert result.spent.judge_calls == 2 * count
    assert all(one.cost.judge_calls == 2 for selection in result for one in selection.candidates)


def test_a_reward_that_two_ask_is_paid_once() -> None:
    expert = judge()
    reward = graded(expert)
    result = retried(AllOf(Verifier(reward, at_least(0.1)), Verifier(reward, at_least(0.6))), reward=reward)
    assert result.spent.judge_calls == sum(expert.seen.values()) == len(result[0].candidates)
    expert = judge()
    reward = graded(expert, "second")
    result = retried(AllOf(Verifier(reward, at_least(0.1)), Verifier(reward, at_least(1.1))), tries=2)
    assert (sum(expert.seen.values()), result.spent.judge_calls) == (2, 4)


def test_a_verifier_that_breaks_down_stops_the_run_and_nothing_is_lost() -> None:
    journal, painter = Journal(), Painter()
    broken = second(1.1, expert=judge(name="theirs", rule=lambda _: Failure("gone home")))
    with pytest.raises(SelectionStopped, match="gone home"):
        retried(broken, samples=30, tries=2, feedback=None, editor=painter, journal=journal)
    made = sum(painter.calls)
    assert made < 30
    healthy = second(1.1, expert=judge(name="theirs"))
    result = retried(healthy, samples=30, tries=2, feedback=None, editor=painter, journal=journal)
    assert sum(painter.calls) == 60
    assert result.cached_cost.nfe == 8 * made


def test_judge_calls_of_the_verifier_stop_at_the_budget() -> None:
    theirs = Verifier(graded(None, "second", "consistency", "following"), at_least(1.1))
    result = retried(theirs, samples=5, tries=6, feedback=None, budget=Budget(judge_calls=30))
    assert result.spent.judge_calls == 28  # 4 a candidate
    assert [len(selection.candidates) for selection in result] == [2, 2, 1, 1, 1]
    assert result[0].stop_reason == "28 of 30 judge calls are spent"


@settings(max_examples=20)  # each is a run or two
@given(tries=st.integers(1, 5), more=st.integers(1, 5), least=st.floats(0.3, 1.2))
def test_more_tries_never_lower_what_the_verifier_looks_at(tries: int, more: int, least: float) -> None:
    journal, reward = Journal(), graded()
    few, many = (
        retried(Verifier(reward, at_least(least)), tries=count, reward=reward, journal=journal)[0]
        for count in (tries, tries + more)
    )
    assert worth(many) >= worth(few)


def test_what_the_verifier_needs_is_checked_first() -> None:
    painter = Painter()

    class Masked(Graded):
        @property
        def card(self) -> Any:
            return replace(super().card, requires=("mask",))

    needy = Verifier(Reward(Masked(), {"judge": judge(rule=lambda _: Measurement(1.0))}), at_least(0.5))
    with pytest.raises(ValueError, match="mask"):
        retried(needy, editor=painter)
    assert not painter.calls


def test_what_a_guard_of_the_reward_rejected_is_not_accepted_by_another_verifier() -> None:
    painter = Painter()
    reward = gated(lambda picture: read(picture) < 0.6)
    for verifier in (second(0.0), 0.0):
        for selection in retried(verifier, samples=4, tries=8, editor=painter, reward=reward):
            *rejected, accepted = selection.candidates
            assert all(candidate.score.rejected for candidate in rejected)
            assert selection.winner == accepted
            assert not accepted.score.rejected
    assert any("turned down: a copy of the source" in words for words, _ in painter.requests)
