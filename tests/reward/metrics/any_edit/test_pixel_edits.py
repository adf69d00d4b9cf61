"""Whether pixels decide an operation follows from type, value and words; what is left open is left to others."""

import pytest

from editcritic.reward.edit_plan import PlannedOperation, Target
from editcritic.reward.metrics.any_edit.pixel_edits import (
    Crop,
    LookEdit,
    Resize,
    Tilt,
    Turn,
    frame_edit,
    look_edit,
)

PICTURE = Target("image")
MIRRORED, UPENDED, HALF_TURN = (True, 0), (True, 2), (False, 2)


def turned(words, value=""):
    return frame_edit(PlannedOperation("rotate", words, target=PICTURE, value=value))


@pytest.mark.parametrize(
    ("words", "value", "allowed"),
    [
        ("mirror it", "", {MIRRORED}),
        ("flip the image", "", {MIRRORED, UPENDED}),
        ("flip the image", "vertical", {UPENDED}),
        ("turn it", "upside down", {HALF_TURN, UPENDED}),
        ("", "flip horizontally", {MIRRORED}),
        ("rotate the image", "90 degrees", {(False, 1), (False, 3)}),
        ("rotate the image", "by 90° to the right", {(False, 1)}),
        ("rotate the image", "270 degrees clockwise", {(False, 3)}),
        ("rotate the image", "counter-clockwise", {(False, 3)}),
    ],
)
def test_a_turn_allows_what_may_be_meant(words, value, allowed):
    assert turned(words, value) == Turn(frozenset(allowed))


def test_a_small_angle_has_a_direction_or_either():
    assert turned("rotate it", "by 7.5 degrees counterclockwise") == Tilt(7.5, clockwise=False)
    assert turned("rotate it", "10 degrees") == Tilt(10.0, either_way=True)
    assert turned("rotate it", "slightly clockwise") == Tilt(None)


@pytest.mark.parametrize(
    "operation",
    [
        PlannedOperation("rotate", "rotate the chair by 90 degrees", target=Target("chair"), value="90 degrees"),
        PlannedOperation("rotate", "rotate the image", target=PICTURE),
        PlannedOperation("rotate", "rotate the image", target=PICTURE, value="360 degrees"),
        PlannedOperation("rotate", "flip the image", target=PICTURE, value="like a pancake"),
        PlannedOperation("rotate", "flip and rotate the image", target=PICTURE),
        PlannedOperation("resize", "make the cup bigger", target=Target("cup"), value="bigger"),
        PlannedOperation("resize", "make the image bigger", target=PICTURE, value="bigger"),
        PlannedOperation("crop", "crop it for a poster", value="for a poster"),
        PlannedOperation("reframe", "extend it to the left", value="extend to the left"),
    ],
)
def test_what_is_open_or_about_an_object_is_no_frame(operation):
    assert frame_edit(operation) is None


@pytest.mark.parametrize(
    ("value", "crop"),
    [
        ("square", Crop(aspect=1.0)),
        ("16:9", Crop(aspect=16 / 9)),
        ("the left half", Crop(window=(0.0, 0.0, 0.5, 1.0))),
        ("upper right quarter", Crop(window=(0.5, 0.0, 1.0, 0.5))),
        ("bottom third", Crop(window=(0.0, 2 / 3, 1.0, 1.0))),
        ("center", Crop(centred=True)),
        ("", Crop()),
    ],
)
def test_a_crop_is_to_a_part_or_a_shape(value, crop):
    found = frame_edit(PlannedOperation("crop", "crop it", value=value))
    assert isinstance(found, Crop)
    assert found.window == pytest.approx(crop.window)
    assert (found.aspect, found.target, found.centred) == (crop.aspect, crop.target, crop.centred)


@pytest.mark.parametrize(
    ("value", "resize"),
    [
        ("512x384", Resize(512, 384)),
        ("640 × 480 pixels", Resize(640, 480)),
        ("300 pixels wide", Resize(width=300)),
        ("half as large", Resize(factor=0.5)),
        ("double size", Resize(factor=2.0)),
        ("down by 25%", Resize(factor=0.75)),
    ],
)
def test_a_size_is_in_pixels_or_a_factor(value, resize):
    assert frame_edit(PlannedOperation("resize", "resize it", target=PICTURE, value=value)) == resize


@pytest.mark.parametrize(
    ("kind", "value", "look"),
    [
        ("light", "a little darker", ("lightness", False)),
        ("light", "increase exposure", ("lightness", True)),
        ("filter", "less contrast", ("contrast", False)),
        ("filter", "more vivid", ("saturation", True)),
        ("filter", "less saturated", ("saturation", False)),
        ("style", "black & white", ("grey", True)),
        ("filter", "cool down", ("warmth", False)),
        ("filter", "a warm tone", ("warmth", True)),
        ("restoration", "sharpened", ("detail", True)),
        ("filter", "reduce blur", ("detail", True)),
    ],
)
def test_a_look_is_more_or_less_of_one_quantity(kind, value, look):
    assert look_edit(PlannedOperation(kind, "edit it", value=value)) == LookEdit(look[0], look[1], "whole")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("light", "brightened like at sunset"),
        ("filter", "contrast"),
        ("filter", "more contrast and more saturation"),
        ("filter", "sepia"),
        ("weather", "darker"),
        ("color_alter", "brighter"),
    ],
)
def test_what_says_more_or_is_open_is_no_look(kind, value):
    target = Target("cup") if kind == "color_alter" else None
    assert look_edit(PlannedOperation(kind, "edit it", value=value, target=target)) is None


def test_a_look_is_of_all_the_background_or_an_object():
    def place(target):
        found = look_edit(PlannedOperation("filter", "blur it", target=target, value="blurred"))
        return found and found.place

    assert [place(one) for one in (PICTURE, Target("colors"), Target("background"), Target("dog"))] == [
        "whole",
        "whole",
        "background",
        "object",
    ]
