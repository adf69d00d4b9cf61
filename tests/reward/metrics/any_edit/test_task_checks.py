"""What happened to named objects in photographs: by their own pixels with boxes, or with a detector and no judge.

With boxes, an object is put into a photograph, which is the source then; the photograph itself is the honest removal.
Without, the detector is told what each picture shows; like a real one it is less than certain, and takes the ball for a
cat where it is asked for one.
"""

from functools import cache
from typing import Any

import cv2
import numpy as np
import pytest
import skimage.data

from editcritic.reward import Box, EditSample, Image, Reward
from editcritic.reward.experts.annotated import Annotated
from editcritic.reward.queries import Abstention, Reply

from ...fakes import Fake
from ..scripted import Finds
from .conftest import edit, worth

RED, BLUE, GREEN, GREY = (225, 30, 35), (30, 40, 225), (30, 180, 60), (150, 150, 150)


def ball(photo, place=(95, 95), colour=RED):
    """Shaded; beside the cup."""
    rows, columns = np.mgrid[0 : photo.shape[0], 0 : photo.shape[1]]
    light = np.clip(1.1 - np.hypot(columns - place[0] + 15, rows - place[1] + 17) / 90, 0.35, 1)[..., None]
    inside = np.clip(55 - np.hypot(columns - place[0], rows - place[1]), 0, 1)[..., None]
    photo[:] = (photo * (1 - inside) + inside * light * np.array(colour)).astype(np.uint8)


def cat(photo, place=(455, 180)):
    """A cat's head, cut out of another photograph."""
    head = cv2.resize(skimage.data.chelsea()[20:260, 60:360], (150, 120), interpolation=cv2.INTER_AREA)
    mask = np.zeros((120, 150, 1), np.float32)
    cv2.ellipse(mask, (75, 60), (70, 55), 0, 0, 360, 1.0, -1, cv2.LINE_AA)
    x, y = place[0] - 75, place[1] - 60
    photo[y : y + 120, x : x + 150] = photo[y : y + 120, x : x + 150] * (1 - mask) + head * mask


def glasses(photo):
    """Rims, through which the face is seen. The box is wider than they are."""
    for x in (205, 255):
        cv2.ellipse(photo, (x, 112), (22, 17), 0, 0, 360, (25, 20, 20), 4, cv2.LINE_AA)
    cv2.line(photo, (227, 110), (233, 110), (25, 20, 20), 4, cv2.LINE_AA)


def word(photo, text="GARAGE", place=(60, 120), size=2.2, width=6):
    cv2.putText(photo, text, place, cv2.FONT_HERSHEY_SIMPLEX, size, (250, 225, 60), width, cv2.LINE_AA)


SCENES = {
    "glasses": (glasses, skimage.data.astronaut, (171, 83, 289, 141)),
    "ball": (ball, skimage.data.coffee, (30, 32, 160, 158)),
    "cat": (cat, skimage.data.rocket, (378, 118, 532, 242)),
    "sign": (word, lambda: cv2.resize(skimage.data.stereo_motorcycle()[0], (740, 500)), (50, 60, 360, 132)),
}


@cache
def scene(name):
    """The source, the photograph without the object, and the object's box."""
    draw, load, box = SCENES[name]
    without = np.ascontiguousarray(load()[..., :3]).astype(np.uint8)
    source = without.copy()
    draw(source)
    return source, without, box


@cache
def reward():
    return Reward.of("any-edit-following", "cpu", on_failures="none")


def removed(name, edited):
    source, _, box = scene(name)
    return worth(reward()([edit(f"Remove the {name}", source, edited, {name: box})])[0])


def within(source, box, content):
    x0, y0, x1, y1 = box
    edited = source.copy()
    edited[y0:y1, x0:x1] = np.clip(content, 0, 255).astype(np.uint8)[y0:y1, x0:x1]
    return edited


def left_part(box, share):
    return (box[0], box[1], round(box[0] + share * (box[2] - box[0])), box[3])


def lower_half(box):
    return (box[0], round((box[1] + box[3]) / 2), box[2], box[3])


def shifted(source, without, box):
    x0, y0, x1, y1 = box
    return within(without, (x0 + 12, y0, x1 + 12, y1), np.roll(source, 12, axis=1))


