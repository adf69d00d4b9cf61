"""Referring expressions are decided on boxes, and a colour by a judge: detectors find the blue mug for a red one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import Box, Engine, Relation, Score, Target
from editcritic.reward.metrics.any_edit.targets import is_plain, locate_targets, referred_boxes, same_object
from editcritic.reward.queries import Abstention, Detect, Detections, Reply

from ...fakes import Fake
from .conftest import PHOTO

LEFT, MIDDLE, RIGHT = (
    Box(0.2, 0.5, 0.1, 0.1, 0.5, "cup"),
    Box(0.5, 0.4, 0.2, 0.2, 0.9, "cup"),
    Box(0.8, 0.6, 0.15, 0.3, 0.7, "cup"),
)
CUPS = (MIDDLE, RIGHT, LEFT)
TWICE = (*CUPS, Box(0.501, 0.4, 0.2, 0.2, 0.6, "cup"))


@pytest.mark.parametrize(
    ("qualifiers", "boxes", "meant"),
    [
        *(({}, CUPS, {LEFT, MIDDLE, RIGHT}), ({"quantity": "all"}, CUPS, {LEFT, MIDDLE, RIGHT})),
        *(({"place": "left"}, CUPS, {LEFT}), ({"place": "right"}, CUPS, {RIGHT})),
        *(({"place": "center"}, CUPS, {MIDDLE}), ({"place": "foreground"}, CUPS, {RIGHT})),
        *(({"place": "background"}, CUPS, {MIDDLE}), ({"order": 2, "order_from": "right"}, CUPS, {MIDDLE})),
        *(({"order": 3, "order_from": "left"}, CUPS, {RIGHT}), ({"order": 4, "order_from": "left"}, CUPS, set())),
        ({"order": 2, "order_from": "left"}, TWICE, {MIDDLE}),  # one object detected twice is one
        *(({"size": "smallest"}, CUPS, {LEFT}), ({"size": "largest"}, CUPS, {RIGHT})),
        ({"quantity": 2}, CUPS, {MIDDLE, RIGHT}),
        ({"quantity": "both", "place": "left"}, CUPS, {LEFT, MIDDLE}),
        ({"quantity": "all", "place": "right"}, CUPS, {RIGHT}),
        ({"quantity": 4}, CUPS, set()),
    ],
)
def test_place_order_size_and_number_choose_boxes(qualifiers, boxes, meant):
    target = Target("cup", **qualifiers)
    assert set(referred_boxes(target, boxes)) == meant
    assert is_plain(target) is (not qualifiers)


SMALL, SMALLER = Box(0.3, 0.3, 0.04, 0.05), Box(0.6, 0.32, 0.05, 0.05)


@pytest.mark.parametrize(
    ("place", "boxes", "meant"),
    [
        ("right", (Box(0.6, 0.5, 0.1, 0.3), Box(0.85, 0.6, 0.1, 0.2), LEFT), 2),
        ("right", (LEFT, Box(0.45, 0.5, 0.1, 0.3)), 1),  # the one that is farthest to the right
        *(("center", CUPS, 1), ("background", (*CUPS[:2], SMALL, SMALLER), 2)),
        ("foreground", (*CUPS[:2], SMALL, SMALLER), 2),
        ("background", (SMALL, SMALLER), 2),  # none is nearer than another
    ],
)
def test_all_at_a_place(place, boxes, meant):
    found = referred_boxes(Target("cups", place=place, quantity="all"), boxes)
    assert len(found) == meant
    assert set(found).isdisjoint(CUPS) or place != "background"


def test_a_relation_chooses_the_box_that_has_it_and_an_object_is_known_by_its_place():
    plate = (Box(0.5, 0.55, 0.3, 0.12),)
    on, left = (Target("cup", relation=Relation(kind, Target("plate"))) for kind in ("on", "left"))
    found = [referred_boxes(*arguments) for arguments in ((on, CUPS, plate), (left, CUPS, plate), (on, CUPS, ()))]
    assert (found, same_object(Box(0.52, 0.41, 0.2, 0.2), CUPS)) == ([(MIDDLE,), (LEFT,), ()], 0)
    assert same_object(Box(0.05, 0.05, 0.05, 0.05), CUPS) is None


@given(st.permutations(CUPS), st.sampled_from(["left", "right", "top", "bottom", "foreground", "background"]))
def test_the_order_of_the_boxes_does_not_matter(boxes, place):
    assert referred_boxes(Target("cup", place=place), boxes) == referred_boxes(Target("cup", place=place), CUPS)


ONE, TWO, FAR = Box(0.2, 0.5, 0.1, 0.1, 0.9), Box(0.8, 0.5, 0.1, 0.1, 0.6), Box(0.5, 0.2, 0.1, 0.1, 0.5)
RED = ("red",)


@pytest.mark.parametrize(
    ("target", "boxes", "colours", "found", "asked"),
    [
        (Target("mug", RED), (ONE, TWO), (0.9, 0.05), {ONE}, 2),
        (Target("mug", RED, place="right"), (ONE, TWO, FAR), (0.9, 0.05, 0.8), {FAR}, 3),
        (Target("mug", RED, quantity="all"), (ONE, TWO, FAR), (0.9, 0.05, 0.8), {ONE, FAR}, 3),
        (Target("mug", RED), (ONE,), (), {ONE}, 0),
        (Target("mug"), (ONE, TWO), (), {ONE, TWO}, 0),
        (Target("mug", RED), (ONE, TWO), (0.1, 0.2), {ONE, TWO}, 2),  # the judge sees the colour nowhere
        (Target("mug", RED), (ONE, TWO), None, {ONE, TWO}, 2),
        (Target("mug", RED), (ONE, TWO), (0.9, 0.4), {ONE, TWO}, 2),  # a doubtful colour counts
    ],
)
def test_a_box_of_another_colour_is_none_of_the_target(target, boxes, colours, found, asked):
    slots = []

    def answer(query):
        if isinstance(query, Detect):
            return Detections(tuple(boxes), min_score=0.05)
        slots.append(dict(query.slots))
        if colours is None:
            return Abstention("no idea of colours")
        p = colours[len(slots) - 1]
        return Reply("yes" if p >= 0.5 else "no", {"yes": p, "no": 1 - p})

    located: dict[Target, Any] = {}

    def program():
        located.update((yield from locate_targets(PHOTO, [target])))
        return Score.of(True)

    with Engine() as engine:
        engine.submit(program(), dict.fromkeys(("detector", "judge"), Fake(answer))).result(30)
    assert (set(located[target].boxes), slots) == (found, [{"object": "red mug", "value": "red"}] * asked)
    assert target.place or set(located[target].others) == set(boxes) - found
