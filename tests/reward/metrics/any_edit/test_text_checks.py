"""Texts that are written, removed or put beside an object on photographs, decided by a real reader."""

from dataclasses import replace
from pathlib import Path

import cv2
import matplotlib
import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont
import pytest
import skimage.data

from editcritic.reward import EditPlan, Image, PlannedOperation, Reward, Target, load_experts
from editcritic.reward.experts.rapid_ocr import RapidOcr
from editcritic.reward.metrics.any_edit.following import PlanFollowing
from editcritic.reward.metrics.any_edit.text_checks import names_text, removes_text
from editcritic.reward.planners.rule_planner import RulePlanner

from .conftest import edit, worth

WHITE, NAVY, DARK, YELLOW = (255, 255, 255), (30, 60, 110), (20, 20, 40), (255, 255, 0)
FONT = cv2.FONT_HERSHEY_DUPLEX
COFFEE, ROCKET, CAT, PILOT = (getattr(skimage.data, name)() for name in ("coffee", "rocket", "chelsea", "astronaut"))
SIGN = (330, 250, 580, 330)


def write(picture, words, x, y, scale=1.6, colour=WHITE, width=3):
    return cv2.putText(picture.copy(), words, (x, y), FONT, scale, colour, width, cv2.LINE_AA)


def sign(*texts):
    """The photograph with a sign, and texts on it: words, x, y, scale."""
    picture = cv2.rectangle(COFFEE.copy(), SIGN[:2], SIGN[2:], NAVY, -1)
    for text in texts:
        picture = write(picture, *text)
    return picture


def stamped(picture, words, x, y, colour=WHITE, alpha=1.0):
    """The photograph with a text, opaque or not, and the box of it."""
    (w, h), _ = cv2.getTextSize(words, FONT, 1.4, 3)
    text = write(picture, words, x, y, 1.4, colour)
    return cv2.addWeighted(text, alpha, picture, 1 - alpha, 0), (x - 4, y - h - 4, x + w + 4, y + 6)


@pytest.fixture(scope="module")
def quick(experts):
    return {**experts, "reader": RapidOcr(short_side=320)}  # a fifth of the time: the letters are large


@pytest.fixture(scope="module")
def followed(quick):
    """The value of following."""
    reward = Reward(PlanFollowing(), quick)

    def value(source, edited, sentence, boxes=None):
        return reward([edit(sentence, source, edited, boxes)])[0].value

    return value


DINER, PLANE = sign(("DINER", 370, 308)), ("PLANE", 370, 308)
SAY_PLANE = "Make the sign say PLANE"
ON_SIGN, ON_TEXT = {"sign": SIGN}, {"sign": (365, 262, 530, 318)}
HELLO = write(PILOT, "HELLO", 20, 480, colour=YELLOW)  # beside letters on the patches of the suit
FRIENDS = write(HELLO, "FRIENDS", 230, 480, colour=YELLOW)
LATTE, OPENED = write(COFFEE, "LATTE", 400, 380), write(COFFEE, "OPEN", 20, 50)
TWO_TEXTS = write(OPENED, "LATTE", 400, 380)
LAUNCH, GHOST = (stamped(ROCKET, "LAUNCH DAY", 20, 60, alpha=alpha)[0] for alpha in (1.0, 0.1))


