"""Each operation has a question and a near miss, which no operation of the plan asks for."""

from dataclasses import replace

import pytest
from hypothesis import given

from editcritic.reward import EditPlan, PlannedOperation, Question, Target
from editcritic.reward.metrics.any_edit.questions import own_questions, with_near_miss, with_questions

from ...plan_strategies import PLANS

CUP = Target("cup")


def near_miss(*operations):
    """Of the first operation."""
    plan = with_near_miss(EditPlan(operations))
    (question,) = [one for one in plan.operations[0].questions if one.near_miss]
    assert (question.before, question.after, question.view) == ("no", "no", "pair")
    return question.text


@given(PLANS)
def test_every_plan_has_questions_and_a_near_miss(plan):
    complete = with_questions(plan)
    assert complete == with_questions(plan)
    assert with_questions(complete) == complete
    assert any(question.near_miss for operation in complete.operations for question in operation.questions)
    assert all(any(not one.near_miss for one in operation.questions) for operation in complete.operations)
    assert [replace(one, questions=()) for one in complete.operations] == [
        replace(one, questions=()) for one in plan.operations
    ]


@pytest.mark.parametrize(
    ("operation", "part"),
    [
        (PlannedOperation("color_alter", target=CUP, value="blue"), "color of the cup to green"),
        (PlannedOperation("color_alter", target=CUP, value="dark green"), "color of the cup to purple"),
        (PlannedOperation("material_alter", target=CUP, value="stone"), "material of the cup to wood"),
        (PlannedOperation("background_change", value="beach"), "background to underwater reef"),
        (PlannedOperation("subject_add", new=CUP), "add umbrella"),
        (PlannedOperation("subject_remove", target=CUP), "remove the umbrella"),
        (PlannedOperation("subject_replace", target=CUP, new=Target("umbrella")), "the cup with bicycle"),
        (PlannedOperation("count_change", target=CUP, count=2), "number of cup to 5"),
        (PlannedOperation("text_change", text="EXIT"), '"MARKET"'),
        (
            PlannedOperation("position_change", target=CUP, position="left", reference=Target("plate")),
            "to the right of the plate",
        ),
        (PlannedOperation("style", value="oil painting"), "a pencil drawing"),
        (PlannedOperation("other", "Twirl it"), "a row of flags"),
    ],
)
def test_a_near_miss_has_a_wrong_value_or_object(operation, part):
    assert part in near_miss(operation)


def test_a_near_miss_asks_for_nothing_that_another_operation_asks_for():
    other = PlannedOperation("color_alter", target=Target("plate"), value="green")
    assert "cup to purple" in near_miss(PlannedOperation("color_alter", target=CUP, value="blue"), other)


def test_questions_of_the_planner_are_kept():
    question = Question("Is the cup on its side?")
    miss = Question("Is the cup broken?", after="no", near_miss=True)
    plan = EditPlan((PlannedOperation("pose", questions=(question, miss)),))
    assert with_questions(plan) == plan


def test_an_operation_with_as_many_questions_as_it_may_have_gives_one_up():
    questions = tuple(Question(f"Is it {number}?") for number in range(12))
    (operation,) = with_near_miss(EditPlan((PlannedOperation("other", questions=questions),))).operations
    assert operation.questions[:11] == questions[:11]
    assert operation.questions[11].near_miss


def test_the_questions_of_an_operation_are_those_of_its_type():
    done, look, content = own_questions(PlannedOperation("style", "Make it a watercolor", value="watercolor"))
    assert "Make it a watercolor" in done.text
    assert (done.before, done.after, done.view) == ("no", "yes", "pair")
    assert done.paraphrase
    assert (look.view, look.parent) == ("edited", 0)
    assert (content.before, content.after) == ("yes", "yes")
    _, state = own_questions(PlannedOperation("expression", target=Target("woman"), value="she smiles"))
    assert state.view == "crop"
    assert "the woman: she smiles" in state.text


def test_long_words_make_questions_that_are_short_enough():
    (question,) = own_questions(PlannedOperation("other", "x{y}" * 500))
    assert len(question.text) <= 2000
