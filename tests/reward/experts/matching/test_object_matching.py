"""Objects in photographs are matched by structure if kept, moved, copied or recoloured, not if removed."""

import warnings
from itertools import pairwise

import cv2
import numpy as np
import pytest
import skimage.data

from editcritic.reward.experts.matching.edge_structure import Pose, Pyramid
from editcritic.reward.experts.matching.object_matching import ObjectTemplate, TooLittleStructure

from ..pictures import PHOTOS, inpainted, jpeg, noisy, rounded

BASES = {name: Pyramid(photo) for name, photo in PHOTOS.items()}
BOXES = [
    ("astronaut", (132, 347, 210, 425)),  # a patch
    ("astronaut", (277, 338, 330, 380)),  # a name tag
    ("astronaut", (353, 0, 460, 288)),  # a model of the shuttle, at the image's edge
    ("coffee", (325, 235, 407, 326)),  # a spoon
    ("coffee", (173, 17, 410, 285)),  # a cup
    ("chelsea", (134, 83, 208, 150)),  # an eye; the other one is not it
    ("chelsea", (230, 223, 293, 268)),  # a nose
    ("rocket", (308, 125, 336, 410)),  # a rocket, long and thin
]
TEMPLATES = {(name, box): ObjectTemplate(BASES[name], box) for name, box in BOXES}
PATCH = BOXES[0]
EACH = pytest.mark.parametrize("drawn", BOXES, ids=lambda drawn: f"{drawn[0]}-{drawn[1][0]}")


def overlap(match, box):
    w = min(match.x1, box[2]) - max(match.x0, box[0])
    h = min(match.y1, box[3]) - max(match.y0, box[1])
    shared = max(0, w) * max(0, h)
    areas = (match.x1 - match.x0) * (match.y1 - match.y0) + (box[2] - box[0]) * (box[3] - box[1])
    return shared / (areas - shared)


def area(photo, box, margin=3):
    x0, y0, x1, y1 = box
    inside = np.zeros(photo.shape[:2], np.uint8)
    inside[max(0, y0 - margin) : y1 + margin, max(0, x0 - margin) : x1 + margin] = 255
    return inside


def pasted(photo, piece, x, y):
    out = photo.copy()
    out[y : y + piece.shape[0], x : x + piece.shape[1]] = piece
    return out


def piece_of(photo, box, scale=1.0):
    x0, y0, x1, y1 = box
    return cv2.resize(photo[y0:y1, x0:x1], None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)


def found(drawn, edited, least):
    return [match for match in TEMPLATES[drawn].find(edited) if match.score > least]


HARMLESS = {
    "noise": lambda p: noisy(p, 8),
    "noise and JPEG": lambda p: jpeg(noisy(p, 8), 40),
    "brighter and flatter": lambda p: rounded((p - 128.0) * 0.85 + 128 * 1.15),
    "darker and harder": lambda p: rounded((p - 128.0) * 1.15 + 128 * 0.85),
    "blurred": lambda p: cv2.GaussianBlur(p, (0, 0), 1),
    "sharpened": lambda p: rounded(2.0 * p - cv2.GaussianBlur(p, (0, 0), 1.5)),
}


@EACH
@pytest.mark.parametrize("harm", HARMLESS)
def test_an_untouched_object_stays_where_it_is(drawn, harm):
    (match,) = found(drawn, HARMLESS[harm](PHOTOS[drawn[0]]), 0.25)
    assert match.score > 0.75
    assert overlap(match, drawn[1]) > 0.8


@EACH
def test_boxes_follow_a_resized_and_a_cropped_picture_and_in_the_same_pixels_it_is_certain(drawn):
    name, box = drawn
    photo = PHOTOS[name]
    smaller = cv2.resize(photo, None, fx=0.7, fy=0.7, interpolation=cv2.INTER_AREA)
    cases = [(smaller, [0.7 * c for c in box], 0.75, 0.8), (photo, box, 0.97, 0.99)]
    cases += [(photo[8:, 14:], (box[0] - 14, box[1] - 8, box[2] - 14, box[3] - 8), 0.75, 0.8)]
    for edited, place, score, shared in cases:
        best = TEMPLATES[drawn].find(edited)[0]
        assert best.score >= score
        assert overlap(best, place) > shared


