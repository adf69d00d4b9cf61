"""Which of two edits is better: both orders are asked, what they say is weighed, what cannot be said is no number."""

from dataclasses import replace

import pytest

from editcritic.reward import Reward, Score
from editcritic.reward.metrics.pairwise import PairedSampleMetric, PairwiseJudge, compare_scores, pack_pair
from editcritic.reward.queries import Abstention, Failure, Judge, Reply

from ..fakes import Fake, alone, picture, sample

A = sample("a", edited=picture(1), instruction="make {it} blue")
B = sample("b", edited=picture(2), instruction="make {it} blue")


def prefers(first: str = "first", second: str = "first"):
    """A judge that says one word when A is shown first, and another when B is."""
    return lambda query: Reply(first if query.images[-2] == A.edited else second)


def test_both_orders_are_asked_with_the_source_first_and_the_instruction_last():
    queries = []

    def rule(query):
        queries.append(query)
        return Reply("same")

    assert alone(PairwiseJudge()(A, B), rule).value == 0.5
    assert [query.images for query in queries] == [(A.source, A.edited, B.edited), (A.source, B.edited, A.edited)]
    assert all(isinstance(query, Judge) and "make {it} blue" in str(query.messages[0].content[-1]) for query in queries)


@pytest.mark.parametrize(
    ("answers", "share", "apart"),
    [
        *((("first", "second"), 1.0, 0.0), (("second", "first"), 0.0, 0.0), (("first", "first"), 0.5, 1.0)),
        *((("same", "second"), 0.75, 0.5), (("same", "same"), 0.5, 0.0)),
    ],
)
def test_the_value_is_the_mean_of_both_orders_and_the_evidence_says_how_far_they_are_apart(answers, share, apart):
    score = alone(PairwiseJudge()(A, B), prefers(*answers))
    assert (score.value, score.evidence[-1].numbers["apart"]) == (share, apart)
    assert ([item.text for item in score.evidence[:2]], score.metric) == (list(answers), "pairwise-judge@2")


def test_swapping_the_edits_gives_the_rest_of_the_share():
    def rule(query):
        first = 0.7 if query.images[-2] == A.edited else 0.45
        return Reply("first", {"first": first, "second": 0.9 - first, "same": 0.1})

    there, back = (alone(PairwiseJudge()(*pair), rule).value or 0.0 for pair in [(A, B), (B, A)])
    assert there == pytest.approx((0.75 + 1 - 0.5) / 2)
    assert there + back == pytest.approx(1.0)


@pytest.mark.parametrize(("outcome", "status"), [(Failure("down"), "failed"), (Abstention("who knows"), "abstained")])
def test_an_order_without_an_answer_leaves_the_whole_without_one(outcome, status):
    score = alone(PairwiseJudge()(A, B), lambda query: Reply("first") if query.images[-2] == A.edited else outcome)
    assert (score.status, score.value) == (status, None)


def test_only_pairs_of_one_source_and_instruction_are_compared():
    with pytest.raises(ValueError, match="different source pictures"):
        PairwiseJudge()(A, replace(B, sources=(picture(5),)))
    with pytest.raises(ValueError, match="different instructions"):
        PairwiseJudge()(A, replace(B, instruction="make it red"))
    with pytest.raises(ValueError, match="pack_pair"):
        Reward(PairedSampleMetric(PairwiseJudge()), {"judge": Fake()})([A])

    def rule(query):
        raise AssertionError(query)

    score = alone(PairwiseJudge()(A, replace(A, id="b")), rule)
    assert (score.value, score.reason) == (0.5, "the pictures are the same")


def test_a_pair_runs_in_a_reward_by_its_own_role_or_by_the_judge():
    judge, referee = Fake(prefers("second", "second")), Fake(prefers("first", "second"), name="referee")
    pair = pack_pair(A, B)
    assert Reward(PairedSampleMetric(PairwiseJudge()), {"judge": judge})([pair])[0].value == 0.5
    scores = Reward(PairedSampleMetric(PairwiseJudge()), {"judge": judge, "judge.pairwise": referee})([pair])
    assert (scores[0].value, sum(judge.calls), sum(referee.calls)) == (1.0, 2, 2)


def test_a_pair_keeps_the_turns_before_it():
    turn = sample("turn 1", edited=picture(3))
    seen = []

    class Watching:
        card = PairwiseJudge.card

        def __call__(self, first, second):
            seen.append((first, second))
            return alone_score(0.25)

    a, b = replace(A, history=(turn,)), replace(B, history=(turn,))
    reward = Reward(PairedSampleMetric(Watching()), {"judge": Fake()})
    assert reward([pack_pair(a, b)])[0].value == 0.25
    ((first, second),) = seen
    assert first is a
    assert replace(second, id="b", group=b.group) == b


def alone_score(value):
    yield from ()
    return Score.of(value)


@pytest.mark.parametrize(("a", "b", "share"), [(0.9, 0.1, 1.0), (0.1, 0.9, 0.0), (-3.5, -3.5, 0.5)])
def test_two_scores_of_a_metric_are_a_comparison(a, b, share):
    score = compare_scores(Score.of(a).with_signature("m@1"), Score.of(b).with_signature("m@1"))
    assert (score.value, score.metric, score.evidence[0].numbers) == (share, "m@1", {"first": a, "second": b})


@pytest.mark.parametrize(
    ("a", "b", "status"),
    [
        (Score.failed("down"), Score.of(1.0), "failed"),
        (Score.of(1.0), Score.failed("down"), "failed"),
        (Score.abstained("who knows"), Score.failed("down"), "failed"),
        (Score.of(1.0), Score.abstained("who knows"), "abstained"),
        (Score.not_applicable("no"), Score.not_applicable("no"), "not_applicable"),
    ],
)
def test_a_score_without_a_value_is_not_compared(a, b, status):
    assert compare_scores(a, b).status == status
