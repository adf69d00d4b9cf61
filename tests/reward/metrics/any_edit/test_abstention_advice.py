"""An edit without a score says what to type: boxes only where they decide it and are not there, else models."""

from __future__ import annotations

import cv2
import pytest
import skimage.data

from editcritic.reward import Box, EditSample, Image, Reward, default_experts

SOURCE = cv2.resize(skimage.data.coffee(), (300, 200), interpolation=cv2.INTER_AREA)
EDITED = SOURCE.copy()
EDITED[48:98, 103:185] = EDITED[48:98, 103:185, [1, 0, 2]]
CUP, SPOON = (70, 20, 210, 130), (10, 110, 90, 190)


@pytest.fixture(scope="module")
def reward():
    return Reward.of("any-edit?text_guard=false", default_experts(), on_failures="none")


def reason(reward, sentence: str, boxes) -> str:
    """The reason of the abstention; empty for a score."""
    named = {
        name: tuple(Box.from_corners(x0, y0, x1, y1, (300, 200)) for x0, y0, x1, y1 in items)
        for name, items in boxes.items()
    }
    (score,) = reward([EditSample("1", sentence, (Image.of(SOURCE),), Image.of(EDITED), boxes=named)])
    if score.status != "abstained":
        return ""
    assert "\n" not in score.reason
    return score.reason


@pytest.mark.parametrize(
    ("sentence", "boxes", "argument"),
    [
        ("Make the cup blue", {}, '{"cup": [[x0, y0, x1, y1]]}'),
        ("Remove the spoon from the table", {}, '{"spoon": [[x0, y0, x1, y1]]}'),
        ("Remove the two spoons", {}, '{"spoons": [[x0, y0, x1, y1], [x0, y0, x1, y1]]}'),
        ("Remove the two spoons", {"spoons": [SPOON]}, '{"spoons": [[x0, y0, x1, y1], [x0, y0, x1, y1]]}'),
        ("Move the spoon to the left of the cup", {}, '{"spoon": [[x0, y0, x1, y1]], "cup": [[x0, y0, x1, y1]]}'),
        ("Move the spoon to the left of the cup", {"spoon": [SPOON]}, '{"cup": [[x0, y0, x1, y1]]}'),
        ("Write 'OPEN' on the cup", {}, '{"cup": [[x0, y0, x1, y1]]}'),
        ("Remove the watermark", {}, '{"watermark": [[x0, y0, x1, y1]]}'),
        ("Make the cup blue", {"mug": [CUP]}, '{"cup": [[x0, y0, x1, y1]]}'),
        ("Remove the cup on the table", {"cup": [CUP, SPOON]}, '{"table": [[x0, y0, x1, y1]]}'),
    ],
)
def test_boxes_that_decide_are_asked_for(reward, sentence: str, boxes, argument: str) -> None:
    assert f"give boxes={argument}" in reason(reward, sentence, boxes) or f"all, boxes={argument}" in reason(
        reward, sentence, boxes
    )


def test_a_name_that_the_instruction_does_not_use_is_named(reward) -> None:
    assert "there is one of 'mug', which the instruction does not name so" in reason(
        reward, "Make the cup blue", {"mug": [CUP]}
    )


@pytest.mark.parametrize(
    ("sentence", "boxes"),
    [
        ("Add a cat", {}),
        ("Add a cookie to the plate", {"plate": [CUP]}),
        ("Replace the cup with a bowl", {}),
        ("Replace the cup with a bowl", {"cup": [CUP]}),
        ("Give the man a hat", {}),
        ("Make the cup bigger", {}),
        ("Make the cup bigger", {"cup": [CUP]}),
        ("Make the table wooden", {"table": [CUP]}),
        ("Turn the photo into a sketch", {}),
        ("Change the background to a beach", {}),
        ("Make the person smile", {"person": [CUP]}),
        ("Remove the text 'OPEN'", {}),
    ],
)
def test_no_box_is_asked_for_where_none_helps(reward, sentence: str, boxes) -> None:
    words = reason(reward, sentence, boxes)
    assert f'experts="{"laptop" if sentence.startswith(("Add", "Replace", "Give")) else "small"}"' in words
    assert "boxes=" not in words


@pytest.mark.parametrize("boxes", [{}, {"cup": [CUP]}], ids=["none", "box"])
def test_a_colour_without_a_name_is_no_matter_of_boxes(reward, boxes) -> None:
    words = reason(reward, "Change the color of the cup to red and yellow", boxes)
    assert "cannot tell 'red and yellow'" in words
    assert "boxes=" not in words


@pytest.mark.parametrize(
    ("sentence", "boxes"),
    [
        ("Make the cup blue", {"cup": [CUP]}),
        ("Remove the cup from the table", {"cup": [CUP]}),
        ("Make the dog's ear red", {"ear": [CUP]}),
        ("Move the spoon to the left of the cup", {"spoon": [SPOON], "cup": [CUP]}),
    ],
)
def test_the_boxes_that_are_asked_for_suffice(reward, sentence: str, boxes) -> None:
    assert not reason(reward, sentence, boxes)


def test_a_sentence_that_is_not_read_is_told_what_is(reward) -> None:
    assert "say it in simpler words" in reason(reward, "Surprise everybody", {})
