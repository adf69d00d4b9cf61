"""Samples and tasks: fields, required slots, groups and turns."""

import dataclasses
import pickle
from typing import Any

import pytest

from editcritic.reward import Box, EditSample, Pools, Reward, Task
from editcritic.reward.sample import POSITIONS, TASK_TYPES

from .fakes import picture, sample

COMPLETE: dict[Any, dict[str, Any]] = {
    "subject_add": {"new": "lamp"},
    "subject_remove": {"object": "cup"},
    "subject_replace": {"object": "cup", "new": "glass"},
    "position_change": {"object": "cup", "position": "left", "reference": "plate"},
    "count_change": {"object": "cup", "count": 3},
    "color_alter": {"object": "cup", "value": "blue"},
    "material_alter": {"object": "cup", "value": "wood"},
    "text_change": {"text": "OPEN"},
    "background_change": {"value": "beach"},
}
MISSING = [(kind, slot) for kind, slots in COMPLETE.items() for slot in slots]


def test_every_type_of_task_is_tried():
    assert set(COMPLETE) == set(TASK_TYPES)


@pytest.mark.parametrize(("kind", "slot"), MISSING)
@pytest.mark.parametrize("nothing", [None, ""])
def test_a_task_needs_the_slots_of_its_type(kind, slot, nothing):
    with pytest.raises(ValueError, match=f"a {kind} task needs .*{slot}"):
        Task(kind, **{**COMPLETE[kind], slot: nothing})


@pytest.mark.parametrize(
    ("slots", "says"),
    [
        ({"type": "paint"}, "unknown task type 'paint': expected one of subject_add, "),
        ({**COMPLETE["position_change"], "type": "position_change", "position": "inside"}, "unknown position 'inside'"),
        ({"type": "subject_add", "new": "lamp", "position": "left"}, "position and reference together, or neither"),
        ({"type": "subject_add", "new": "lamp", "reference": "cup"}, "position and reference together, or neither"),
        ({"type": "count_change", "object": "cup", "count": -1}, "count must not be negative, got -1"),
    ],
)
def test_a_task_that_means_nothing_is_refused(slots, says):
    with pytest.raises(ValueError, match=says):
        Task(**slots)


def test_sources_boxes_and_fields_of_a_sample():
    assert Task("count_change", object="cup", count=0).count == 0
    assert all(Task("subject_add", new="lamp", position=side, reference="cup") for side in POSITIONS)
    with pytest.raises(ValueError, match="sample 's' has no source image: give at least one"):
        sample(sources=())
    with pytest.raises(TypeError, match=r"a tuple of images, as in \(image,\), got an Image"):
        sample(sources=sample().source)
    with pytest.raises(TypeError, match=r"boxes of 'cup' are Box objects, as in .* got 133"):
        sample(boxes={"cup": (133, 347, 209, 424)})
    edit = sample(boxes={"cup": [Box(0.5, 0.5, 0.1, 0.1)]})
    assert edit.boxes == {"cup": (Box(0.5, 0.5, 0.1, 0.1, label="cup"),)}
    metadata, boxes = {"seed": 3}, {"cup": [Box(0.5, 0.5, 0.1, 0.1)]}
    edit = sample(metadata=metadata, boxes=boxes)
    metadata["seed"], boxes["saucer"] = 4, []
    assert (edit.metadata, list(edit.boxes)) == ({"seed": 3}, ["cup"])


def test_groups_and_turns():
    group = sample().group
    assert sample("other", edited=picture(9)).group == group
    assert sample(instruction="make it red").group != group
    assert sample(sources=(picture(9),)).group != group
    assert sample(sources=(picture(0), picture(9))).group != group
    assert sample(group="mine").group == "mine"
    first = sample("first")
    second = sample("second", sources=(first.edited,), history=(first,))
    third = sample("third", sources=(second.edited,), edited=picture(3), history=(first, second))
    assert [turn.turn for turn in third.turns] == [1, 2, 3]
    assert third.turns == (first, second, third)
    assert (third.source, third.base) == (second.edited, first.source)


def test_a_sample_is_immutable_and_survives_pickling():
    edit = sample(
        boxes={"cup": [Box(0.5, 0.5, 0.1, 0.1)]},
        task=Task("color_alter", object="cup", value="blue"),
        pools=Pools(("cup",), ("cup",), (), False),
        metadata={"seed": 3},
    )
    again = pickle.loads(pickle.dumps(edit))
    assert again == edit
    assert isinstance(again, EditSample)
    with pytest.raises(dataclasses.FrozenInstanceError):
        edit.instruction = "no"  # type: ignore[misc]


def test_half_a_character_makes_no_number_and_spoils_no_batch():
    broken, whole = (
        sample(name, instruction=f"make the cup {value}") for name, value in (("a", "\ud800"), ("b", "blue"))
    )
    assert broken.group != whole.group
    scores = Reward.of("any-edit", on_failures="none")([broken, whole])
    assert scores[0].value is None
    assert scores[1].status == "abstained"  # no box
