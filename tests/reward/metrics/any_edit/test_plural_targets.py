"""A plural with a place or a relation means all of them there, whoever planned it."""

import cv2
import numpy as np
import pytest
import skimage.data

from editcritic.reward import Box, EditSample, Image, Reward, default_experts
from editcritic.reward.edit_plan import EditPlan, PlannedOperation, Relation, Target
from editcritic.reward.metrics.any_edit.plans import is_plural, with_plurals


@pytest.mark.parametrize(
    "noun", ["skiers", "people", "wine glass bottles", "cups of tea", "geese", "boxes", "young men", "red text"]
)
def test_plurals(noun) -> None:
    assert is_plural(noun)


@pytest.mark.parametrize(
    "noun", ["skier", "bus", "glass", "scissors", "cup of beans", "iris", "sunglasses", "canvas", "gas"]
)
def test_no_plurals(noun) -> None:
    assert not is_plural(noun)


@pytest.mark.parametrize(
    ("target", "quantity"),
    [
        (Target("boats", place="left"), "all"),
        (Target("boats", relation=Relation("on", Target("lake"))), "all"),
        (Target("boat", place="left"), 1),
        (Target("boats"), 1),  # all of them anyway
        (Target("boats", place="left", quantity=2), 2),
        (Target("boats", place="left", quantity="both"), "both"),
        (Target("boats", size="largest"), 1),
        (Target("boats", order=2, order_from="left"), 1),
    ],
)
def test_the_number_that_is_meant(target, quantity) -> None:
    plan = EditPlan((PlannedOperation("subject_remove", target=target),))
    (operation,) = with_plurals(plan).operations
    assert operation.target is not None
    assert operation.target.quantity == quantity


def test_what_a_target_relates_to_may_be_a_plural_too() -> None:
    cups = Target("cup", relation=Relation("on", Target("tables", place="right")))
    (operation,) = with_plurals(EditPlan((PlannedOperation("subject_remove", target=cups),))).operations
    assert operation.target is not None
    assert operation.target.quantity == 1
    assert operation.target.relation is not None
    assert operation.target.relation.of.quantity == "all"


GRASS = cv2.resize(skimage.data.gravel(), (512, 384), interpolation=cv2.INTER_AREA)
GRASS = cv2.cvtColor(GRASS, cv2.COLOR_GRAY2RGB)
CAT = cv2.resize(skimage.data.chelsea()[20:270, 80:330], (90, 90), interpolation=cv2.INTER_AREA)
CORNERS = ((60, 120, 150, 210), (290, 90, 380, 180), (400, 210, 490, 300))


def standing(*numbers):
    """The ground with some of the three cats on it."""
    picture = GRASS.copy()
    for number in numbers:
        x0, y0, x1, y1 = CORNERS[number]
        picture[y0:y1, x0:x1] = CAT if number % 2 else CAT[:, ::-1]
    return picture


@pytest.fixture(scope="module")
def any_edit():
    return Reward.of("any-edit", default_experts(), on_failures="none")


@pytest.mark.parametrize("name", ["cats", "cat"])
@pytest.mark.parametrize(
    ("sentence", "left_over", "is_done"),
    [
        ("remove cats on right", (0,), True),
        ("Remove the cats on the right", (0, 1), False),
        ("Remove the cats on the right side of the image", (0, 2), False),
        ("Remove the cat on the right", (0, 1), True),
    ],
)
def test_removing_those_on_the_right(sentence, left_over, is_done, name, any_edit) -> None:
    source, edited = standing(0, 1, 2), standing(*left_over)
    boxes = {name: tuple(Box.from_corners(*corners, (512, 384)) for corners in CORNERS)}
    (score,) = any_edit([EditSample("1", sentence, (Image.of(source),), Image.of(np.asarray(edited)), boxes=boxes)])
    assert score.value is not None, score.reason
    assert (score.value > 0.75) is is_done, score.reason
    assert is_done or score.value < 0.25