NOT_DONE = {
    "copy": lambda source, without, box: source,
    "tint": lambda source, without, box: within(source, box, source * np.array([1.25, 0.8, 0.6])),
    "dimmed": lambda source, without, box: within(source, box, source * 0.6),
    "a little blurred": lambda source, without, box: within(source, box, cv2.GaussianBlur(source, (0, 0), 1.5)),
    "half transparent": lambda source, without, box: within(source, box, source * 0.45 + without * 0.55),
    "shifted": shifted,
    "left half gone": lambda source, without, box: within(source, left_part(box, 0.5), without),
    "lower half gone": lambda source, without, box: within(source, lower_half(box), without),
    "mirrored": lambda source, without, box: source[:, ::-1],
    "cropped": lambda source, without, box: source[: -source.shape[0] // 8, : -source.shape[1] // 8],
}


@pytest.mark.parametrize("name", SCENES)
def test_an_honest_removal_counts_after_another_decoder_and_in_a_mirror_too(name):
    _, without, _ = scene(name)
    _, coded = cv2.imencode(".jpg", without, [cv2.IMWRITE_JPEG_QUALITY, 70])
    warp = np.array([[1.01, 0, -3.0], [0, 1.01, -2.0]])
    decoded = cv2.warpAffine(np.asarray(cv2.imdecode(coded, cv2.IMREAD_COLOR)), warp, without.shape[1::-1])
    assert min(removed(name, edited) for edited in (without, decoded, without[:, ::-1])) >= 0.9


@pytest.mark.parametrize("fault", NOT_DONE)
@pytest.mark.parametrize("name", SCENES)
def test_what_still_stands_was_not_removed(name, fault):
    if (name, fault) == ("sign", "lower half gone"):
        pytest.skip("a limit: too little is left of the letters beside as many outlines of the garage")
    assert removed(name, NOT_DONE[fault](*scene(name))) <= 0.25


@pytest.mark.parametrize("name", ["ball", "cat"])
def test_a_third_that_still_stands_is_better_than_all_of_it_and_not_done(name):
    source, without, box = scene(name)
    assert removed(name, source) < removed(name, within(source, left_part(box, 0.62), without)) <= 0.25


def test_another_picture_or_one_without_the_place_removes_nothing():
    source, _, box = scene("ball")
    assert removed("ball", cv2.resize(skimage.data.chelsea(), source.shape[1::-1])) <= 0.25
    (score,) = reward()([edit("Remove the ball", source, source[:, box[2] + 5 :], {"ball": box})])
    assert worth(score) <= 0.25
    assert "its place is not in the edited image" in score.reason


FRAME = (60, 60, 260, 220)


def framed(colour):
    """A photograph with a thin picture frame in it, which has little of its box."""
    photo = skimage.data.coffee().copy()
    return cv2.rectangle(photo, (70, 70), (250, 210), colour, 9, cv2.LINE_AA)


ORANGE = np.array([255, 130, 0])
GREY_FRAME = framed(GREY)


@pytest.mark.parametrize(
    ("edited", "done", "reason"),
    [
        (framed((240, 130, 20)), True, ""),
        (framed((20, 140, 40)), False, "seen: green"),
        (within(GREY_FRAME, FRAME, GREY_FRAME * 0.6 + 0.4 * ORANGE), False, "of what is around it changed too"),
        (within(GREY_FRAME, FRAME, GREY_FRAME * 0.3 + 0.7 * ORANGE), False, "of what is around it changed too"),
        (within(GREY_FRAME, (70, 66, 86, 76), GREY_FRAME * 0 + ORANGE), False, ""),
    ],
    ids=["done", "green", "a tint", "a strong tint", "a speck"],
)
def test_the_colour_of_a_thin_object_is_that_of_what_changed(edited, done, reason):
    (score,) = reward()([edit("Change the color of the frame to orange", GREY_FRAME, edited, {"frame": FRAME})])
    assert worth(score) >= 0.75 if done else worth(score) <= 0.25, score.reason
    assert reason in score.reason


LEFT, RIGHT = (95, 95), (500, 100)


def at(place, score=0.8):
    x, y = place
    return Box.from_corners(x - 58, y - 57, x + 58, y + 57, (600, 400), score=score)


def drawn(*things):
    """The photograph with things on it: a function that draws, and its arguments."""
    photo = skimage.data.coffee().copy()
    for draw, *arguments in things:
        draw(photo, *arguments)
    return Image.of(photo)


CUP = {"cup": [Box.from_corners(170, 20, 415, 290, (600, 400), score=0.9)]}
ONE_BALL = {**CUP, "ball": [at(LEFT)], "cat": [at(LEFT, 0.4)]}
BALL_RIGHT = {**CUP, "ball": [at(RIGHT)]}
PLAIN, BALL = (drawn(), CUP), (drawn((ball,)), ONE_BALL)
TWO = (drawn((ball,), (ball, RIGHT)), {**CUP, "ball": [at(LEFT), at(RIGHT)]})
RIGHT_ONE, GREEN_RIGHT = ((drawn((ball, RIGHT, colour)), BALL_RIGHT) for colour in (RED, GREEN))
BLUE_BALL, GREEN_BALL = ((drawn((ball, LEFT, colour)), ONE_BALL) for colour in (BLUE, GREEN))
OTHER_BALL = (BLUE_BALL[0], {**CUP, "ball": [at(LEFT)], "cat": [at(LEFT, 0.5)]})
CAT = (drawn((cat, LEFT)), {**CUP, "cat": [at(LEFT, 0.7)], "ball": [at(LEFT, 0.4)]})
CAT_ALONE = (CAT[0], {**CUP, "cat": [at(LEFT)]})
CAT_RIGHT = (drawn((ball,), (cat, RIGHT)), {**ONE_BALL, "cat": [at(LEFT, 0.4), at(RIGHT)]})
SAUCER = {"saucer": CUP["cup"]}


def scores(instruction, source, *edits, **fields):
    told = Finds(only=dict((source, *edits)))
    experts: dict[str, Any] = {"bundle": "laptop", "detector": Annotated(otherwise=told)}
    samples = [EditSample(str(n), instruction, (source[0],), image, **fields) for n, (image, _) in enumerate(edits)]
    return list(Reward.of("any-edit", experts, on_failures="none")(samples)), told


def following(score):
    assert score.value is not None, score.reason
    return worth(score.parts["reward"].parts["following"])


DECIDED = {  # the source, an edit that does it, and others that do not, each with what the detector finds there
    "Remove the ball": (BALL, PLAIN, OTHER_BALL),
    "Remove the right ball": (TWO, BALL, RIGHT_ONE),
    "Replace the ball with a cat": (BALL, CAT, PLAIN, OTHER_BALL, CAT_RIGHT),
    "Add a ball to the left of the cup": (PLAIN, BALL, RIGHT_ONE, CAT_ALONE),
    "Add another ball": (BALL, TWO, BLUE_BALL),
    "Change the count of ball to 2": (BALL, TWO, RIGHT_ONE),
    "Move the ball to the right of the cup": (BALL, RIGHT_ONE, PLAIN, GREEN_RIGHT),
    "Make the ball blue": (BALL, BLUE_BALL, GREEN_BALL, PLAIN),
    'Write "OPEN" on the saucer': (
        (PLAIN[0], SAUCER),
        *((drawn((word, text, (190, 160), 1.6, 5)), SAUCER) for text in ("OPEN", "CLOSED")),
    ),
    'Write "OPEN" below the cup': (
        PLAIN,
        *((drawn((word, "OPEN", place, 1.6, 5)), CUP) for place in ((200, 370), (20, 60))),
    ),
}


@pytest.mark.parametrize("instruction", DECIDED)
def test_what_happened_to_a_named_object_is_decided(instruction):
    source, *edits = DECIDED[instruction]
    (done, *not_done), told = scores(instruction, source, *edits)
    assert following(done) >= 0.9, done.reason
    assert max(map(following, not_done)) <= 0.25
    assert len(told.queries) == len({query.digest for query in told.queries})


NEEDS_A_LOOK = "only a model that looks at the picture can tell"


@pytest.mark.parametrize(
    ("instruction", "reason"),
    [
        *((words, NEEDS_A_LOOK) for words in ("Make the ball wooden", "Make the ball bigger")),
        *(
            (words, NEEDS_A_LOOK)
            for words in ("Change the background to a beach", "Replace the ball with a wooden ball")
        ),
        ("Make the ball turquoise", "a colour judge cannot tell 'turquoise'"),
        *((words, "") for words in ("Remove the dog", "Replace the dog with a cat", "Make the dog blue")),
        *((words, "") for words in ("Change the count of dog to 2", "Move the dog to the right of the cup")),
        *((words, "") for words in ("Move the ball to the right of the dog", "Add a cat to the left of the dog")),
        ('Write "OPEN" above the dog', ""),
    ],
)
def test_what_needs_a_look_or_is_not_in_the_source_gives_no_number(instruction, reason):
    shown = {**ONE_BALL, "wooden ball": [at(LEFT)]}
    (score,), _ = scores(instruction, (BALL[0], shown), (BLUE_BALL[0], shown))
    assert score.status == ("abstained" if reason else "not_applicable")
    assert (reason or "there is no dog in the source") in score.reason


def test_boxes_that_are_given_win():
    boxes, wrong = {"ball": (at(LEFT),)}, {**CUP, "ball": [at(RIGHT)]}
    for instruction, edited, phrases in (
        ("Remove the ball", (PLAIN[0], wrong), set()),
        ("Replace the ball with a cat", CAT, {"cat"}),
    ):
        (score,), told = scores(instruction, (BALL[0], wrong), edited, boxes=boxes)
        assert following(score) >= 0.9
        assert {phrase for query in told.queries for phrase in query.phrases} == phrases


def test_a_judge_that_abstains_on_the_edit_alone_is_not_replaced_by_the_detector():
    def judged(query):
        sees_edit = CAT[0] in query.images
        return Abstention("too bright") if sees_edit else Reply("no", {"yes": 0.0, "no": 1.0})

    experts: dict[str, Any] = {"bundle": "laptop", "judge": Fake(judged), "judge.planner": "colour"}
    bound = {**experts, "detector": Annotated(otherwise=Finds(only=dict((BALL, CAT))))}
    reward = Reward.of("any-edit-following", bound, on_failures="none")
    (score,) = reward([EditSample("s", "Replace the ball with a cat", (BALL[0],), CAT[0])])
    assert score.status == "abstained"
