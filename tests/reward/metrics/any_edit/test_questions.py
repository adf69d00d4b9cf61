"""Each operation has a question and a near miss, which no operation of the plan asks for."""

from dataclasses import replace

import pytest
from hypothesis import given

from editcritic.reward import EditPlan, PlannedOperation, Question, Target
from editcritic.reward.metrics.any_edit.questions import own_questions, with_near_miss, with_questions

from ...plan_strategies import PLANS

CUP = Target("cup")


def op(kind, target=None, words="", **slots):
    return PlannedOperation(kind, words, target, **slots)


@given(PLANS)
def test_every_plan_has_questions_and_a_near_miss(plan):
    complete = with_questions(plan)
    assert with_questions(complete) == complete == with_questions(plan)
    assert any(question.near_miss for operation in complete.operations for question in operation.questions)
    assert all(any(not one.near_miss for one in operation.questions) for operation in complete.operations)
    bare, before = ([replace(one, questions=()) for one in each.operations] for each in (complete, plan))
    assert bare == before


PLATE = Target("plate")
BLUE = op("color_alter", CUP, value="blue")


@pytest.mark.parametrize(
    ("operations", "part"),
    [
        ([BLUE], "color of the cup to green"),
        ([BLUE, op("color_alter", PLATE, value="green")], "cup to purple"),  # nothing that another one asks for
        ([op("color_alter", CUP, value="dark green")], "color of the cup to purple"),
        ([op("material_alter", CUP, value="stone")], "material of the cup to wood"),
        ([op("background_change", value="beach")], "background to underwater reef"),
        ([op("subject_add", new=CUP)], "add umbrella"),
        ([op("subject_remove", CUP)], "remove the umbrella"),
        ([op("subject_replace", CUP, new=Target("umbrella"))], "the cup with bicycle"),
        ([op("count_change", CUP, count=2)], "number of cup to 5"),
        ([op("text_change", text="EXIT")], '"MARKET"'),
        ([op("position_change", CUP, position="left", reference=PLATE)], "to the right of the plate"),
        ([op("style", value="oil painting")], "a pencil drawing"),
        ([op("other", words="Twirl it")], "a row of flags"),
    ],
)
def test_a_near_miss_has_a_wrong_value_or_object(operations, part):
    plan = with_near_miss(EditPlan(tuple(operations)))
    (question,) = [one for one in plan.operations[0].questions if one.near_miss]
    assert (question.before, question.after, question.view) == ("no", "no", "pair")
    assert part in question.text


def test_questions_of_the_planner_are_kept_and_the_last_of_too_many_gives_way():
    miss = Question("Is the cup broken?", after="no", near_miss=True)
    plan = EditPlan((op("pose", questions=(Question("Is the cup on its side?"), miss)),))
    assert with_questions(plan) == plan
    many = tuple(Question(f"Is it {number}?") for number in range(12))
    (operation,) = with_near_miss(EditPlan((op("other", questions=many),))).operations
    assert (operation.questions[:11], operation.questions[11].near_miss) == (many[:11], True)


def test_the_questions_of_an_operation_are_those_of_its_type_and_short_enough():
    done, look, content = own_questions(op("style", words="Make it a watercolor", value="watercolor"))
    assert "Make it a watercolor" in done.text
    assert (done.before, done.after, done.view, bool(done.paraphrase)) == ("no", "yes", "pair", True)
    assert (look.view, look.parent, content.before, content.after) == ("edited", 0, "yes", "yes")
    _, state = own_questions(op("expression", Target("woman"), value="she smiles"))
    assert (state.view, "the woman: she smiles" in state.text) == ("crop", True)
    (question,) = own_questions(op("other", words="x{y}" * 500))
    assert len(question.text) <= 2000
