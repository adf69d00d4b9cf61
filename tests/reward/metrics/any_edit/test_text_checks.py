"""Texts that are written or removed on photographs, decided by a real reader."""

from __future__ import annotations

from dataclasses import replace

import cv2
import pytest
import skimage.data

from editcritic.reward import Box, EditSample, Image, Reward, default_experts
from editcritic.reward.edit_plan import PlannedOperation, Target
from editcritic.reward.experts.rapid_ocr import RapidOcr
from editcritic.reward.metrics.any_edit.following import PlanFollowing
from editcritic.reward.metrics.any_edit.text_checks import names_text, removes_text

WHITE, NAVY = (255, 255, 255), (30, 60, 110)
FONT = cv2.FONT_HERSHEY_DUPLEX
COFFEE, ROCKET, CAT = skimage.data.coffee(), skimage.data.rocket(), skimage.data.chelsea()
SIGN = (330, 250, 580, 330)


def write(picture, words: str, x: int, y: int, scale: float = 1.6, colour=WHITE):
    return cv2.putText(picture.copy(), words, (x, y), FONT, scale, colour, 3, cv2.LINE_AA)


def sign(*texts):
    """The photograph with a sign, and texts on it: words, x, y, scale."""
    picture = cv2.rectangle(COFFEE.copy(), SIGN[:2], SIGN[2:], NAVY, -1)
    for text in texts:
        picture = write(picture, *text)
    return picture


@pytest.fixture(scope="module")
def experts():
    return {**default_experts(), "reader": RapidOcr(short_side=320)}  # a fifth of the time: the letters are large


@pytest.fixture(scope="module")
def following(experts):
    return Reward(PlanFollowing(), experts)


def followed(following, source, edited, sentence: str, boxes=None) -> float | None:
    """The value of following."""
    size = source.shape[1], source.shape[0]
    named = {
        name: (Box.from_corners(corners[0], corners[1], corners[2], corners[3], size),)
        for name, corners in (boxes or {}).items()
    }
    sample = EditSample("1", sentence, (Image.of(source),), Image.of(edited), boxes=named)
    (score,) = following([sample])
    return score.value


# -- writing -----------------------------------------------------------------------------------------------------------

DINER, PLANE = sign(("DINER", 370, 308)), ("PLANE", 370, 308)


@pytest.mark.parametrize(
    ("edited", "sentence", "done"),
    [
        (sign(PLANE), "Make the sign say PLANE", True),
        (sign(PLANE, ("T", 343, 270, 0.7), (".", 345, 322, 0.9)), "Make the sign say PLANE", True),
        (sign(("GRAND", 370, 285, 1.2), ("HOTEL", 370, 322, 1.2)), "Make the sign say 'GRAND HOTEL'", True),
        (sign(PLANE), "Change the text 'DINER' on the sign to 'PLANE'", True),
        (sign(("PLAME", 370, 308)), "Make the sign say PLANE", False),
        (sign(("PLANES", 350, 308)), "Make the sign say PLANE", False),
        (sign(("PLANE", 350, 285, 1.1), ("TODAY", 350, 322, 1.1)), "Make the sign say PLANE", False),
        (sign(("PLANE", 350, 285, 1.1), ("DINER", 350, 322, 1.1)), "Change 'DINER' on the sign to 'PLANE'", False),
    ],
    ids=["right", "stray", "two lines", "old gone", "misspelled", "a letter more", "a word more", "old stays"],
)
def test_the_wanted_text_counts_and_strays_do_not(following, edited, sentence, done) -> None:
    value = followed(following, DINER, edited, sentence, {"sign": SIGN})
    assert value is not None
    assert value > 0.9 if done else value < 0.25


def test_a_text_may_go_beyond_the_box_of_the_old_one(following) -> None:
    longer = sign(("AIRPLANES", 338, 308, 1.35))
    assert (
        followed(following, DINER, longer, "Make the sign say AIRPLANES", {"sign": (365, 262, 530, 318)}) or 0
    ) > 0.9


def test_words_of_the_photograph_may_stay(following) -> None:
    pilot = skimage.data.astronaut()  # with letters on the patches of the suit
    right = write(pilot, "HELLO", 20, 480, colour=(255, 255, 0))
    assert (followed(following, pilot, right, "Add the text 'HELLO'") or 0) > 0.9
    friends = write(right, "FRIENDS", 230, 480, colour=(255, 255, 0))
    assert (followed(following, pilot, friends, "Add the text 'HELLO'") or 0) < 0.25


# -- removal -----------------------------------------------------------------------------------------------------------


def stamped(picture, words: str, x: int, y: int, colour, alpha: float = 1.0):
    """The photograph with a text, opaque or not, and the box of it."""
    (w, h), _ = cv2.getTextSize(words, FONT, 1.4, 3)
    text = cv2.putText(picture.copy(), words, (x, y), FONT, 1.4, colour, 3, cv2.LINE_AA)
    return cv2.addWeighted(text, alpha, picture, 1 - alpha, 0), (x - 4, y - h - 4, x + w + 4, y + 6)