@EACH
@pytest.mark.parametrize("how", ["inpainted", "flat", "smeared", "cloned over"])
def test_a_removed_object_is_nowhere(drawn, how):
    name, box = drawn
    photo = PHOTOS[name]
    x0, y0, x1, y1 = box
    inside = area(photo, box)[..., None] > 0
    beside = photo[y0:y1, x1:][:, : x1 - x0] if x1 < photo.shape[1] - x0 else photo[y0:y1, :x0][:, x0 - x1 :]
    edited = {
        "inpainted": lambda: inpainted(photo, box, 3),
        "flat": lambda: np.where(inside, np.median(photo, axis=(0, 1)).astype(np.uint8), photo),
        "smeared": lambda: np.where(inside, cv2.GaussianBlur(photo, (0, 0), 0.5 * min(x1 - x0, y1 - y0)), photo),
        "cloned over": lambda: pasted(photo, cv2.resize(beside, (x1 - x0, y1 - y0)), x0, y0),
    }[how]()
    assert not found(drawn, edited, 0.25)


COLOURS = [(drawn, new) for drawn in BOXES for new in ("hue turned", "dark blue", "nearly white", "nearly black")]
COLOURS.remove((BOXES[7], "nearly black"))  # a black rocket has no edges in the night sky


@pytest.mark.parametrize(("drawn", "colour"), COLOURS, ids=str)
def test_a_recoloured_object_is_still_itself(drawn, colour):
    name, box = drawn
    photo = PHOTOS[name]
    cover = cv2.GaussianBlur(area(photo, box, margin=0) / 255, (0, 0), 1)[..., None]
    hsv = cv2.cvtColor(photo, cv2.COLOR_RGB2HSV).astype(int)
    turned = np.dstack([(hsv[..., 0] + 90) % 180, np.minimum(hsv[..., 1] + 60, 255), hsv[..., 2]]).astype(np.uint8)
    grey = cv2.cvtColor(photo, cv2.COLOR_RGB2GRAY)[..., None]
    new = {
        "hue turned": cv2.cvtColor(turned, cv2.COLOR_HSV2RGB),
        "dark blue": grey * np.array([0.15, 0.25, 0.7]),
        "nearly white": 190 + 0.25 * grey,
        "nearly black": 5 + 0.25 * grey,
    }[colour]
    best = TEMPLATES[drawn].find(rounded(photo * (1 - cover) + new * cover))[0]
    assert best.score > 0.45
    assert overlap(best, box) > 0.8


MOVES = [(BOXES[0], (20, 400)), (BOXES[1], (150, 300)), (BOXES[3], (480, 20)), (BOXES[6], (360, 160))]


@pytest.mark.parametrize(("drawn", "to"), MOVES, ids=lambda value: str(value[0]))
def test_a_moved_object_is_at_its_new_place_only(drawn, to):
    name, box = drawn
    edited = pasted(inpainted(PHOTOS[name], box, 3), piece_of(PHOTOS[name], box), *to)
    (present,) = found(drawn, edited, 0.3)
    assert overlap(present, (*to, to[0] + box[2] - box[0], to[1] + box[3] - box[1])) > 0.6


