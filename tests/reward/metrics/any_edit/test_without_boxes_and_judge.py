"""Named objects in photographs, with a detector and no judge, as in the bundle `laptop`: what is decided, and what not.

The detector is told what each picture shows; everything else is what the bundle has. Like a real one it is less than
certain, and takes the ball for a cat where it is asked for one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, ClassVar

import cv2
import numpy as np
import pytest
import skimage.data
from numpy.typing import NDArray

from editcritic.reward import Box, EditSample, Expert, Image, Reward, Score
from editcritic.reward.experts.annotated import Annotated
from editcritic.reward.queries import Abstention, Detect, Detections, Judge, Reply
from editcritic.reward.queries.kinds import Query

from ...fakes import Fake

Pixels = NDArray[np.uint8]
SIZE = (600, 400)
LEFT, RIGHT = (95, 95), (500, 100)
RED, BLUE, GREEN = (225, 30, 35), (30, 40, 225), (30, 180, 60)


def ball(photo: Pixels, place: tuple[int, int], colour: Sequence[int] = RED) -> None:
    rows, columns = np.mgrid[0:400, 0:600]
    light = np.clip(1.1 - np.hypot(columns - place[0] + 15, rows - place[1] + 17) / 90, 0.35, 1)[..., None]
    inside = np.clip(55 - np.hypot(columns - place[0], rows - place[1]), 0, 1)[..., None]
    photo[:] = (photo * (1 - inside) + inside * light * np.array(colour)).astype(np.uint8)


def cat(photo: Pixels, place: tuple[int, int]) -> None:
    """A cat's head, cut out of another photograph."""
    head = cv2.resize(np.asarray(skimage.data.chelsea())[20:260, 60:360], (130, 110), interpolation=cv2.INTER_AREA)
    mask = np.zeros((110, 130, 1), np.float32)
    cv2.ellipse(mask, (65, 55), (60, 52), 0, 0, 360, 1.0, -1, cv2.LINE_AA)
    x, y = place[0] - 65, place[1] - 55
    photo[y : y + 110, x : x + 130] = photo[y : y + 110, x : x + 130] * (1 - mask) + head * mask


def word(photo: Pixels, text: str, place: tuple[int, int]) -> None:
    cv2.putText(photo, text, place, cv2.FONT_HERSHEY_SIMPLEX, 1.6, (250, 225, 60), 5, cv2.LINE_AA)


def at(place: tuple[int, int], score: float = 0.8) -> Box:
    x, y = place
    return Box.from_corners(x - 58, y - 57, x + 58, y + 57, SIZE, score=score)


Shown = dict[str, list[Box]]
CUP: Shown = {"cup": [Box.from_corners(170, 20, 415, 290, SIZE, score=0.9)]}


@cache
def drawn(*things: tuple[Callable[..., None], Any]) -> Image:
    photo = np.ascontiguousarray(skimage.data.coffee()).astype(np.uint8)
    for draw, arguments in things:
        draw(photo, *arguments)
    return Image.of(photo)


PLAIN, BALL, TWO = drawn(), drawn((ball, (LEFT,))), drawn((ball, (LEFT,)), (ball, (RIGHT,)))
ONE_BALL: Shown = {**CUP, "ball": [at(LEFT)], "cat": [at(LEFT, 0.4)]}
TWO_BALLS: Shown = {**CUP, "ball": [at(LEFT), at(RIGHT)]}
BALL_RIGHT: Shown = {**CUP, "ball": [at(RIGHT)]}
CAT: Shown = {**CUP, "cat": [at(LEFT, 0.7)], "ball": [at(LEFT, 0.4)]}
OTHER_BALL: Shown = {**CUP, "ball": [at(LEFT)], "cat": [at(LEFT, 0.5)]}
CAT_RIGHT: Shown = {**ONE_BALL, "cat": [at(LEFT, 0.4), at(RIGHT)]}


class Told(Expert):
    """A detector that is told what pictures show."""

    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (Detect,)
    batch = 4
    id = "told"

    def __init__(self, *shown: tuple[Image, Shown]) -> None:
        self.shown = {image.digest: objects for image, objects in shown}
        self.asked: list[tuple[str, str]] = []

    def __call__(self, queries: Sequence[Detect]) -> list[Detections]:
        self.asked += [(query.image.digest, phrase) for query in queries for phrase in query.phrases]
        return [
            Detections(
                tuple(
                    box.with_label(phrase)
                    for phrase in query.phrases
                    for box in self.shown[query.image.digest].get(phrase, ())
                ),
                0.05,
            )
            for query in queries
        ]


def scores(
    instruction: str, source: tuple[Image, Shown], *edits: tuple[Image, Shown], **fields: Any
) -> tuple[list[Score], Told]:
    told = Told(source, *edits)
    experts: dict[str, Any] = {"bundle": "laptop", "detector": Annotated(otherwise=told)}
    samples = [
        EditSample(str(number), instruction, (source[0],), edit, **fields) for number, (edit, _) in enumerate(edits)
    ]
    return list(Reward.of("any-edit", experts, on_failures="none")(samples)), told


def following(score: Score) -> float:
    assert score.value is not None, score.reason
    return float(score.parts["reward"].parts["following"].value or 0.0)


