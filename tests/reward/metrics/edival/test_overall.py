"""EditOverall and Chain: how parts and turns make one value, and when there is none."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import Card, EditSample, Engine, Image, Score, spec_of
from editcritic.reward.config import build
from editcritic.reward.engine.program import Program
from editcritic.reward.metrics.edival.consistency import ContentConsistency
from editcritic.reward.metrics.edival.following import InstructionFollowing
from editcritic.reward.metrics.edival.overall import EditOverall, MultiTurnFollowing

CARD = Card("says", 1, "what it was told")
STATUSES = ("scored", "not_applicable", "abstained", "failed")


@dataclass(frozen=True)
class Says:
    """A metric that says what it was made to say of each sample, by the sample's id."""

    scores: Mapping[str, Score]
    seen: list[EditSample] = field(default_factory=list, compare=False)
    card: Card = CARD

    def __call__(self, sample: EditSample) -> Program[Score]:
        self.seen.append(sample)
        return self.scores[sample.id]
        yield  # a program, although it asks nobody


def score_of(status, value=0.5):
    return Score.of(value) if status == "scored" else Score(None, status, f"it {status}")


def picture(value):
    return Image.of(np.full((4, 4, 3), value, np.uint8))


def turns(count):
    sample = None
    for number in range(1, count + 1):
        earlier = () if sample is None else sample.turns
        sample = EditSample(f"t{number}", f"do {number}", (picture(number - 1),), picture(number), history=earlier)
    return sample


def run(metric, sample):
    with Engine() as engine:
        return engine.submit(metric(sample), {}, sample).result(timeout=60)


def overall(following, consistency):
    metric = EditOverall(Says({"t1": following}), Says({"t1": consistency}))
    return run(metric, turns(1))


# -- EditOverall -------------------------------------------------------------------------------------------------------


@given(st.floats(0, 1), st.floats(0, 1))
def test_overall_is_the_geometric_mean(following, consistency):
    score = overall(Score.of(following), Score.of(consistency))
    assert score.value == pytest.approx(math.sqrt(following * consistency))
    assert {name: part.value for name, part in score.parts.items()} == {
        "following": following,
        "consistency": consistency,
    }
    assert score.metric == "edival-o@3"


@pytest.mark.parametrize("consistency", STATUSES)
@pytest.mark.parametrize("following", STATUSES)
def test_nothing_is_left_out_of_overall(following, consistency):
    score = overall(score_of(following), score_of(consistency))
    worst = max(following, consistency, key=STATUSES.index)
    assert score.status == worst
    assert (score.value is None) == (worst != "scored")
    assert [part.status for part in score.parts.values()] == [following, consistency]


def test_overall_refuses_parts_that_are_no_shares():
    ratings = Says({}, card=Card("rating", 1, "any number", range=(None, None)))
    with pytest.raises(ValueError, match="rating"):
        EditOverall(ratings)


def test_overall_can_be_written_down_and_built_again():
    metric = EditOverall(MultiTurnFollowing(InstructionFollowing(protocol="official")), ContentConsistency("official"))
    assert build(spec_of(metric)) == metric
    assert build(spec_of(EditOverall())) == EditOverall()


# -- Chain -------------------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=4))
def test_a_chain_of_verdicts_is_their_and(verdicts):
    metric = Says({f"t{number}": Score.of(verdict) for number, verdict in enumerate(verdicts, start=1)})
    score = run(MultiTurnFollowing(metric), turns(len(verdicts)))
    assert score.value == float(all(verdicts))
    assert [credit.value for credit in score.credits.values()] == verdicts
    assert list(score.credits) == [f"turn {number}" for number in range(1, len(verdicts) + 1)]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=4))
def test_a_dense_chain_is_at_least_half_exactly_when_all_turns_are(degrees):
    metric = Says({f"t{number}": Score.of(degree) for number, degree in enumerate(degrees, start=1)})
    score = run(MultiTurnFollowing(metric), turns(len(degrees)))
    assert (score.value >= 0.5) == all(degree >= 0.5 for degree in degrees)
    assert score.value == min(degrees)


@given(st.lists(st.sampled_from(STATUSES), min_size=1, max_size=4))
def test_no_turn_is_left_out_of_a_chain(statuses):
    metric = Says({f"t{number}": score_of(status, 0.5) for number, status in enumerate(statuses, start=1)})
    score = run(MultiTurnFollowing(metric), turns(len(statuses)))
    assert score.status == max(statuses, key=STATUSES.index)
    assert [credit.status for credit in score.credits.values()] == statuses


def test_each_turn_is_judged_against_the_turn_before_and_knows_those_before_it():
    metric = Says({f"t{number}": Score.of(1.0) for number in (1, 2, 3)})
    run(MultiTurnFollowing(metric), turns(3))
    by_id = {sample.id: sample for sample in metric.seen}
    assert [by_id[name].source for name in ("t1", "t2", "t3")] == [picture(0), picture(1), picture(2)]
    assert [by_id[name].turn for name in ("t1", "t2", "t3")] == [1, 2, 3]
    assert {sample.base for sample in metric.seen} == {picture(0)}


def test_a_chain_can_be_the_following_of_overall():
    metric = Says({"t1": Score.of(0.0), "t2": Score.of(1.0)})
    kept = Says({"t2": Score.of(1.0)})
    assert run(EditOverall(MultiTurnFollowing(metric), kept), turns(2)).value == 0.0
    assert run(EditOverall(metric, kept), turns(2)).value == 1.0


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=5))
def test_a_chain_of_means_gives_a_credit_a_turn(verdicts):
    metric = Says({f"t{number}": Score.of(value) for number, value in enumerate(verdicts, start=1)})
    score = run(MultiTurnFollowing(metric, reduction="mean"), turns(len(verdicts)))
    assert score.value == pytest.approx(sum(verdicts) / len(verdicts))
    assert [credit.value for credit in score.credits.values()] == verdicts
    assert score.metric == "edival-chain@3[reduction=mean]"


def test_a_chain_combines_in_two_ways_only():
    with pytest.raises(ValueError, match="minimum or mean"):
        build("edival-chain?reduction=median")


def test_overall_has_the_credits_of_its_following():
    metric = Says({"t1": Score.of(1.0), "t2": Score.of(0.0)})
    score = run(EditOverall(MultiTurnFollowing(metric, reduction="mean"), Says({"t2": Score.of(0.5)})), turns(2))
    assert score.value == pytest.approx(0.5)
    assert [(name, credit.value) for name, credit in score.credits.items()] == [("turn 1", 1.0), ("turn 2", 0.0)]
