"""In another shape a stretched or cut source passes, and another composition does not, unless the plan asks for one."""

from dataclasses import replace

import numpy as np
import pytest
import skimage.data

from editcritic.reward import Box, EditPlan, EditSample, Image, Reward, default_experts
from editcritic.reward.edit_plan import PlannedOperation, Target
from editcritic.reward.metrics.any_edit.overall import AspectAsPlanned, NotACopyAsPlanned
from editcritic.reward.metrics.any_edit.plan_preservation import PlanPreservation
from studies.preservation.sizes import answers, kontext_size, stretched

from .conftest import PHOTO, PIXELS

COFFEE = skimage.data.coffee()
LARGE = {"16:9": COFFEE[31:369], "3:1": COFFEE[100:300]}

HALF = Image.of(PIXELS[:, :150])


REMOVAL = EditPlan((PlannedOperation("subject_remove", "Remove the cup", target=Target("cup")),))


def value(plan, edited=HALF, instruction="Crop the image to the left half"):
    sample = EditSample("s", instruction, (PHOTO,), edited, plan=plan)
    (score,) = Reward(AspectAsPlanned(), default_experts())([sample])
    return score.value


@pytest.mark.parametrize("kind", ["crop", "reframe"])
def test_a_crop_may_have_another_shape(kind):
    plan = EditPlan((PlannedOperation(kind, "Crop the image to the left half"),), scope="whole")
    assert value(plan) == 1.0


def test_other_operations_may_not():
    assert value(REMOVAL, instruction="Remove the cup") == 0.0
    assert value(REMOVAL, Image.of(PIXELS.copy()), "Remove the cup") == 1.0


@pytest.mark.parametrize(("shape", "least"), [("16:9", 0.99), ("3:1", 0.96)])
def test_an_editor_may_answer_in_its_own_size_but_with_no_other_composition(shape, least):
    size = kontext_size(*LARGE[shape].shape[1::-1])
    other = skimage.data.astronaut()
    for name, answer in answers(LARGE[shape], other, size):
        sample = EditSample("s", "Remove the cup", (Image.of(LARGE[shape]),), Image.of(answer), plan=REMOVAL)
        guard, kept = (
            Reward(metric, default_experts())([sample])[0] for metric in (AspectAsPlanned(), PlanPreservation())
        )
        if name in ("stretched", "cut"):
            assert guard.value == 1.0, name
            assert kept.value == pytest.approx(least, abs=0.01)
            assert kept.reason.startswith(f"{name} from {LARGE[shape].shape[1]} x ")
        else:
            assert min(guard.value or 0.0, kept.value or 0.0) <= 0.1, name


def test_where_nothing_stands_outside_of_the_boxes_nothing_is_elsewhere():
    flat = np.full((200, 300, 3), 120, np.uint8)
    pictures = [flat, np.full((220, 300, 3), 120, np.uint8)]
    for picture, colour in zip(pictures, ((200, 30, 30), (30, 30, 200)), strict=True):
        height = len(picture)
        picture[int(0.3 * height) : int(0.7 * height), 110:190] = colour
    boxes = {"cup": (Box(0.5, 0.5, 0.5, 0.7),)}
    plan = EditPlan((PlannedOperation("color_alter", "Make it blue", target=Target("cup"), value="blue"),))
    source, edited = map(Image.of, pictures)
    sample = EditSample("s", "Make it blue", (source,), edited, plan=plan, boxes=boxes)
    (score,) = Reward(AspectAsPlanned(), default_experts())([sample])
    assert score.value == 1.0, score.reason


def test_the_further_the_shapes_are_apart_the_more_is_charged():
    sides = [(1184, 880), (1024, 768), (1024, 1024), (640, 1024)]  # of a picture of 3:2
    samples = [
        EditSample("s", "Remove the cup", (PHOTO,), Image.of(stretched(PIXELS, size)), plan=REMOVAL) for size in sides
    ]
    values = [score.value or 0.0 for score in Reward(PlanPreservation(), default_experts())(samples)]
    assert values == sorted(values, reverse=True)
    assert values[0] > 0.95
    assert 0.5 < values[2] < 0.75
    assert values[3] == 0.0


def test_the_plan_is_not_asked_for_where_the_shape_is_the_same():
    sample = EditSample("s", "What nobody can plan", (PHOTO,), Image.of(255 - PIXELS))
    (score,) = Reward(AspectAsPlanned(), default_experts())([sample])
    assert score.value == 1.0
    (cropped,) = Reward(AspectAsPlanned(), default_experts(), on_failures="none")([replace(sample, edited=HALF)])
    assert cropped.status == "abstained"


@pytest.mark.parametrize(
    ("words", "kind", "value_", "passes"),
    [
        ("resize to 512x512", "resize", "512x512", True),
        ("brighten it a bit", "light", "brightened", True),
        ("make it a watercolor", "style", "watercolor", False),
    ],
)
def test_a_copy_is_left_to_following_where_pixels_decide_the_plan(words, kind, value_, passes):
    target = Target("image") if kind == "resize" else None
    plan = EditPlan((PlannedOperation(kind, words, target=target, value=value_),), scope="whole")
    sample = EditSample("s", words, (PHOTO,), PHOTO.resized(512, 512), plan=plan)
    (score,) = Reward(NotACopyAsPlanned(), default_experts())([sample])
    assert score.value == passes
    (copy,) = Reward(NotACopyAsPlanned(), default_experts())([replace(sample, edited=PHOTO)])
    assert copy.value == 0.0


def test_a_copy_is_one_where_nobody_knows_what_was_asked_for():
    noisy = PIXELS.copy()
    noisy[::2, ::2] ^= 1
    sample = EditSample("s", "What nobody can plan", (PHOTO,), Image.of(noisy))
    (score,) = Reward(NotACopyAsPlanned(), default_experts())([sample])
    assert score.value == 0.0
