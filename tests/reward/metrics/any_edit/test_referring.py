"""Referring expressions are decided on boxes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import Box
from editcritic.reward.edit_plan import Relation, Target
from editcritic.reward.metrics.any_edit.targets import is_plain, referred_boxes, same_object

LEFT, MIDDLE, RIGHT = (
    Box(0.2, 0.5, 0.1, 0.1, 0.5, "cup"),
    Box(0.5, 0.4, 0.2, 0.2, 0.9, "cup"),
    Box(0.8, 0.6, 0.15, 0.3, 0.7, "cup"),
)
CUPS = (MIDDLE, RIGHT, LEFT)


@pytest.mark.parametrize(
    ("target", "meant"),
    [
        (Target("cup"), {LEFT, MIDDLE, RIGHT}),
        (Target("cup", quantity="all"), {LEFT, MIDDLE, RIGHT}),
        (Target("cup", place="left"), {LEFT}),
        (Target("cup", place="right"), {RIGHT}),
        (Target("cup", place="center"), {MIDDLE}),
        (Target("cup", place="foreground"), {RIGHT}),
        (Target("cup", place="background"), {MIDDLE}),
        (Target("cup", order=2, order_from="right"), {MIDDLE}),
        (Target("cup", order=3, order_from="left"), {RIGHT}),
        (Target("cup", order=4, order_from="left"), set()),
        (Target("cup", size="smallest"), {LEFT}),
        (Target("cup", size="largest"), {RIGHT}),
        (Target("cup", quantity=2), {MIDDLE, RIGHT}),
        (Target("cup", quantity="both", place="left"), {LEFT, MIDDLE}),
        (Target("cup", quantity="all", place="right"), {RIGHT}),
        (Target("cup", quantity=4), set()),
    ],
)
def test_place_order_size_and_number_choose_boxes(target, meant) -> None:
    assert set(referred_boxes(target, CUPS)) == meant


SMALL, SMALLER = Box(0.3, 0.3, 0.04, 0.05), Box(0.6, 0.32, 0.05, 0.05)


@pytest.mark.parametrize(
    ("place", "boxes", "meant"),
    [
        ("right", (Box(0.6, 0.5, 0.1, 0.3), Box(0.85, 0.6, 0.1, 0.2), LEFT), 2),
        ("right", (LEFT, Box(0.45, 0.5, 0.1, 0.3)), 1),  # the one that is farthest to the right
        ("center", CUPS, 1),
        ("background", (*CUPS[:2], SMALL, SMALLER), 2),
        ("foreground", (*CUPS[:2], SMALL, SMALLER), 2),
        ("background", (SMALL, SMALLER), 2),  # none is nearer than another
    ],
)
def test_all_at_a_place(place, boxes, meant) -> None:
    found = referred_boxes(Target("cups", place=place, quantity="all"), boxes)
    assert len(found) == meant
    assert set(found).isdisjoint(CUPS) or place != "background"


def test_a_relation_chooses_the_box_that_has_it() -> None:
    plate = Box(0.5, 0.55, 0.3, 0.12)
    table = Relation("on", Target("plate"))
    assert referred_boxes(Target("cup", relation=table), CUPS, (plate,)) == (MIDDLE,)
    assert referred_boxes(Target("cup", relation=Relation("left", Target("plate"))), CUPS, (plate,)) == (LEFT,)
    assert referred_boxes(Target("cup", relation=table), CUPS, ()) == ()


def test_a_plain_name_has_no_qualifier() -> None:
    assert is_plain(Target("cup", ("red",)))
    assert not is_plain(Target("cup", place="left"))
    assert not is_plain(Target("cup", quantity="all"))


def test_one_object_detected_twice_is_one() -> None:
    twice = Box(0.501, 0.4, 0.2, 0.2, 0.6, "cup")
    assert referred_boxes(Target("cup", order=2, order_from="left"), (*CUPS, twice)) == (MIDDLE,)


def test_an_object_is_known_again_by_its_place() -> None:
    assert same_object(Box(0.52, 0.41, 0.2, 0.2), CUPS) == 0
    assert same_object(Box(0.05, 0.05, 0.05, 0.05), CUPS) is None


@given(st.permutations(CUPS), st.sampled_from(["left", "right", "top", "bottom", "foreground", "background"]))
def test_the_order_of_the_boxes_does_not_matter(boxes, place) -> None:
    assert referred_boxes(Target("cup", place=place), boxes) == referred_boxes(Target("cup", place=place), CUPS)
