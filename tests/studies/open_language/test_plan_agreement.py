"""Whether two plans ask for the same."""

from dataclasses import replace

import pytest

from editcritic.reward import EditPlan, Kept, PlannedOperation, Target
from studies.open_language.study import same_plan

PLAN = EditPlan(
    (
        PlannedOperation(
            "color_alter", "Paint the left red circles wooden", Target("circle", ("red",), place="left"), value="wood"
        ),
    ),
    keep=(Kept("object", Target("star")),),
)


def changed(**slots):
    return replace(PLAN, operations=(replace(PLAN.operations[0], **slots),))


@pytest.mark.parametrize(
    "other",
    [
        changed(words=""),
        changed(value="wooden"),
        changed(target=Target("red circles", place="left")),
        replace(PLAN, keep=(Kept("object", Target("stars"), "keep it"),)),
    ],
)
def test_words_and_number_make_no_difference(other):
    assert same_plan(PLAN, other)


@pytest.mark.parametrize(
    "other",
    [
        changed(target=Target("circle", ("red",))),
        changed(target=Target("circle", ("blue",), place="left")),
        changed(target=Target("circle", ("red",), place="left", size="largest")),
        changed(value="metal"),
        changed(type="material_alter"),
        replace(PLAN, keep=()),
        replace(PLAN, operations=(*PLAN.operations, PlannedOperation("subject_remove", target=Target("star")))),
    ],
)
def test_targets_values_types_and_what_stays_do(other):
    assert not same_plan(PLAN, other)


def test_changes_of_the_whole_picture_may_have_several_types():
    rain = EditPlan((PlannedOperation("weather", value="rain"),), scope="whole")
    drops = EditPlan((PlannedOperation("particles_add", value="rain"),), scope="whole")
    mirror = EditPlan((PlannedOperation("rotate", target=Target("image")),), scope="whole")
    assert same_plan(rain, drops)
    assert not same_plan(rain, EditPlan((PlannedOperation("subject_add", new=Target("rain")),)))
    assert same_plan(mirror, EditPlan((PlannedOperation("rotate", target=Target("photo"), value="horizontally"),)))