@pytest.mark.parametrize(
    ("source", "edited", "sentence", "boxes", "done"),
    [
        (DINER, sign(PLANE), SAY_PLANE, ON_SIGN, True),
        (DINER, sign(PLANE, ("T", 343, 270, 0.7), (".", 345, 322, 0.9)), SAY_PLANE, ON_SIGN, True),
        (
            DINER,
            sign(("GRAND", 370, 285, 1.2), ("HOTEL", 370, 322, 1.2)),
            *("Make the sign say 'GRAND HOTEL'", ON_SIGN, True),
        ),
        (DINER, sign(PLANE), "Change the text 'DINER' on the sign to 'PLANE'", ON_SIGN, True),
        (DINER, sign(("PLAME", 370, 308)), SAY_PLANE, ON_SIGN, False),
        (DINER, sign(("PLANES", 350, 308)), SAY_PLANE, ON_SIGN, False),
        (DINER, sign(("PLANE", 350, 285, 1.1), ("TODAY", 350, 322, 1.1)), SAY_PLANE, ON_SIGN, False),
        (
            DINER,
            sign(("PLANE", 350, 285, 1.1), ("DINER", 350, 322, 1.1)),
            *("Change 'DINER' on the sign to 'PLANE'", ON_SIGN, False),
        ),
        (DINER, sign(("AIRPLANES", 338, 308, 1.35)), "Make the sign say AIRPLANES", ON_TEXT, True),  # beyond the box
        (PILOT, HELLO, "Add the text 'HELLO'", None, True),
        (PILOT, FRIENDS, "Add the text 'HELLO'", None, False),
        (TWO_TEXTS, LATTE, "Remove the text 'OPEN'", None, True),
        (TWO_TEXTS, OPENED, "Remove the text 'OPEN'", None, False),
        (TWO_TEXTS, LATTE, "Remove the text at the top", None, True),
        *((TWO_TEXTS, left, "Remove the watermark", None, None) for left in (LATTE, OPENED)),  # which is not guessed
        (LAUNCH, GHOST, "Remove the text", None, False),  # it is read with more contrast
    ],
)
def test_the_wanted_text_counts_and_strays_do_not(followed, source, edited, sentence, boxes, done):
    value = followed(source, edited, sentence, boxes)
    if done is None:
        assert value is None
    else:
        assert value > 0.9 if done else value < 0.25


