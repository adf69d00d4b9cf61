"""Verifiers combine in Kleene's logic, and ask no further than they have to."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import EditSample, Engine, Reward, Score
from editcritic.verifiers.combinators import AllOf, AnyOf, Cascade, Not
from editcritic.verifiers.verifier import (
    Between,
    Decision,
    Decisions,
    ScoringFn,
    Verifier,
    VerifierAnswer,
    VerifierLike,
    at_least,
)

from ..reward.fakes import Says
from .numpy_editor import Graded, graded, judge, read, rejection, scenes
from .test_verifier import edited

RANK: dict[VerifierAnswer, int] = {"reject": -1, "can't tell": 0, "accept": 1}
ANSWER: dict[int, VerifierAnswer] = {rank: answer for answer, rank in RANK.items()}


class Told:
    """Says of each sample what it was told to, and keeps whom it was asked about."""

    rewards: tuple[Reward, ...] = ()

    def __init__(self, *answers: VerifierAnswer) -> None:
        self.answers = answers
        self.seen: list[str] = []

    def decide(self, samples: Sequence[EditSample], scoring: ScoringFn) -> list[Decision]:
        self.seen += [sample.id for sample in samples]
        message = [self.answers[int(sample.id[1:])] for sample in samples]
        return [Decision(answer, answer, (Score.of(RANK[answer]),)) for answer in message]

    def __call__(self, samples: Iterable[EditSample]) -> Decisions:
        raise NotImplementedError


LEAVES = st.sampled_from(sorted(RANK, key=lambda answer: RANK[answer]))
TREES: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda tree: (
        st.tuples(st.just("not"), tree)
        | st.tuples(st.sampled_from(["all", "any"]), st.lists(tree, min_size=1, max_size=3))
    ),
    max_leaves=8,
)


def grown(tree: Any) -> VerifierLike:
    if isinstance(tree, str):
        return Told(tree)  # type: ignore[arg-type]
    kind, below = tree
    if kind == "not":
        return Not(grown(below))
    return (AllOf if kind == "all" else AnyOf)(*(grown(one) for one in below))


def worth(tree: Any) -> int:
    """Kleene's logic over -1, 0, 1: and is min, or is max, not is minus."""
    if isinstance(tree, str):
        return RANK[tree]  # type: ignore[index]
    kind, below = tree
    if kind == "not":
        return -worth(below)
    return (min if kind == "all" else max)(worth(one) for one in below)


def answer(verifier: VerifierLike) -> VerifierAnswer:
    return verifier.decide(scenes(1), lambda *_: pytest.fail("asked"))[0].answer


@given(tree=TREES)
def test_combinations_are_kleenes(tree: Any) -> None:
    assert answer(grown(tree)) == ANSWER[worth(tree)]


@given(trees=st.lists(TREES, min_size=1, max_size=4), order=st.randoms(use_true_random=False))
def test_de_morgan_and_any_order(trees: list[Any], order: Any) -> None:
    shuffled = order.sample(trees, len(trees))
    neither = answer(Not(AnyOf(*(grown(one) for one in trees))))
    assert neither == answer(AllOf(*(Not(grown(one)) for one in shuffled)))


def test_what_is_settled_is_not_asked_about() -> None:
    first, second = Told("reject", "can't tell", "accept"), Told("accept", "accept", "accept")
    every = AllOf(first, second).decide(scenes(3), lambda *_: ())
    assert [one.answer for one in every] == ["reject", "can't tell", "accept"]
    assert second.seen == ["s1", "s2"]
    second = Told("reject", "reject", "reject")
    some = AnyOf(first, second).decide(scenes(3), lambda *_: ())
    assert [one.answer for one in some] == ["reject", "can't tell", "accept"]
    assert second.seen == ["s0", "s1"]


