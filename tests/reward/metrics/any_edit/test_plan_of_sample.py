"""Where the plan of a sample comes from, and that a rejected one fails the score with the words in question."""

import pytest

from editcritic.reward import (
    Box,
    EditPlan,
    Engine,
    Kept,
    Operation,
    PlannedOperation,
    Question,
    Relation,
    Score,
    Target,
    Task,
)
from editcritic.reward.metrics.any_edit.plan_of_sample import plan_of
from editcritic.reward.queries import Abstention, Detect, Detections, Judge, Plan

from ...fakes import Fake, picture, sample

CUP = Target("cup")
BLUE = PlannedOperation("color_alter", target=CUP, value="blue")
MUG = PlannedOperation("color_alter", target=Target("mug"), value="blue")


class Planner:
    """Answers `Plan` with a plan, and `Detect` with a score for every phrase; `seen` are its queries."""

    def __init__(self, plan=None, score=0.0):
        self.plan, self.score, self.seen = plan, score, []

    def __call__(self, query):
        if isinstance(query, Judge):
            return Abstention("plans nothing")
        self.seen.append(query)
        if isinstance(query, Detect):
            return Detections((Box(0.5, 0.5, 0.2, 0.2, self.score),), min_score=0.05)
        return Abstention("too hard") if self.plan is None else self.plan


def planned(planner, **fields):
    """The plan of a sample, or the score where it has none."""
    plans = []

    def program():
        plans.append((yield from plan_of(edit)))
        return Score.of(1.0)

    edit = sample(**fields)
    with Engine() as engine:
        score = engine.submit(program(), dict.fromkeys(["planner", "detector", "judge"], Fake(planner))).result(20)
    return plans[0] if plans else score


def bare(plan):
    """The operations without questions."""
    return [(one.type, one.target, one.value) for one in plan.operations]


def test_a_sample_without_annotations_gets_the_plan_of_the_planner_with_questions():
    planner = Planner(EditPlan((BLUE,)))
    plan = planned(planner, instruction="Paint the cup blue")
    assert planner.seen == [Plan((picture(0),), "Paint the cup blue")]
    assert bare(plan) == [("color_alter", CUP, "blue")]
    assert [question.near_miss for question in plan.operations[0].questions] == [False, True]


def test_annotations_come_before_the_planner():
    planner = Planner()
    task = Task("subject_remove", object="cup")
    operations = (Operation("Remove the cup", task=task), Operation("Twirl it all around", "Twirl"))
    assert bare(planned(planner, instruction="Remove the cup", task=task)) == [("subject_remove", CUP, "")]
    both = planned(planner, instruction="A sentence of its own", operations=operations, task=task)
    assert [operation.type for operation in both.operations] == ["subject_remove", "other"]
    own = planned(planner, instruction="Paint the cup blue", plan=EditPlan((BLUE,)), operations=operations, task=task)
    assert bare(own) == [("color_alter", CUP, "blue")]
    assert planner.seen == []


def test_a_rejected_plan_fails_with_the_words():
    score = planned(Planner(EditPlan((BLUE,))), instruction="Paint the cup on the shelf blue")
    assert (score.status, score.cause) == ("failed", "")
    assert score.reason.startswith("the plan is rejected: ")
    assert "'shelf'" in score.reason


def test_an_annotated_operation_is_validated_against_its_own_sentence():
    task = Task("subject_remove", object="cup")
    operation = Operation("Remove the cup and the spoon", task=task)
    score = planned(Planner(), instruction="Clear the table", operations=(operation,))
    assert "'spoon'" in score.reason


@pytest.mark.parametrize(("confidence", "is_there"), [(0.36, True), (0.35, False)])
def test_an_object_that_the_sentence_does_not_name_must_be_in_the_picture(confidence, is_there):
    question = Question("Is it blue, as you paint it?")
    plan = EditPlan((PlannedOperation("color_alter", target=Target("mug"), value="blue", questions=(question,)),))
    planner = Planner(plan, confidence)
    answer = planned(planner, instruction="Paint it blue")
    assert [query.phrases for query in planner.seen if isinstance(query, Detect)] == [("mug",)]
    assert isinstance(answer, EditPlan) == is_there
    if not is_there:
        assert "'mug' is neither named in the sentence nor found in the picture" in answer.reason


def test_an_object_may_be_in_any_of_several_sources():
    planner = Planner(EditPlan((MUG,)), 0.9)
    planned(planner, instruction="Paint it blue", sources=(picture(0), picture(3)))
    assert [query.image for query in planner.seen if isinstance(query, Detect)] == [picture(0), picture(3)]


