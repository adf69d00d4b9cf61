"""Whether an object in a photograph was removed or recoloured, by its own pixels, with boxes and no model.

An object is put into a photograph, which is the source then; the photograph itself is the honest removal.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import cv2
import numpy as np
import pytest
import skimage.data
from numpy.typing import NDArray

from editcritic.reward import Box, EditSample, Image, Reward, Score

Pixels = NDArray[np.uint8]
Corners = tuple[int, int, int, int]


def glasses(photo: Pixels) -> Corners:
    """On the face of the astronaut: rims, through which the face is seen. The box is wider than they are."""
    for x in (205, 255):
        cv2.ellipse(photo, (x, 112), (22, 17), 0, 0, 360, (25, 20, 20), 4, cv2.LINE_AA)
    cv2.line(photo, (227, 110), (233, 110), (25, 20, 20), 4, cv2.LINE_AA)
    return 171, 83, 289, 141


def ball(photo: Pixels) -> Corners:
    """A shaded red ball beside the cup."""
    rows, columns = np.mgrid[0 : photo.shape[0], 0 : photo.shape[1]]
    distance = np.hypot(columns - 95, rows - 95)
    light = np.clip(1.1 - np.hypot(columns - 80, rows - 78) / 90, 0.35, 1)[..., None]
    inside = np.clip(55 - distance, 0, 1)[..., None]
    photo[:] = (photo * (1 - inside) + inside * light * np.array([225, 30, 35])).astype(np.uint8)
    return 30, 32, 160, 158


def cat(photo: Pixels) -> Corners:
    """A cat's head, cut out of another photograph, in front of the sky and the rocket."""
    head = cv2.resize(np.asarray(skimage.data.chelsea())[20:260, 60:360], (150, 120), interpolation=cv2.INTER_AREA)
    mask = np.zeros((120, 150), np.float32)
    cv2.ellipse(mask, (75, 60), (70, 55), 0, 0, 360, 1.0, -1, cv2.LINE_AA)
    place = photo[120:240, 380:530]
    place[:] = (place * (1 - mask[..., None]) + head * mask[..., None]).astype(np.uint8)
    return 378, 118, 532, 242


def letters(photo: Pixels) -> Corners:
    """A word across the photograph."""
    cv2.putText(photo, "GARAGE", (60, 120), cv2.FONT_HERSHEY_SIMPLEX, 2.2, (250, 225, 60), 6, cv2.LINE_AA)
    return 50, 60, 360, 132


SCENES: dict[str, tuple[Callable[[Pixels], Corners], Callable[[], Pixels]]] = {
    "glasses": (glasses, skimage.data.astronaut),
    "ball": (ball, skimage.data.coffee),
    "cat": (cat, skimage.data.rocket),
    "sign": (
        letters,
        lambda: cv2.resize(skimage.data.stereo_motorcycle()[0], (740, 500), interpolation=cv2.INTER_AREA),
    ),
}


@cache
def scene(name: str) -> tuple[Pixels, Pixels, Corners]:
    """The source, the photograph without the object, and the object's box."""
    draw, load = SCENES[name]
    without = np.ascontiguousarray(load()[..., :3]).astype(np.uint8)
    source = without.copy()
    box = draw(source)
    return source, without, box


@cache
def reward() -> Reward:
    return Reward.of("any-edit-following", "cpu", on_failures="none")


def following(source: Pixels, edited: Pixels, box: Corners, name: str, instruction: str) -> Score:
    boxes = {name: (Box.from_corners(*box, (source.shape[1], source.shape[0])),)}
    picture = Image.of(np.ascontiguousarray(edited))
    (score,) = reward()([EditSample("s", instruction, (Image.of(source),), picture, boxes=boxes)])
    return score


def removed(name: str, edited: Pixels) -> float:
    source, _, box = scene(name)
    score = following(source, edited, box, name, f"Remove the {name}")
    assert score.value is not None, score.reason
    return score.value


def within(source: Pixels, box: Corners, content: NDArray[Any]) -> Pixels:
    x0, y0, x1, y1 = box
    edited = source.copy()
    edited[y0:y1, x0:x1] = np.clip(content, 0, 255).astype(np.uint8)[y0:y1, x0:x1]
    return edited


def covered(source: Pixels, without: Pixels, box: Corners, share: float, side: str) -> Pixels:
    x0, y0, x1, y1 = box
    edited = source.copy()
    if side == "left":
        x1 = round(x0 + share * (x1 - x0))
    else:
        y0 = round(y1 - share * (y1 - y0))
    edited[y0:y1, x0:x1] = without[y0:y1, x0:x1]
    return edited


def shifted(source: Pixels, without: Pixels, box: Corners) -> Pixels:
    x0, y0, x1, y1 = box
    edited = without.copy()
    edited[y0:y1, x0 + 12 : x1 + 12] = source[y0:y1, x0:x1]
    return edited


def tinted(source: Pixels) -> Pixels:
    return (source * np.array([1.25, 0.8, 0.6])).clip(0, 255).astype(np.uint8)


