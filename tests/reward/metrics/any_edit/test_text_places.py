"""A text that is put beside an object: planned as an addition, and checked where it is read, with OCR alone."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import skimage.data

from editcritic.reward import Box, EditSample, Image, Reward, default_experts
from editcritic.reward.planners.rule_planner import RulePlanner

WHITE, DARK = (250, 248, 240), (20, 20, 40)
COAT = cv2.resize(skimage.data.astronaut(), (512, 512), interpolation=cv2.INTER_AREA)
CAMERA = cv2.resize(skimage.data.camera(), (512, 512), interpolation=cv2.INTER_AREA)
CAMERA = cv2.cvtColor(CAMERA, cv2.COLOR_GRAY2RGB)
FONT = cv2.FONT_HERSHEY_SIMPLEX


def labelled(picture, corners, words):
    """The picture with a name tag on it."""
    x0, y0, x1, y1 = corners
    tagged = cv2.rectangle(picture.copy(), (x0, y0), (x1, y1), WHITE, -1)
    return cv2.putText(tagged, words, (x0 + 8, y1 - 12), FONT, 0.8, DARK, 2, cv2.LINE_AA)


def written(picture, words, x, y, colour=(255, 255, 255)):
    return cv2.putText(picture.copy(), words, (x, y), FONT, 1.0, colour, 2, cv2.LINE_AA)


TAG = (300, 300, 440, 345)
SUIT = labelled(COAT, TAG, "EILEEN")
SIGN = (60, 120, 200, 165)
LAWN = labelled(CAMERA, SIGN, "NORTH")


@pytest.fixture(scope="module")
def any_edit():
    return Reward.of("any-edit", default_experts(), on_failures="none")


def scored(any_edit, source, edited, sentence, name, corners):
    x0, y0, x1, y1 = corners
    box = Box.from_corners(x0, y0, x1, y1, (source.shape[1], source.shape[0]))
    (score,) = any_edit(
        [EditSample("1", sentence, (Image.of(source),), Image.of(np.asarray(edited)), boxes={name: (box,)})]
    )
    return score


@pytest.mark.parametrize(
    ("source", "edited", "sentence", "name", "corners"),
    [
        (SUIT, written(SUIT, "PILOT", 320, 390), "Add the text 'PILOT' below the name tag", "name tag", TAG),
        (SUIT, written(SUIT, "NASA", 330, 285), "Write 'NASA' above the name tag.", "name tag", TAG),
        (LAWN, written(LAWN, "GATE", 220, 155), "Put the word 'GATE' to the right of the sign", "sign", SIGN),
        (LAWN, written(LAWN, "GATE", 70, 215), "Add the word 'GATE' under the sign", "sign", SIGN),
        (LAWN, written(LAWN, "GATE", 220, 155), "Add the text 'GATE' next to the sign", "sign", SIGN),
    ],
)
def test_a_text_beside_an_object_that_has_one_is_done(any_edit, source, edited, sentence, name, corners) -> None:
    score = scored(any_edit, source, edited, sentence, name, corners)
    assert (score.value or 0.0) >= 0.8, score.reason


RENAMED = labelled(COAT, TAG, "PILOT")
BELOW = "Add the text 'PILOT' below the name tag"


@pytest.mark.parametrize(
    "edited",
    [
        SUIT,
        written(SUIT, "PILOT", 330, 285),
        written(SUIT, "DRIVER", 320, 390),
        RENAMED,
        cv2.GaussianBlur(SUIT, (0, 0), 1.0),
        cv2.rectangle(SUIT.copy(), (300, 360), (440, 400), (90, 60, 30), -1),
    ],
    ids=["copy", "above it", "another text", "in place of its text", "blurred", "a patch"],
)
def test_a_text_that_is_not_there_or_elsewhere_is_not_done(any_edit, edited) -> None:
    score = scored(any_edit, SUIT, edited, BELOW, "name tag", TAG)
    assert score.value is not None, score.reason
    assert score.value < 0.2, score.reason


def test_what_is_damaged_beside_the_new_text_is_charged(any_edit) -> None:
    good = written(SUIT, "PILOT", 320, 390)
    damaged = good.copy()
    damaged[40:160, 180:300] = damaged[40:160, 180:300][:, ::-1]
    score = scored(any_edit, SUIT, damaged, BELOW, "name tag", TAG)
    assert score.value is not None
    assert score.value < 0.6


def test_without_the_box_of_the_object_it_abstains(any_edit) -> None:
    edited = Image.of(written(SUIT, "PILOT", 320, 390))
    (score,) = any_edit([EditSample("1", BELOW, (Image.of(SUIT),), edited)])
    assert score.status == "abstained"
    assert "name tag" in score.reason


@pytest.mark.parametrize(
    "sentence", ["Write 'NORTH' on the left of the window", "Add 'HERE' over the gate", "Put 'GHOST' behind the man"]
)
def test_where_it_is_open_whether_the_object_carries_the_text_nothing_is_planned(sentence) -> None:
    assert RulePlanner().plan(sentence) is None


def test_words_on_a_sign_are_rewritten_where_the_sign_stays_and_not_on_a_patch(any_edit) -> None:
    place = (280, 40, 500, 120)

    def sign(words, patch=None):
        drawn = cv2.rectangle(CAMERA.copy(), place[:2], place[2:], WHITE, -1)
        drawn = np.clip(drawn + np.random.RandomState(1).normal(0, 1.5, drawn.shape), 0, 255).astype(np.uint8)
        drawn = drawn if patch is None else cv2.rectangle(drawn, (290, 55), (450, 105), patch, -1)
        return cv2.putText(drawn, words, (300, 95), FONT, 1.4, DARK, 3, cv2.LINE_AA)

    sentence = "Change the text on the sign to 'SHUT'"
    honest, patched = (
        scored(any_edit, sign("OPEN"), edited, sentence, "sign", place)
        for edited in (sign("SHUT"), sign("SHUT", (150, 150, 150)))
    )
    assert (honest.value or 0.0) >= 0.8, honest.reason
    assert (patched.value or 0.0) <= 0.2, patched.reason
