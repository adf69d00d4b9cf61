"""A verifier accepts, rejects or can't tell, and says why."""

import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from editcritic.reward import EditSample, Evidence, Reward, Score, TooManyFailures
from editcritic.reward.queries import Abstention, Failure, Measurement
from editcritic.verifiers.verifier import AtLeast, Between, Decision, Verifier, at_least

from ..reward.fakes import Rated, Says, Seeded
from .numpy_editor import Painter, graded, judge, read, rejection, scenes


def edited(count: int) -> list[EditSample]:
    samples = scenes(count)
    made = Painter().edit([one.sources for one in samples], ["make it blue"] * count, list(range(count)))
    return [replace(one, edited=picture) for one, picture in zip(samples, made, strict=True)]


def verdict(score: Score, rule: Any, **how: Any) -> Decision:
    return Verifier(Reward(Says(score), {}), rule, **how)(scenes(1))[0]


SCORED = st.floats(0, 1).map(Score.of)
PART = SCORED | st.sampled_from(
    [Score.abstained("too dark"), Score.failed("down"), Score.not_applicable("nothing to keep")]
)


@given(value=st.floats(0, 1), following=PART, keeping=PART, wanted=st.floats(0, 1), least=st.floats(0, 1))
def test_every_threshold_has_to_be_reached(value, following, keeping, wanted, least):
    """Kleene's conjunction of the conditions; a part that does not apply sets none."""
    score = Score.of(value, parts={"following": following, "keeping": keeping})
    rule = at_least(wanted, following=least, keeping=least)
    parts = [part for part in (following, keeping) if part.status != "not_applicable"]
    conditions = [value >= wanted, *(None if part.value is None else part.value >= least for part in parts)]
    expected = "reject" if False in conditions else "can't tell" if None in conditions else "accept"
    decision = verdict(score, rule)
    assert decision.answer == expected
    assert decision.reason


@pytest.mark.parametrize(
    "rule",
    [at_least(0.0), at_least(following=0.5), at_least(-1.0, following=0.0), Between(accept=0.9), lambda score: None],
    ids=["the lowest value", "a part", "both", "an undecided range", "a rule of one's own"],
)
def test_what_a_guard_rejected_is_rejected_by_any_rule(rule: Any) -> None:
    decision = verdict(rejection(), rule)
    assert (decision.answer, decision.reason) == ("reject", "a guard rejected it (a copy of the source)")


def test_what_was_too_low_or_reached_is_said_with_the_scores_own_words() -> None:
    parts = {"following": Score.of(0.2, "the cup is still red"), "keeping": Score.of(0.9)}
    decision = verdict(Score.of(0.25, parts=parts), at_least(0.5, following=0.5, keeping=0.5))
    assert (decision.answer, decision.reason) == (
        "reject",
        "says is 0.25, and 0.5 is needed; following is 0.2, and 0.5 is needed (the cup is still red)",
    )
    decision = verdict(Score.of(0.8, parts={"following": Score.of(0.6)}), at_least(0.7, following=0.5))
    assert (decision.answer, decision.reason) == ("accept", "says is 0.8, at least 0.7; following is 0.6, at least 0.5")


def test_parts_of_parts_are_found_and_the_first_of_the_outermost_counts() -> None:
    inner = Score.of(0.2, parts={"following": Score.of(0.1), "keeping": Score.of(0.9)})
    other = Score.of(0.2, parts={"keeping": Score.of(0.1)})
    score = Score.of(1.0, parts={"reward": inner, "other": other, "following": Score.of(0.8)})
    assert verdict(score, at_least(following=0.5)).accepted
    assert verdict(score, at_least(keeping=0.5)).accepted
    decision = verdict(Score.of(1.0, parts={"following": Score.of(0.8)}), at_least(folowing=0.5))
    assert decision.answer == "can't tell"
    assert decision.reason == "there is no folowing among the parts of says (following)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (at_least, "has no threshold"),
        (lambda: at_least(float("nan")), "finite"),
        (Between, "decides nothing"),
        (lambda: Between(0.7, 0.3), "must not exceed"),
        (lambda: Verifier(graded(), 0.7), r"at_least\(0\.7\)"),  # type: ignore[arg-type]
        (lambda: Verifier(graded(), at_least(0.7), not_applicable="fine"), "got 'fine'"),  # type: ignore[arg-type]
        (lambda: Decision("yes", ""), "got 'yes'"),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@given(value=st.floats(0, 1))