def test_targets_replace_a_planner_that_abstains_and_locate_the_target_of_one_that_does_not():
    box = Box(0.5, 0.5, 0.1, 0.1)
    (other,) = planned(Planner(), instruction="Twirl it", targets=(box,)).operations
    assert (other.type, other.target and other.target.boxes) == ("other", (box,))
    (blue,) = planned(Planner(EditPlan((MUG,))), instruction="Paint it blue", targets=(box,)).operations
    assert blue.target == Target("mug", boxes=(box,))
    assert planned(Planner(), instruction="Twirl it").status == "abstained"


def test_a_group_shares_the_question_to_the_planner():
    planner, judge = Fake(Planner(EditPlan((BLUE,)))), Fake(Planner(), name="judge")

    def program(edit):
        yield from plan_of(edit)
        return Score.of(1.0)

    with Engine() as engine:
        edits = [sample(instruction="Paint the cup blue", edited=picture(seed)) for seed in range(4)]
        futures = [engine.submit(program(edit), {"planner": planner, "judge": judge}) for edit in edits]
        assert [future.result(20).value for future in futures] == [1.0] * 4
    assert (sum(planner.seen.values()), sum(judge.seen.values())) == (1, 1)


def test_too_many_operations_fail():
    score = planned(Planner(), instruction="a", operations=(Operation("Twirl it"),) * 17)
    assert "at most 16 operations, got 17" in score.reason


def test_a_box_outside_of_the_picture_fails_with_what_to_give():
    outside = Target("cup", boxes=(Box(120.0, 80.0, 40.0, 30.0),))  # in pixels
    partly = Target("cup", boxes=(Box(0.98, 0.5, 0.2, 0.2), Box(0.0, 0.0, 0.1, 0.1)))
    on_the_tray = Target("cup", relation=Relation("on", Target("tray", boxes=(Box(0.5, -0.3, 0.2, 0.2),))))
    sentence = "Paint the cup blue"

    def answer(target, sentence=sentence, keep=()):
        operation = PlannedOperation("color_alter", target=target, value="blue")
        return planned(Planner(), instruction=sentence, plan=EditPlan((operation,), keep))

    score = answer(outside)
    assert score.status == "failed"
    assert "a box of 'cup' is outside of the picture: its centre is (120, 80), its size 40 x 30" in score.reason
    assert "fractions" in score.reason
    assert isinstance(answer(partly), EditPlan)
    assert "a box of 'tray' is outside" in answer(on_the_tray, "Paint the cup on the tray blue").reason
    assert "a box of 'cup' is outside" in answer(CUP, keep=(Kept("object", outside),)).reason


@pytest.mark.parametrize(
    ("target", "names", "noun"),
    [
        (Target("mug", ("red",)), ["mug", "table"], "mug"),
        (Target("mug"), ["red mug", "table"], "red mug"),
        (Target("mugs"), ["mug"], "mug"),
        (Target("mug"), ["red mug", "blue mug"], "mug"),
        (Target("mug", ("red",)), ["blue mug"], "red mug"),
        (Target("mug"), ["mug rack", "table"], "mug"),
        (Target("mug"), [], "mug"),
    ],
)
def test_annotated_objects_keep_their_names(target, names, noun):
    box = (Box(0.5, 0.5, 0.2, 0.2),)
    sentence = f"Paint the {target.phrase} blue"
    plan = EditPlan((PlannedOperation("color_alter", sentence, target, value="blue"),))
    one = planned(Planner(plan), instruction=sentence, boxes=dict.fromkeys(names, box))
    assert one.operations[0].target.phrase == noun


def test_a_name_that_says_where_is_the_whole_expression():
    target = Target("bollard", relation=Relation("beside", Target("logo")))
    sentence = "Remove the bollard next to the logo"
    boxes = {"bollard next to the logo": (Box(0.5, 0.5, 0.2, 0.2),)}
    one = planned(
        Planner(EditPlan((PlannedOperation("subject_remove", sentence, target),))), instruction=sentence, boxes=boxes
    )
    assert one.operations[0].target == Target("bollard next to the logo")


def test_what_is_added_is_no_annotated_object():
    on_table = Relation("on", Target("table"))
    plan = EditPlan((PlannedOperation("subject_add", new=Target("mug", relation=on_table)),))
    boxes = dict.fromkeys(["red mug", "wooden table"], (Box(0.5, 0.5, 0.2, 0.2),))
    one = planned(Planner(plan), instruction="Put a mug on the table", boxes=boxes)
    assert one.operations[0].new.phrase == "mug"
