"""EdiVal's tasks, Complex-Edit's operations and DLEBench's targets become plans, and tasks come back from them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import Box, Kept, Operation, PlannedOperation, Target, Task
from editcritic.reward.metrics.any_edit.plans import (
    plan_of_operations,
    plan_of_targets,
    plan_of_task,
    task_of_operation,
)
from editcritic.reward.sample import POSITIONS

NAMES = st.text(min_size=1, max_size=8).filter(str.strip)
PLACES = st.sampled_from(POSITIONS)
TASKS = st.one_of(
    st.builds(Task, st.just("subject_add"), new=NAMES),
    st.builds(Task, st.just("subject_add"), new=NAMES, position=PLACES, reference=NAMES),
    st.builds(Task, st.just("subject_remove"), object=NAMES),
    st.builds(Task, st.just("subject_replace"), object=NAMES, new=NAMES),
    st.builds(Task, st.just("position_change"), object=NAMES, position=PLACES, reference=NAMES),
    st.builds(Task, st.just("count_change"), object=NAMES, count=st.integers(0, 9)),
    st.builds(Task, st.sampled_from(["color_alter", "material_alter"]), object=NAMES, value=NAMES),
    st.builds(Task, st.just("text_change"), text=NAMES, object=st.none() | NAMES, old=st.none() | NAMES),
    st.builds(Task, st.just("background_change"), value=NAMES, keep=st.lists(NAMES, max_size=3).map(tuple)),
)


@given(TASKS, st.text())
def test_a_task_comes_back_from_its_plan_but_for_what_it_keeps(task, instruction):
    (operation,) = plan_of_task(task, instruction).operations
    assert task_of_operation(operation) == replace(task, keep=())


def test_a_slot_is_the_whole_noun_and_kept_objects_are_kept():
    plan = plan_of_task(Task("background_change", value="snow", keep=("wood red circle",)), " Change  it ")
    (operation,) = plan.operations
    assert (operation.words, operation.value, plan.scope) == ("Change it", "snow", "whole")
    assert plan.keep == (Kept("object", Target("wood red circle")),)
    (recolour,) = plan_of_task(Task("color_alter", object="wood red circle", value="blue")).operations
    assert recolour.target == Target("wood red circle")


def test_an_operation_is_its_task_or_what_its_sentence_says_or_its_words():
    plan = plan_of_operations(
        [
            Operation("Make the cup blue", "Change Color", Task("color_alter", object="cup", value="blue")),
            Operation("Remove the fork"),
            Operation("Make the light warmer", "Adjust Lighting"),
            Operation("Twirl it", "Twirl"),
            Operation("Paint the sky in the colors of dawn", "Change Color"),
        ]
    )
    assert [operation.type for operation in plan.operations] == [
        *("color_alter", "subject_remove", "light", "other", "other"),
    ]
    assert plan.operations[2].words == "Make the light warmer"
    assert plan.scope == "whole"


def test_what_another_operation_is_about_is_not_kept():
    plan = plan_of_operations(
        [
            Operation("Change the background to snow, remain the cup, fork unchanged"),
            Operation("Remove the Cup"),
        ]
    )
    assert plan.keep == (Kept("object", Target("fork")),)


def test_targets_are_boxes_of_the_target():
    box = Box(0.5, 0.5, 0.1, 0.1)
    (known,) = plan_of_targets("Change the color of cup to blue", [box]).operations
    assert known.target == Target("cup", boxes=(box,))
    (other,) = plan_of_targets("Turn the small red label over", [box]).operations
    assert (other.type, other.words) == ("other", "Turn the small red label over")
    assert other.target is not None
    assert other.target.boxes == (box,)


@pytest.mark.parametrize(
    "operation",
    [
        PlannedOperation("style", value="watercolor"),
        PlannedOperation("position_change", target=Target("cup")),
        PlannedOperation("other", "Do it"),
    ],
)
def test_other_operations_have_no_task(operation):
    assert task_of_operation(operation) is None


def test_a_referring_expression_keeps_its_attributes_in_a_task():
    target = Target("cup", ("small", "red"), order=2, order_from="left", quantity="all")
    operation = PlannedOperation("color_alter", target=target, value="blue")
    assert task_of_operation(operation) == Task("color_alter", object="small red cup", value="blue")