@example(value=0.3)
@example(value=0.7)
def test_between_two_thresholds_is_doubt(value: float) -> None:
    expected = "reject" if value < 0.3 else "accept" if value >= 0.7 else "can't tell"
    assert verdict(Score.of(value), Between(0.3, 0.7)).answer == expected
    assert verdict(Score.of(value), Between(reject=0.3)).answer == ("reject" if value < 0.3 else "can't tell")
    assert verdict(Score.of(value), Between(accept=0.7)).answer == ("accept" if value >= 0.7 else "can't tell")


@pytest.mark.parametrize(
    ("ruling", "answer", "reason"),
    [
        (True, "accept", "says is 0.5 (half)"),
        (False, "reject", "says is 0.5 (half)"),
        (None, "can't tell", "says is 0.5 (half)"),
        ((False, "too blue"), "reject", "too blue"),
        ((None, "who knows"), "can't tell", "who knows"),
    ],
)
def test_a_rule_is_any_function_of_a_score(ruling: Any, answer: str, reason: str) -> None:
    decision = verdict(Score.of(0.5, "half"), lambda _: ruling)
    assert (decision.answer, decision.reason) == (answer, reason)


def test_what_cannot_be_decided_is_refused() -> None:
    lacking = Verifier(Reward(Says(Score.of(1.0), requires=("mask",)), {}), at_least(0.5))
    down = Verifier(graded(judge(rule=lambda _: Failure("down"))), at_least(0.5))
    for decide, error, message in (
        (lambda: verdict(Score.of(0.5), lambda score: score.value), ValueError, "True, False or None"),
        (lambda: lacking(scenes(1)), ValueError, "mask"),
        (lambda: down(edited(20)), TooManyFailures, "down"),
    ):
        with pytest.raises(error, match=message):
            decide()


@pytest.mark.parametrize(
    ("score", "reason"),
    [
        (Score.failed("down"), "says could not be found out: down"),
        (Score.abstained("too dark"), "says can't be told: too dark"),
        (Score.not_applicable("no text"), "says does not apply: no text"),
    ],
)
def test_a_score_without_a_value_cant_be_told_and_no_rule_sees_it(score: Score, reason: str) -> None:
    decision = verdict(score, lambda _: pytest.fail("asked"))
    assert (decision.answer, decision.reason) == ("can't tell", reason)


def test_what_does_not_apply_may_be_fine() -> None:
    for score, fine in ((Score.not_applicable("no text"), True), (Score.abstained("too dark"), False)):
        assert verdict(score, at_least(0.5), not_applicable="accept").accepted == fine


def test_a_batch_is_decided_in_its_order_with_what_it_cost() -> None:
    samples = edited(20)

    def rule(query: Any) -> Any:
        return Abstention("too dark") if query.image == samples[2].edited else Measurement(read(query.image))

    expert = judge(rule=rule)
    decisions = Verifier(graded(expert), at_least(0.5))(samples)
    answers = ["accept" if read(one.edited) >= 0.5 else "reject" for one in samples]
    assert decisions.answers == [*answers[:2], "can't tell", *answers[3:]]
    assert 0 < decisions.count("accept") < 20
    assert decisions.count("accept") + decisions.count("reject") == len(decisions) - 1 == 19
    assert decisions.ids == tuple(one.id for one in samples)
    (call,) = decisions.stats["reward_calls"]
    assert call["reward"].startswith("graded@1#")
    assert (call["samples"], call["queries"], sum(expert.seen.values())) == (20, 20, 20)


def test_a_decision_holds_the_evidence_it_rests_on() -> None:
    one, two = Evidence("seen", text="a cup"), Evidence("read", text="CUP")
    score = Score.of(0.5, evidence=[one], parts={"letters": Score.of(1.0, evidence=[two])})
    decision = verdict(score, at_least(0.5))
    assert decision.evidence == (one, two)
    assert decision.to_json()["scores"][0]["parts"]["letters"]["evidence"] == [two.to_json()]


def test_a_verifier_travels_to_another_process() -> None:
    verifier = Verifier(Reward(Rated(), {"preference": Seeded(3)}), AtLeast(0.5, {}), not_applicable="accept")
    copy = pickle.loads(pickle.dumps(verifier))
    assert copy.rule == verifier.rule
    assert copy(edited(8)).to_json() == verifier(edited(8)).to_json()