def test_copies_are_counted_whatever_their_size_and_side():
    name, box = PATCH
    edited, places = PHOTOS[name], [box]
    for x, y, scale, mirrored in ((20, 10, 0.6, False), (300, 20, 1.0, True), (20, 180, 1.5, False)):
        piece = piece_of(PHOTOS[name], box, scale)
        edited = pasted(edited, piece[:, ::-1] if mirrored else piece, x, y)
        places.append((x, y, x + piece.shape[1], y + piece.shape[0]))
        present = found(PATCH, edited, 0.3)
        assert len(present) == len(places)
        assert all(max(overlap(match, place) for match in present) > 0.6 for place in places)
    matches = TEMPLATES[PATCH].find(edited)
    assert [match.score for match in matches] == sorted((match.score for match in matches), reverse=True)
    assert TEMPLATES[PATCH].find(edited, max_results=2) == matches[:2]
    assert TEMPLATES[PATCH].find(edited, min_score=0.99) == [match for match in matches if match.score >= 0.99]


@EACH
def test_another_object_in_its_place_and_unrelated_pictures_are_not_taken_for_it(drawn):
    name, box = drawn
    for other, (x0, y0, x1, y1) in BOXES:
        if other != name:
            piece = cv2.resize(PHOTOS[other][y0:y1, x0:x1], (box[2] - box[0], box[3] - box[1]))
            assert not found(drawn, pasted(PHOTOS[name], piece, box[0], box[1]), 0.35), other
    for texture in ("brick", "grass", "gravel", "page"):
        grey = getattr(skimage.data, texture)()
        assert not found(drawn, cv2.cvtColor(grey, cv2.COLOR_GRAY2RGB), 0.3), texture


def test_what_looked_like_it_before_the_edit_is_not_it_and_another_text_on_a_sign_leaves_the_sign():
    name, box = BOXES[5]
    twin = pasted(PHOTOS[name], piece_of(PHOTOS[name], box), 20, 200)
    template = ObjectTemplate(twin, box)
    assert len([match for match in template.find(twin) if match.score > 0.3]) == 1
    assert all(match.score < 0.3 for match in template.find(inpainted(twin, box, 3)))
    name, (x0, y0, x1, y1) = BOXES[1]
    edited = PHOTOS[name].copy()
    third = (y1 - y0) // 3
    edited[y0 + third : y1 - third, x0:x1] = (60, 60, 120)
    cv2.putText(edited, "HOUSTON", (x0 + 2, y1 - third - 3), cv2.FONT_HERSHEY_SIMPLEX, 0.35, (240, 240, 240), 1)
    best = TEMPLATES[BOXES[1]].find(edited)[0]
    assert best.score > 0.35
    assert overlap(best, BOXES[1][1]) > 0.8


@EACH
def test_the_score_falls_as_more_is_covered(drawn):
    name, (x0, y0, x1, y1) = drawn
    scores = []
    for part in np.linspace(0, 1, 6):
        edited = PHOTOS[name].copy()
        edited[y0 : y0 + round(part * (y1 - y0)), x0:x1] = edited[y0:y1, x0:x1].mean(axis=(0, 1))
        matches = TEMPLATES[drawn].find(edited, min_score=0.0)
        scores.append(max((match.score for match in matches if overlap(match, drawn[1]) > 0.5), default=0.0))
    assert scores[0] >= 0.97
    assert scores[-1] < 0.25
    assert all(later < earlier + 0.02 for earlier, later in pairwise(scores))
    assert sum(0.05 < score < 0.95 for score in scores) >= 2


@pytest.mark.parametrize("size", [(1, 1), (1, 300), (300, 1), (3, 3), (60, 60), (512, 512), (8, 4000)])
@pytest.mark.parametrize("level", [0, 128, 255])
def test_nothing_is_on_blank_pictures_of_any_size(size, level):
    with warnings.catch_warnings(), np.errstate(divide="raise", invalid="raise"):
        warnings.simplefilter("error")
        assert TEMPLATES[PATCH].find(np.full((*size, 3), level, np.uint8)) == []