def test_reasons_and_scores_are_those_it_rests_on() -> None:
    samples = edited(1)
    fine = Verifier(graded(None, "following"), lambda _: (True, "it is blue"))
    bad = Verifier(graded(None, "second"), lambda _: (False, "the sky has changed"))
    unsure = Verifier(graded(None, "consistency"), lambda _: (None, "too dark to tell"))
    assert AllOf(fine, bad)(samples)[0].reason == "the sky has changed"
    assert AnyOf(bad, fine)(samples)[0].reason == "it is blue"
    assert AllOf(fine, fine, unsure)(samples)[0].reason == "too dark to tell"
    assert AllOf(fine, Not(bad))(samples)[0].reason == "it is blue; the sky has changed"
    assert Not(fine)(samples)[0].reason == "not wanted: it is blue"
    assert [score.value for score in AllOf(fine, unsure, bad)(samples)[0].scores] == [
        read(samples[0].edited, quality) for quality in ("following", "consistency", "second")
    ]


@pytest.mark.parametrize("kind", [AllOf, AnyOf, Cascade])
def test_nothing_cannot_be_combined(kind: Any) -> None:
    with pytest.raises(ValueError, match="give at least one"):
        kind()


def test_the_judge_sees_only_what_the_cheap_one_cant_tell() -> None:
    samples, cheap, dear = edited(30), judge(name="cheap"), judge(name="dear")
    cascade = Cascade(
        Verifier(graded(cheap, "consistency", role="preference"), Between(0.3, 0.8)),
        Verifier(graded(dear, "following"), at_least(0.5)),
    )
    decisions = cascade(samples)
    doubtful = [one for one in samples if 0.3 <= read(one.edited, "consistency") < 0.8]
    assert sum(cheap.seen.values()) == 30
    assert sum(dear.seen.values()) == len(doubtful)
    assert 0 < len(doubtful) < 30
    assert [call["samples"] for call in decisions.stats["reward_calls"]] == [30, len(doubtful)]
    for sample, one in zip(samples, decisions, strict=True):
        quality, least = ("following", 0.5) if sample in doubtful else ("consistency", 0.8)
        assert one.accepted == (read(sample.edited, quality) >= least)
        assert len(one.scores) == (2 if sample in doubtful else 1)


def test_what_no_stage_can_tell_has_all_their_reasons_and_a_certain_stage_its_own() -> None:
    dark, small = Verifier(graded(), lambda _: (None, "dark")), Verifier(graded(), lambda _: (None, "small"))
    red = Verifier(graded(), lambda _: (False, "red"))
    for second, answer, reason in ((small, "can't tell", "dark; small"), (red, "reject", "red")):
        (decision,) = Cascade(dark, second)(edited(1))
        assert (decision.answer, decision.reason) == (answer, reason)


def test_stages_share_answers() -> None:
    samples, expert, engine = edited(10), judge(), Engine()
    rewards = [
        Reward(Graded(qualities), {"judge": expert}, engine=engine)
        for qualities in (("following",), ("consistency", "following"))
    ]
    Cascade(Verifier(rewards[0], Between(accept=2.0)), Verifier(rewards[1], at_least(0.5)))(samples)
    assert max(expert.seen.values()) == 1
    assert len(expert.seen) == 20


def test_what_a_late_stage_lacks_is_said_before_anybody_is_asked() -> None:
    expert = judge()
    late = Verifier(Reward(Says(Score.of(1.0), requires=("mask",)), {}), at_least(0.5))
    with pytest.raises(ValueError, match="mask"):
        Cascade(Verifier(graded(expert), Between(accept=0.9)), late)(edited(2))
    assert not expert.calls


def test_what_a_guard_rejected_is_not_accepted_as_what_is_not_wanted() -> None:
    copied = Verifier(Reward(Says(rejection()), {}), at_least(0.5))
    low = Verifier(Reward(Says(Score.of(0.1)), {}), at_least(0.5))
    for verifier in (Not(copied), Not(Not(copied)), Not(AllOf(low, copied)), Not(AnyOf(copied, low))):
        (decision,) = verifier(edited(1))
        rejected = any(score.rejected for score in decision.scores)
        assert decision.answer == ("reject" if rejected else "accept")
        assert rejected or isinstance(verifier.verifier, AllOf)  # which stops at `low`


def test_a_cascade_ends_where_a_guard_rejects() -> None:
    judge_of_last_resort = Told("accept")
    (decision,) = Cascade(Verifier(Reward(Says(rejection()), {}), Between(accept=0.9)), judge_of_last_resort).decide(
        edited(1), lambda reward, samples: reward(samples)
    )
    assert decision.answer == "reject"
    assert judge_of_last_resort.seen == []