NOT_DONE: dict[str, Callable[[Pixels, Pixels, Corners], Pixels]] = {
    "copy": lambda source, without, box: source,
    "tint": lambda source, without, box: within(source, box, tinted(source)),
    "dimmed": lambda source, without, box: within(source, box, source * 0.6),
    "a little blurred": lambda source, without, box: within(source, box, cv2.GaussianBlur(source, (0, 0), 1.5)),
    "half transparent": lambda source, without, box: within(source, box, source * 0.45 + without * 0.55),
    "shifted": shifted,
    "left half gone": lambda source, without, box: covered(source, without, box, 0.5, "left"),
    "lower half gone": lambda source, without, box: covered(source, without, box, 0.5, "bottom"),
    "mirrored": lambda source, without, box: source[:, ::-1],
    "cropped": lambda source, without, box: source[: -source.shape[0] // 8, : -source.shape[1] // 8],
}


@pytest.mark.parametrize("name", SCENES)
def test_an_honest_removal_counts_though_what_was_around_the_object_is_still_there(name: str) -> None:
    _, without, _ = scene(name)
    assert removed(name, without) >= 0.9


@pytest.mark.parametrize("name", SCENES)
def test_so_it_does_after_another_decoder(name: str) -> None:
    _, without, _ = scene(name)
    _, coded = cv2.imencode(".jpg", without, [cv2.IMWRITE_JPEG_QUALITY, 70])
    warp = np.array([[1.01, 0, -3.0], [0, 1.01, -2.0]])
    edited = cv2.warpAffine(np.asarray(cv2.imdecode(coded, cv2.IMREAD_COLOR)), warp, without.shape[1::-1])
    assert removed(name, edited.clip(0, 255).astype(np.uint8)) >= 0.9


# A limit: of letters without their lower half too little is left beside as many outlines of the garage.
STANDING = [(name, fault) for name in SCENES for fault in NOT_DONE if (name, fault) != ("sign", "lower half gone")]


@pytest.mark.parametrize(("name", "fault"), STANDING)
def test_what_still_stands_was_not_removed(name: str, fault: str) -> None:
    source, without, box = scene(name)
    assert removed(name, NOT_DONE[fault](source, without, box)) <= 0.25


@pytest.mark.parametrize("name", ["ball", "cat"])
def test_a_third_that_still_stands_is_better_than_all_of_it_and_not_done(name: str) -> None:
    source, without, box = scene(name)
    third = removed(name, covered(source, without, box, 0.62, "left"))
    assert removed(name, source) < third <= 0.25


@pytest.mark.parametrize("name", SCENES)
def test_a_mirrored_or_cropped_picture_with_the_object_removed_is_decided_at_the_aligned_place(name: str) -> None:
    _, without, _ = scene(name)
    assert removed(name, without[:, ::-1]) >= 0.9


def test_an_object_that_was_cropped_away_was_not_removed() -> None:
    source, _, box = scene("ball")
    x1 = box[2] + 5
    edited = source[:, x1:]
    score = following(source, edited, box, "ball", "Remove the ball")
    assert (score.value or 0.0) <= 0.25
    assert "its place is not in the edited image" in score.reason


def test_another_picture_removes_nothing() -> None:
    source, _, box = scene("ball")
    other = np.asarray(cv2.resize(skimage.data.chelsea(), source.shape[1::-1]), np.uint8)
    score = following(source, other, box, "ball", "Remove the ball")
    assert (score.value or 0.0) <= 0.25


# -- colours ----------------------------------------------------------------------------------------------------------

FRAME: Corners = (60, 60, 260, 220)


def framed(colour: tuple[int, int, int]) -> Pixels:
    """A photograph with a thin picture frame in it, which has little of its box."""
    photo = np.ascontiguousarray(skimage.data.coffee()).astype(np.uint8)
    cv2.rectangle(photo, (70, 70), (250, 210), colour, 9, cv2.LINE_AA)
    return photo


def test_the_colour_of_a_thin_object_is_that_of_what_changed() -> None:
    source = framed((150, 150, 150))
    done = following(source, framed((240, 130, 20)), FRAME, "frame", "Change the color of the frame to orange")
    assert (done.value or 0.0) >= 0.75, done.reason


def test_the_reason_names_the_colour_that_was_seen() -> None:
    source = framed((150, 150, 150))
    wrong = following(source, framed((20, 140, 40)), FRAME, "frame", "Change the color of the frame to orange")
    assert (wrong.value or 0.0) <= 0.25
    assert "seen: green" in wrong.reason


@pytest.mark.parametrize("strength", [0.4, 0.7])
def test_a_tint_over_object_and_surroundings_is_no_recolouring(strength: float) -> None:
    source = framed((150, 150, 150))
    tint = within(source, FRAME, source * (1 - strength) + strength * np.array([255, 130, 0]))
    score = following(source, tint, FRAME, "frame", "Change the color of the frame to orange")
    assert (score.value or 0.0) <= 0.25
    assert "of what is around it changed too" in score.reason


def test_a_speck_of_colour_is_no_recolouring() -> None:
    source = framed((150, 150, 150))
    edited = source.copy()
    edited[66:76, 70:86] = (240, 130, 20)
    score = following(source, edited, FRAME, "frame", "Change the color of the frame to orange")
    assert (score.value or 0.0) <= 0.25