@pytest.mark.parametrize("box", [(-40, -40, 64, 160), (440, 400, 900, 700), (-9, -9, 999, 999), (1.5, 0.2, 510.9, 511)])
def test_boxes_may_reach_beyond_the_picture(box):
    best = ObjectTemplate(PHOTOS["astronaut"], box).find(PHOTOS["astronaut"])[0]
    assert best.score >= 0.97
    assert overlap(best, (max(box[0], 0), max(box[1], 0), min(box[2], 512), min(box[3], 512))) > 0.99


HALVES = np.full((200, 200, 3), 60, np.uint8)
HALVES[:, 100:] = 200


@pytest.mark.parametrize(
    ("photo", "box", "error", "reason"),
    [
        (PHOTOS["rocket"], (200, 20, 300, 100), TooLittleStructure, "too few edges"),  # sky
        (PHOTOS["coffee"], (0, 0, 60, 60), TooLittleStructure, "too few edges"),
        (PHOTOS["chelsea"], (100, 100, 103, 103), TooLittleStructure, "too few pixels"),
        (PHOTOS["chelsea"], (0, 0, 451, 4), TooLittleStructure, "too few pixels"),
        (noisy(HALVES, 2), (60, 60, 140, 140), TooLittleStructure, "one direction"),
        *(
            (PHOTOS["astronaut"], box, ValueError, r"outside the image|expected a box")
            for box in [(10, 10, 10, 40), (40, 10, 10, 40), (float("nan"), 0, 50, 50), (600, 600, 700, 700)]
        ),
        *(
            (array, (0, 0, 5, 5), ValueError, "expected a uint8 image H x W x 3")
            for array in [np.zeros((9, 9), np.uint8), np.zeros((9, 9, 3)), np.zeros((0, 9, 3), np.uint8)]
        ),
    ],
)
def test_what_cannot_be_recognised_is_refused(photo, box, error, reason):
    with pytest.raises(error, match=reason):
        ObjectTemplate(photo, box)


def test_one_call_or_shared_parts_find_the_same_and_change_nothing():
    name, box = PATCH
    base, edited = PHOTOS[name].copy(), noisy(PHOTOS[name], 8)
    before = base.copy(), edited.copy()
    once = ObjectTemplate(base, box).find(edited)
    shared, picture = ObjectTemplate(BASES[name], box), Pyramid(edited)
    assert shared.find(PHOTOS[name]) != once
    assert shared.find(picture) == shared.find(picture) == once
    assert np.array_equal(base, before[0])
    assert np.array_equal(edited, before[1])


SMALL = cv2.resize(PHOTOS["coffee"], (384, 256), interpolation=cv2.INTER_AREA)
MIDDLE = Pose(192, 128, 64, 64)


def changes(edited):
    return Pyramid(edited).changes_from(Pyramid(SMALL))


@pytest.mark.parametrize(
    "edit",
    [lambda p: p.copy(), lambda p: p[..., ::-1].copy(), lambda p: noisy(p, 4), lambda p: (p * 0.8).astype(np.uint8)],
    ids=["a copy", "other colours", "noise", "darker"],
)
def test_what_leaves_the_edges_changes_nothing(edit):
    assert changes(edit(SMALL)).around is None


def test_something_new_changes_its_place_another_photograph_all_and_another_shape_cannot_be_compared():
    brick = cv2.resize(skimage.data.brick(), (64, 64))[..., None]
    detected = changes(pasted(SMALL, brick, 16, 16))
    assert detected.around is not None
    assert np.abs(np.array(detected.around) - (16, 16, 80, 80)).max() < 16
    assert detected.touch(Pose(48, 48, 64, 64))
    assert not detected.touch(MIDDLE)
    assert not detected.wide
    assert changes(cv2.resize(PHOTOS["astronaut"], (384, 256), interpolation=cv2.INTER_AREA)).wide
    base = Pyramid(SMALL)
    assert base.changes_from(base).everywhere
    assert changes(SMALL[:, :200]).everywhere
    assert changes(SMALL[:, :200]).touch(MIDDLE)
