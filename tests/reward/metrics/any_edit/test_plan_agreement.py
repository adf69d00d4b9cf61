"""Plans agree where careful readers may differ in a type, and disagree about objects, values and places."""

import pytest

from editcritic.reward import EditPlan, PlannedOperation, Target
from editcritic.reward.edit_plan import OPERATION_TYPES
from editcritic.reward.metrics.any_edit.plan_of_sample import _SENSES, plans_agree
from editcritic.reward.metrics.any_edit.plans import words_of_plan

CUP, PLATE = Target("cup"), Target("plate")


def one(kind, target=None, **slots):
    return EditPlan((PlannedOperation(kind, target=target, **slots),))


BLUE = one("color_alter", CUP, value="blue")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (BLUE, one("color_alter", Target("coffee cup"), value="light blue")),
        (BLUE, one("attribute", CUP, value="blue")),
        (BLUE, one("other", Target("cups"))),
        (one("filter", value="sepia"), one("style", value="an old photograph")),
        (one("subject_add", new=Target("hat")), one("subject_add", new=Target("hat"), target=Target("man"))),
        (one("extraction", CUP), one("background_change", value="white")),
    ],
)
def test_the_same_request(first, second):
    assert plans_agree(first, second)
    assert plans_agree(second, first)


@pytest.mark.parametrize(
    "second",
    [
        one("color_alter", PLATE, value="blue"),
        one("color_alter", CUP, value="red"),
        one("subject_remove", CUP),
        EditPlan((*BLUE.operations, *one("subject_remove", PLATE).operations)),
    ],
)
def test_another_request(second):
    assert not plans_agree(BLUE, second)
    assert not plans_agree(second, BLUE)


def test_another_place():
    left, right = (one("subject_remove", Target("cup", place=place)) for place in ("left", "right"))
    assert not plans_agree(left, right)
    assert plans_agree(left, one("subject_remove", CUP))


def test_every_type_has_a_sense_or_may_be_anything():
    assert set(OPERATION_TYPES) - set(_SENSES) == {"composition", "reasoning", "other"}


def test_a_plan_in_words():
    plan = EditPlan(
        (
            PlannedOperation("text_change", target=Target("sign"), text="OPEN"),
            PlannedOperation("subject_add", new=Target("hat"), position="above", reference=Target("man")),
            PlannedOperation("other", words="Twirl it"),
        )
    )
    assert words_of_plan(plan) == 'text_change: sign -> "OPEN"; subject_add: hat above man; other: Twirl it'