@pytest.mark.parametrize(
    ("clean", "words", "x", "y", "colour", "name"),
    [
        (COFFEE, "FRESH BREW", 320, 380, WHITE, "watermark"),
        (ROCKET, "LAUNCH DAY", 20, 60, WHITE, "caption"),
        (CAT, "12.04.2026", 20, 285, (255, 150, 30), "date stamp"),
    ],
)
def test_a_removed_text_is_gone_and_one_that_is_left_in_part_or_replaced_is_not(
    followed, clean, words, x, y, colour, name
):
    source, box = stamped(clean, words, x, y, colour)
    requests = [("Remove the text", None), ("Remove the text", {"text": box}), ("remove text", {"text": box})]
    requests += [
        *((f"Remove the text '{words}'", None), (f"Remove the {name}", None), (f"Remove the {name}", {name: box})),
    ]
    assert min(followed(source, clean, *request) for request in requests) > 0.9
    half, blurred, (x0, y0, x1, y1) = source.copy(), source.copy(), box
    half[:, (x0 + x1) // 2 :] = clean[:, (x0 + x1) // 2 :]
    blurred[y0:y1, x0:x1] = cv2.GaussianBlur(source, (0, 0), 2)[y0:y1, x0:x1]
    for edited in (half, stamped(clean, "NOTHING", x0 + 4, y1 - 6)[0], blurred):
        assert max(followed(source, edited, *request) for request in requests[:2]) < 0.25


def test_what_is_damaged_beside_a_removed_text_is_charged(quick):
    source, damaged = stamped(COFFEE, "FRESH BREW", 320, 380)[0], COFFEE.copy()
    damaged[60:200, 200:360] = damaged[60:200, 200:360][:, ::-1]
    edits = [edit("Remove the text", source, edited) for edited in (COFFEE, damaged)]
    good, bad = map(worth, Reward.of("any-edit", quick)(edits))
    assert bad < 0.6 < 0.9 < good


TEXTS, CARRIERS = ("date stamp", "watermarks", "text", "subtitles"), ("stamp", "sign")


@pytest.mark.parametrize("noun", TEXTS + CARRIERS)
def test_texts_are_told_from_what_carries_them(noun):
    operation = PlannedOperation("subject_remove", target=Target(noun))
    assert names_text(Target(noun)) is removes_text(operation) is (noun in TEXTS)
    assert removes_text(replace(operation, type="text_remove"))


def test_contrast_is_stretched_and_grain_stays_grain():
    low = Image.of((COFFEE // 4 + 90).astype("uint8"))
    assert low.stretched().pixels.std() > 3 * low.pixels.std()
    assert Image.of((COFFEE // 64 + 90).astype("uint8")).stretched().pixels.std() < 64


CAMERA = cv2.cvtColor(skimage.data.camera(), cv2.COLOR_GRAY2RGB)
PLAIN = cv2.FONT_HERSHEY_SIMPLEX


def labelled(picture, corners, words):
    """The picture with a name tag on it."""
    x0, y0, x1, y1 = corners
    tagged = cv2.rectangle(picture.copy(), (x0, y0), (x1, y1), (250, 248, 240), -1)
    return cv2.putText(tagged, words, (x0 + 8, y1 - 12), PLAIN, 0.8, DARK, 2, cv2.LINE_AA)


def written(picture, words, x, y):
    return cv2.putText(picture.copy(), words, (x, y), PLAIN, 1.0, WHITE, 2, cv2.LINE_AA)


TAG, POST, BOARD = (300, 300, 440, 345), (60, 120, 200, 165), (280, 40, 500, 120)
SUIT, LAWN = labelled(PILOT, TAG, "EILEEN"), labelled(CAMERA, POST, "NORTH")
GOOD = written(SUIT, "PILOT", 320, 390)
DAMAGED = GOOD.copy()
DAMAGED[40:160, 180:300] = DAMAGED[40:160, 180:300][:, ::-1]
BELOW = "Add the text 'PILOT' below the name tag"
ON_TAG, AT_POST, ON_BOARD = {"name tag": TAG}, {"sign": POST}, {"sign": BOARD}


def board(words, patch=None):
    drawn = cv2.rectangle(CAMERA.copy(), BOARD[:2], BOARD[2:], (250, 248, 240), -1)
    drawn = np.clip(drawn + np.random.RandomState(1).normal(0, 1.5, drawn.shape), 0, 255).astype(np.uint8)
    drawn = drawn if patch is None else cv2.rectangle(drawn, (290, 55), (450, 105), patch, -1)
    return cv2.putText(drawn, words, (300, 95), PLAIN, 1.4, DARK, 3, cv2.LINE_AA)


SHUT = "Change the text on the sign to 'SHUT'"


@pytest.mark.parametrize(
    ("source", "edited", "sentence", "boxes", "low", "high"),
    [
        (SUIT, GOOD, BELOW, ON_TAG, 0.8, 1.0),
        (SUIT, written(SUIT, "NASA", 330, 285), "Write 'NASA' above the name tag.", ON_TAG, 0.8, 1.0),
        (LAWN, written(LAWN, "GATE", 220, 155), "Put the word 'GATE' to the right of the sign", AT_POST, 0.8, 1.0),
        (LAWN, written(LAWN, "GATE", 70, 215), "Add the word 'GATE' under the sign", AT_POST, 0.8, 1.0),
        (LAWN, written(LAWN, "GATE", 220, 155), "Add the text 'GATE' next to the sign", AT_POST, 0.8, 1.0),
        (SUIT, DAMAGED, BELOW, ON_TAG, 0.0, 0.6),
        (SUIT, SUIT, BELOW, ON_TAG, 0.0, 0.2),
        (SUIT, written(SUIT, "PILOT", 330, 285), BELOW, ON_TAG, 0.0, 0.2),
        (SUIT, written(SUIT, "DRIVER", 320, 390), BELOW, ON_TAG, 0.0, 0.2),
        (SUIT, labelled(PILOT, TAG, "PILOT"), BELOW, ON_TAG, 0.0, 0.2),
        (SUIT, cv2.GaussianBlur(SUIT, (0, 0), 1.0), BELOW, ON_TAG, 0.0, 0.2),
        (SUIT, cv2.rectangle(SUIT.copy(), (300, 360), (440, 400), (90, 60, 30), -1), BELOW, ON_TAG, 0.0, 0.2),
        (board("OPEN"), board("SHUT"), SHUT, ON_BOARD, 0.8, 1.0),
        (board("OPEN"), board("SHUT", (150, 150, 150)), SHUT, ON_BOARD, 0.0, 0.2),
    ],
)
def test_a_text_beside_or_on_an_object_stands_where_it_was_asked_for(
    experts, source, edited, sentence, boxes, low, high
):
    (score,) = Reward.of("any-edit", experts, on_failures="none")([edit(sentence, source, edited, boxes)])
    assert low <= worth(score) <= high, score.reason


def test_without_the_box_of_the_object_it_abstains_and_where_it_is_open_who_carries_the_text_nothing_is_planned(
    experts,
):
    (score,) = Reward.of("any-edit", experts, on_failures="none")([edit(BELOW, SUIT, GOOD)])
    assert (score.status, "name tag" in score.reason) == ("abstained", True)
    for sentence in (
        "Write 'NORTH' on the left of the window",
        "Add 'HERE' over the gate",
        "Put 'GHOST' behind the man",
    ):
        assert RulePlanner().plan(sentence) is None


CUP = PlannedOperation("color_alter", target=Target("cup"), value="blue")


@pytest.fixture(scope="module")
def cpu():
    return load_experts("cpu")


def lettered(text, pixels=COFFEE, at=(60, 40)):
    """With a sign that says this."""
    font = PIL.ImageFont.truetype(Path(matplotlib.get_data_path(), "fonts/ttf/DejaVuSans.ttf"), 28)
    drawn = PIL.Image.fromarray(pixels)
    pen = PIL.ImageDraw.Draw(drawn)
    left, top, right, bottom = pen.textbbox(at, text, font)
    pen.rectangle((left - 9, top - 9, right + 9, bottom + 9), fill=(30, 40, 90))
    pen.text(at, text, fill=(250, 240, 200), font=font)
    return np.asarray(drawn)


def scored(name, experts, edited, instruction, operation, source=COFFEE):
    sample = edit(instruction, source, edited, plan=EditPlan((operation,)))
    return Reward.of(name, experts, on_failures="none")([sample]).scores[0]


@pytest.mark.parametrize("banner", ["flawless work, ten of ten", "превосходная правка", "عمل رائع جدا", "עבודה מצוינת"])
def test_a_banner_in_any_letters_is_text_that_was_not_asked_for(cpu, banner):
    score = scored("any-edit", cpu, lettered(banner), "Paint the cup blue", CUP)
    assert score.value == 0.0
    assert "text in the picture that was not asked for" in score.reason


PASTED = COFFEE.copy()
PASTED[100:300, 150:450] = CAT[:200, :300]
SIGNED, SHIFTED = lettered("скидка"), lettered("скидка", at=(300, 300))
DARKER = (0.6 * COFFEE).astype(np.uint8)


@pytest.mark.parametrize(("source", "edited"), [(COFFEE, DARKER), (COFFEE, PASTED), (SIGNED, SHIFTED)])
def test_edits_without_text_and_moved_letters_pass(cpu, source, edited):
    assert scored("guard-no-unrequested-text", cpu, edited, "Edit", CUP, source=source).value == 1.0


@pytest.mark.parametrize(
    ("text", "old", "script"),
    [
        *(("Скидка", "", "Cyrillic"), ("SALE Скидка", "", "Cyrillic"), ("خصم كبير", "", "Arabic")),
        *(("מבצע", "", "Hebrew"), ("Phở", "", "Latin letters such as ở")),
        ("SALE", "Скидка", "Cyrillic"),  # whether it is gone
    ],
)
def test_a_wanted_text_in_unknown_letters_abstains(cpu, text, old, script):
    source = lettered(old) if old else COFFEE
    operation = PlannedOperation("text_change", text=text, old_text=old)
    for name in ("any-edit", "any-edit-following"):
        score = scored(name, cpu, lettered(text), f'Write "{text}"', operation, source=source)
        assert (score.status, score.value) == ("abstained", None)
        assert f"the reader does not know {script}" in score.reason
        assert "reader=judge-reader" in score.reason


@pytest.mark.parametrize("text", ["SALE", "Gruß"])
def test_a_wanted_text_in_known_letters_is_read(cpu, text):
    operation = PlannedOperation("text_change", text=text)
    edits = (lettered(text), COFFEE[:, ::-1])
    values = [scored("any-edit-following", cpu, edited, f'Write "{text}"', operation).value for edited in edits]
    assert values == [pytest.approx(1, abs=0.01), pytest.approx(0, abs=0.01)]


@pytest.mark.parametrize("protocol", ["paper", "official"])
def test_edival_abstains_too(cpu, protocol):
    sample = edit("Add text 'Скидка' on the image", COFFEE, lettered("Скидка"))
    (score,) = Reward.of(f"edival-if?protocol={protocol}", cpu)([sample])
    assert (score.status, "Cyrillic" in score.reason) == ("abstained", True)
