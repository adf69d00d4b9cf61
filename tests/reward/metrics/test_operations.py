"""One metric asked about operations, turns and sources: what each is credited with, and what becomes of the whole."""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import Box, Card, EditSample, Engine, Operation, Pools, Program, Score, Task
from editcritic.reward.metrics import Metric
from editcritic.reward.metrics.operations import (
    CompoundOverall,
    MinimumOverSources,
    PerOperation,
    UnfoldedOperations,
    unfold_operations,
)

from ..fakes import Says, picture, sample
from .scripted import SaysOf

ByInstruction = partial(SaysOf, "instruction")
BLUE = Operation("Change the color of cup to blue.", "Alter Attributes")
GONE = Operation("Take the cat away", "Remove an Object", Task("subject_remove", object="cat"))


def run(metric: Metric, one: EditSample) -> Score:
    with Engine() as engine:
        return engine.submit(metric(one), {}, one).result(60)


def made_of(*operations: Operation, **fields: Any) -> EditSample:
    return sample(instruction="All of it", operations=operations, **fields)


@given(st.lists(st.booleans(), min_size=1, max_size=8))
def test_each_operation_earns_its_share(done):
    metric = ByInstruction({str(number): Score.of(holds) for number, holds in enumerate(done)})
    score = run(PerOperation(metric), made_of(*(Operation(str(number)) for number in range(len(done)))))
    assert score.value == pytest.approx(sum(done) / len(done))
    assert list(score.credits) == [f"operation {number}" for number in range(1, len(done) + 1)]
    assert [credit.value for credit in score.credits.values()] == done


def test_each_operation_is_judged_by_itself_on_source_and_final_picture():
    metric = ByInstruction({BLUE.instruction: Score.of(1), GONE.instruction: Score.of(0)})
    one = made_of(BLUE, GONE, task=Task("subject_add", new="hat"))
    run(PerOperation(metric), one)
    assert [(seen_sample.source, seen_sample.edited) for seen_sample in metric.seen] == [(one.source, one.edited)] * 2
    assert [(seen_sample.instruction, seen_sample.task) for seen_sample in metric.seen] == [
        (BLUE.instruction, None),
        ("Take the cat away", GONE.task),
    ]
    assert {seen_sample.operations for seen_sample in metric.seen} == {()}
    score = run(PerOperation(ByInstruction({})), sample())
    assert score.status == "not_applicable"
    assert "operations" in score.reason


@pytest.mark.parametrize("status", ["failed", "abstained", "not_applicable"])
def test_an_operation_without_a_value_leaves_the_whole_without_one(status):
    metric = ByInstruction({BLUE.instruction: Score.of(1), GONE.instruction: Score(None, status, "who knows")})
    score = run(PerOperation(metric), made_of(BLUE, GONE))
    assert (score.status, score.reason) == (status, "operation 2: who knows")
    assert [credit.status for credit in score.credits.values()] == ["scored", status]


def overall(following: Score, consistency: Score, one: EditSample) -> Score:
    return run(CompoundOverall(Says(following), Says(consistency)), one)


BOXED = made_of(BLUE, GONE, boxes={"cup": (Box(0.2, 0.5, 0.1, 0.1),), "cat": (Box(0.6, 0.5, 0.1, 0.1),)})


def test_following_is_multiplied_by_consistency_and_nothing_is_without_it():
    following = Score.of(0.5, credits={"operation 1": Score.of(1.0), "operation 2": Score.of(0.0)})
    score = overall(following, Score.of(0.8), BOXED)
    assert score.value == pytest.approx(0.4)
    assert score.credits == following.credits
    assert set(score.parts) == {"following", "consistency"}
    score = overall(Score.not_applicable("none of the nine forms"), Score.of(1.0), BOXED)
    assert (score.status, score.reason) == ("not_applicable", "following: none of the nine forms")


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (made_of(BLUE, GONE), "what must stay is not known"),
        (made_of(BLUE, pools=Pools(("cup",), ("cup",), (), background=False)), "touch all objects and the background"),
    ],
)
def test_consistency_is_left_out_only_where_source_and_instruction_say_so(one, why):
    score = overall(Score.of(0.5), Score.of(0.8), one)
    assert score.value == 0.5
    assert why in score.parts["consistency"].reason
    assert overall(Score.of(0.5), Score.abstained("cannot tell"), BOXED).status == "abstained"
    assert overall(Score.of(0.5), Score.failed("down"), BOXED).status == "failed"


def test_pools_go_through_all_operations_and_earlier_turns():
    first = sample("t1", instruction="Remove hat.", sources=(picture(5),), edited=picture(0))
    kept = ByInstruction({GONE.instruction: Score.of(1)})
    run(UnfoldedOperations(kept), made_of(BLUE, GONE, history=(first,)))
    (seen_sample,) = kept.seen
    assert [turn.instruction for turn in seen_sample.turns] == ["Remove hat.", BLUE.instruction, GONE.instruction]
    assert (seen_sample.base, seen_sample.edited) == (picture(5), picture(1))
    run(UnfoldedOperations(plain := ByInstruction({"make it blue": Score.of(1)})), one := sample())
    assert plain.seen == [one]
    with pytest.raises(ValueError, match="no operations"):
        unfold_operations(sample())


@dataclass(frozen=True)
class Copies:
    """0 where the edited image is the source."""

    card: ClassVar[Card] = Card("copies", 1, "no copy", aspect="cheating")

    def __call__(self, sample: EditSample) -> Program[Score]:
        return Score.of(sample.edited != sample.source, "" if sample.edited != sample.source else "a copy")
        yield  # a program, although it asks nobody


@pytest.mark.parametrize(("copied", "credits"), [(0, [0, 1, 1]), (2, [1, 1, 0]), (7, [1, 1, 1])])
def test_a_copy_of_any_source_is_found(copied, credits):
    score = run(MinimumOverSources(Copies()), sample(sources=tuple(map(picture, range(3))), edited=picture(copied)))
    assert ([credit.value for credit in score.credits.values()], score.value) == (credits, min(credits))
    assert score.reason == ("" if all(credits) else "a copy")