CASES = [
    (COFFEE, "FRESH BREW", 320, 380, WHITE, "watermark"),
    (ROCKET, "LAUNCH DAY", 20, 60, WHITE, "caption"),
    (CAT, "12.04.2026", 20, 285, (255, 150, 30), "date stamp"),
]


@pytest.fixture(scope="module", params=CASES, ids=["coffee", "rocket", "cat"])
def case(request):
    picture, words, x, y, colour, name = request.param
    source, box = stamped(picture, words, x, y, colour)
    return picture, source, box, words, name


def test_a_removed_text_is_gone_with_a_box_and_without(following, case) -> None:
    clean, source, box, words, name = case
    for sentence, boxes in [
        ("Remove the text", None),
        ("Remove the text", {"text": box}),
        ("remove text", {"text": box}),
        (f"Remove the text '{words}'", None),
        (f"Remove the {name}", None),
        (f"Remove the {name}", {name: box}),
    ]:
        assert (followed(following, source, clean, sentence, boxes) or 0) > 0.9, sentence


def test_a_text_that_is_left_in_part_or_replaced_is_not_gone(following, case) -> None:
    clean, source, box, _, _ = case
    half = source.copy()
    middle = (box[0] + box[2]) // 2
    half[:, middle:] = clean[:, middle:]
    other, _ = stamped(clean, "NOTHING", box[0] + 4, box[3] - 6, WHITE)
    blurred = source.copy()
    blurred[box[1] : box[3], box[0] : box[2]] = cv2.GaussianBlur(source, (0, 0), 2)[box[1] : box[3], box[0] : box[2]]
    for edited in (half, other, blurred):
        for boxes in (None, {"text": box}):
            value = followed(following, source, edited, "Remove the text", boxes)
            assert value is not None
            assert value < 0.25


def test_a_ghost_of_a_text_is_read_with_more_contrast(following) -> None:
    source, _ = stamped(ROCKET, "LAUNCH DAY", 20, 60, WHITE)
    ghost, _ = stamped(ROCKET, "LAUNCH DAY", 20, 60, WHITE, alpha=0.1)
    value = followed(following, source, ghost, "Remove the text")
    assert value is not None
    assert value < 0.25


def test_of_two_texts_the_quoted_one_goes(following) -> None:
    both = write(write(COFFEE, "OPEN", 20, 50), "LATTE", 400, 380)
    latte, opened = write(COFFEE, "LATTE", 400, 380), write(COFFEE, "OPEN", 20, 50)
    assert (followed(following, both, latte, "Remove the text 'OPEN'") or 0) > 0.9
    assert (followed(following, both, opened, "Remove the text 'OPEN'") or 0) < 0.25
    assert (followed(following, both, latte, "Remove the text at the top") or 0) > 0.9


@pytest.mark.parametrize("left", ["OPEN", "LATTE"])
def test_which_of_two_texts_is_the_watermark_is_not_guessed_from_the_edit(following, left: str) -> None:
    both = write(write(COFFEE, "OPEN", 20, 50), "LATTE", 400, 380)
    edited = write(COFFEE, left, *((20, 50) if left == "OPEN" else (400, 380)))
    assert followed(following, both, edited, "Remove the watermark") is None


def test_what_is_damaged_beside_a_removed_text_is_charged(experts) -> None:
    source, _ = stamped(COFFEE, "FRESH BREW", 320, 380, WHITE)
    damaged = COFFEE.copy()
    damaged[60:200, 200:360] = damaged[60:200, 200:360][:, ::-1]
    good, bad = Reward.of("any-edit", experts)(
        [
            EditSample(str(index), "Remove the text", (Image.of(source),), Image.of(edited))
            for index, edited in enumerate((COFFEE, damaged))
        ]
    )
    assert good.value is not None
    assert bad.value is not None
    assert bad.value < 0.6 < 0.9 < good.value


@pytest.mark.parametrize(
    ("noun", "is_text"),
    [
        ("date stamp", True),
        ("watermarks", True),
        ("text", True),
        ("subtitles", True),
        ("stamp", False),
        ("sign", False),
    ],
)
def test_texts_are_told_from_what_carries_them(noun: str, is_text: bool) -> None:
    operation = PlannedOperation("subject_remove", target=Target(noun))
    assert names_text(Target(noun)) is removes_text(operation) is is_text
    assert removes_text(replace(operation, type="text_remove"))


def test_contrast_is_stretched_and_grain_stays_grain() -> None:
    low = Image.of((COFFEE // 4 + 90).astype("uint8"))
    assert low.stretched().pixels.std() > 3 * low.pixels.std()
    assert Image.of((COFFEE // 64 + 90).astype("uint8")).stretched().pixels.std() < 64