DECIDED = {
    "Remove the ball": ((BALL, ONE_BALL), (PLAIN, CUP), (drawn((ball, (LEFT, BLUE))), OTHER_BALL)),
    "Remove the right ball": ((TWO, TWO_BALLS), (BALL, ONE_BALL), (drawn((ball, (RIGHT,))), BALL_RIGHT)),
    "Replace the ball with a cat": (
        (BALL, ONE_BALL),
        (drawn((cat, (LEFT,))), CAT),
        *(
            (PLAIN, CUP),
            (drawn((ball, (LEFT, BLUE))), OTHER_BALL),
            (drawn((ball, (LEFT,)), (cat, (RIGHT,))), CAT_RIGHT),
        ),
    ),
    "Add a ball to the left of the cup": (
        (PLAIN, CUP),
        (BALL, ONE_BALL),
        *((drawn((ball, (RIGHT,))), BALL_RIGHT), (drawn((cat, (LEFT,))), {**CUP, "cat": [at(LEFT)]})),
    ),
    "Add another ball": ((BALL, ONE_BALL), (TWO, TWO_BALLS), (drawn((ball, (LEFT, BLUE))), ONE_BALL)),
    "Change the count of ball to 2": ((BALL, ONE_BALL), (TWO, TWO_BALLS), (drawn((ball, (RIGHT,))), BALL_RIGHT)),
    "Move the ball to the right of the cup": (
        (BALL, ONE_BALL),
        (drawn((ball, (RIGHT,))), BALL_RIGHT),
        *((PLAIN, CUP), (drawn((ball, (RIGHT, GREEN))), BALL_RIGHT)),
    ),
    "Make the ball blue": (
        (BALL, ONE_BALL),
        (drawn((ball, (LEFT, BLUE))), ONE_BALL),
        *((drawn((ball, (LEFT, GREEN))), ONE_BALL), (PLAIN, CUP)),
    ),
    'Write "OPEN" on the saucer': (
        (PLAIN, {"saucer": CUP["cup"]}),
        (drawn((word, ("OPEN", (200, 160)))), {"saucer": CUP["cup"]}),
        (drawn((word, ("CLOSED", (180, 160)))), {"saucer": CUP["cup"]}),
    ),
    'Write "OPEN" below the cup': (
        (PLAIN, CUP),
        (drawn((word, ("OPEN", (200, 370)))), CUP),
        (drawn((word, ("OPEN", (20, 60)))), CUP),
    ),
}
"""Instruction -> the source, an edit that does it, and others that do not, each with what the detector finds there."""


@pytest.mark.parametrize("instruction", DECIDED)
def test_what_happened_to_a_named_object_is_decided(instruction: str) -> None:
    source, *edits = DECIDED[instruction]
    (done, *not_done), told = scores(instruction, source, *edits)
    assert following(done) >= 0.9, done.reason
    assert max(map(following, not_done)) <= 0.25
    assert len(told.asked) == len(set(told.asked))


def test_of_many_edits_the_source_is_looked_at_once() -> None:
    edits = [(drawn((ball, (LEFT, (30, 40, 200 + number)))), ONE_BALL) for number in range(5)]
    _, told = scores("Make the ball blue", (BALL, ONE_BALL), *edits)
    assert len(told.asked) == len(edits) + 1


@pytest.mark.parametrize(
    "instruction",
    [
        *("Remove the dog", "Replace the dog with a cat", "Make the dog blue", "Change the count of dog to 2"),
        *("Move the dog to the right of the cup", "Move the ball to the right of the dog"),
        *("Add a cat to the left of the dog", 'Write "OPEN" above the dog'),
    ],
)
def test_what_is_not_in_the_source_gives_no_number(instruction: str) -> None:
    (score,), _ = scores(instruction, (BALL, ONE_BALL), (drawn((ball, (LEFT, BLUE))), ONE_BALL))
    assert score.status == "not_applicable"
    assert "there is no dog in the source" in score.reason


@pytest.mark.parametrize(
    ("instruction", "reason"),
    [
        ("Make the ball wooden", "only a model that looks at the picture can tell"),
        ("Make the ball bigger", "only a model that looks at the picture can tell"),
        ("Change the background to a beach", "only a model that looks at the picture can tell"),
        ("Replace the ball with a wooden ball", "only a model that looks at the picture can tell"),
        ("Make the ball turquoise", "a colour judge cannot tell 'turquoise'"),
    ],
)
def test_what_needs_a_look_is_left_open(instruction: str, reason: str) -> None:
    shown = {**ONE_BALL, "wooden ball": [at(LEFT)]}
    (score,), _ = scores(instruction, (BALL, shown), (drawn((ball, (LEFT, BLUE))), shown))
    assert score.status == "abstained"
    assert reason in score.reason


def test_boxes_that_are_given_win() -> None:
    boxes = {"ball": (at(LEFT),)}
    elsewhere: Shown = {**CUP, "ball": [at(RIGHT)]}  # the detector is wrong
    (score,), told = scores("Remove the ball", (BALL, elsewhere), (PLAIN, elsewhere), boxes=boxes)
    assert following(score) >= 0.9
    assert told.asked == []
    (score,), told = scores("Replace the ball with a cat", (BALL, elsewhere), (drawn((cat, (LEFT,))), CAT), boxes=boxes)
    assert following(score) >= 0.9
    assert {phrase for _, phrase in told.asked} == {"cat"}


def test_a_judge_that_abstains_on_the_edit_alone_is_not_replaced_by_the_detector() -> None:
    edited = drawn((cat, (LEFT,)))

    def judged(query: Judge) -> Any:
        sees_edit = any(image == edited for image in query.images)
        return Abstention("too bright") if sees_edit else Reply("no", {"yes": 0.0, "no": 1.0})

    told = Told((BALL, ONE_BALL), (edited, CAT))
    experts: dict[str, Any] = {
        "bundle": "laptop",
        "detector": Annotated(otherwise=told),
        "judge": Fake(judged),
        "judge.planner": "colour",
    }
    reward = Reward.of("any-edit-following", experts, on_failures="none")
    (score,) = reward([EditSample("s", "Replace the ball with a cat", (BALL,), edited)])
    assert score.status == "abstained"
