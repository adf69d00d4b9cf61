"""What is missing for a score is said in words that can be typed: in Python, on the command line, in rows."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pytest
import skimage.data

from editcritic.reward import Box, missing_inputs, score
from editcritic.reward.boxes import boxes_of_corners

SENTENCE = missing_inputs.needs_boxes({"man's hat": 1, "cups": 2}, ())


def test_what_is_missing_is_said_in_the_words_of_each_place():
    argument = SENTENCE.partition("give boxes=")[2].partition(" in pixels")[0]
    corners = dict(zip(("x0", "y0", "x1", "y1"), (1, 2, 3, 4), strict=True))
    assert eval(argument, corners) == {"man's hat": [[1, 2, 3, 4]], "cups": [[1, 2, 3, 4]] * 2}
    assert SENTENCE.endswith('experts="laptop"')
    words = missing_inputs.for_command(SENTENCE)
    given = shlex.split(words.partition("give ")[2].partition(" in pixels")[0])
    assert given[0] == "--boxes"
    assert json.loads(given[1].replace("x0, y0, x1, y1", "1, 2, 3, 4"))["man's hat"] == [[1, 2, 3, 4]]
    assert words.endswith("--experts laptop")
    assert 'the row "boxes": {"cup": [[x0, y0, x1, y1]]} in pixels' in missing_inputs.for_rows(
        missing_inputs.needs_boxes({"cup": 1}, ())
    )
    drawn = {
        missing_inputs.needs_boxes({"cup": 1}, ()): "in the source: draw one on the source, or bind",
        missing_inputs.needs_boxes({"cups": 2}, ()): "in the source: draw all on the source, or bind",
        missing_inputs.no_box("cup", ()): "draw one on the source, or bind",
        missing_inputs.needs_more_boxes("cup", 3, 1): "has a box: draw all on the source",
    }
    assert [text for text, words in drawn.items() if words not in missing_inputs.for_page(text)] == []
    assert missing_inputs.for_page(SENTENCE).endswith("laptop under Experts")
    assert missing_inputs.says_no_box(missing_inputs.no_box("cup", ("plate",)), "cup")
    assert not missing_inputs.says_no_box(missing_inputs.no_box("cups", ()), "cup")
    assert missing_inputs.says_no_judge(missing_inputs.no_judge("any-edit/pair"))
    assert not missing_inputs.says_no_judge(missing_inputs.no_box("cup", ()))
    assert missing_inputs.asks_for_fields(f"following: {missing_inputs.no_form('Make it pop')}")
    assert not missing_inputs.asks_for_fields("the whole image may change, and the plan names nothing that stays")


@pytest.mark.parametrize(
    "corners", [[0.1, 0.2, 0.5, 0.6], [0, 0, 1, 1], (0.0, 0.0, 0.5, 1.0), [0.1, 0.2, 0.5, 1.01], [-0.02, 0.1, 0.5, 0.9]]
)
def test_boxes_in_fractions_are_refused_with_the_pixels_they_would_be(corners) -> None:
    pixels = [round(corner * side) for corner, side in zip(corners, (600, 400, 600, 400), strict=True)]
    with pytest.raises(ValueError, match="is in fractions of its 600 x 400 image") as refused:
        boxes_of_corners("cup", [corners], (600, 400))
    assert str(pixels) in str(refused.value)


def test_fractions_are_refused_wherever_a_box_is_made_of_corners() -> None:
    with pytest.raises(ValueError, match=r"in pixels it is \[60, 80, 300, 240\]"):
        Box.from_corners(0.1, 0.2, 0.5, 0.6, (600, 400))
    assert Box.from_corners(0.1, 0.2, 0.5, 0.6, (1, 1)).x0 == pytest.approx(0.1)
    assert Box.from_corners(0, 0, 1, 1, (32, 32)).area == pytest.approx(1 / 1024)  # a patch of a map
    photo = skimage.data.coffee()
    with pytest.raises(ValueError, match="in pixels it is"):
        score(photo, photo, "Remove the cup", boxes={"cup": [(0.3, 0.2, 0.6, 0.5)]})


@pytest.mark.parametrize("given", [(10, 20, 90, 80), [(10, 20, 90, 80)], np.array([[10, 20, 90, 80]])])
def test_one_box_needs_no_second_pair_of_brackets(given) -> None:
    assert boxes_of_corners("cup", given, (600, 400)) == (Box.from_corners(10, 20, 90, 80, (600, 400)),)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ([(10, 20, 90)], "is x0, y0, x1, y1 in pixels of the source, got"),
        (["cup"], "is x0, y0, x1, y1 in pixels of the source, got 'cup'"),
        ([(90, 20, 10, 80)], "is empty"),
        ([(10, 20, 900, 80)], "lies outside of its 600 x 400 image"),
        ([(10, 20, float("nan"), 80)], "NaN"),
    ],
)
def test_what_is_no_box_is_named(given, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        boxes_of_corners("cup", given, (600, 400))
