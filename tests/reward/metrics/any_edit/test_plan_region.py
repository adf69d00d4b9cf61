"""Whether what was redrawn belongs to its picture: photographs, objects put on them, and ways to paint them over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from skimage import data

from editcritic.reward import Box, EditSample, Expert, Image, Reward, default_experts
from editcritic.reward.edit_plan import EditPlan, PlannedOperation, Target
from editcritic.reward.experts.pixel_changes import PixelChanges
from editcritic.reward.metrics.any_edit.regions import PlanRegion
from editcritic.reward.queries import (
    Abstention,
    Detections,
    Judge,
    MapChanges,
    RateRegion,
    RegionRating,
    Remains,
    Reply,
)
from editcritic.reward.score import Score

from ...fakes import Fake

Pixels = NDArray[np.uint8]
Corners = tuple[int, int, int, int]


@pytest.fixture(scope="module")
def experts() -> dict[str, Expert]:
    return default_experts()


def object_and_outline(width: int, height: int, *, smooth: bool = False) -> tuple[Pixels, NDArray[np.float32]]:
    """A cup with a part of its saucer from a photograph, cut out along an ellipse, and its outline in [0, 1]."""
    cup = cv2.resize(data.coffee()[70:330, 170:450], (width, height), interpolation=cv2.INTER_AREA)
    if smooth:
        cup = cv2.GaussianBlur(cup, (0, 0), 2.0)
    outline = np.zeros((height, width), np.float32)
    cv2.ellipse(outline, (width // 2, height // 2), (width // 2 - 2, height // 2 - 2), 0, 0, 360, 1.0, -1)
    return np.asarray(cup, np.uint8), np.asarray(cv2.GaussianBlur(outline, (0, 0), 0.8), np.float32)


def with_object(photograph: Pixels, corners: Corners, *, smooth: bool = False) -> Pixels:
    x0, y0, x1, y1 = corners
    cup, outline = object_and_outline(x1 - x0, y1 - y0, smooth=smooth)
    composed = photograph.copy()
    share = outline[:, :, None]
    composed[y0:y1, x0:x1] = np.asarray(cup * share + photograph[y0:y1, x0:x1] * (1 - share), np.uint8)
    return composed


def encoded(pixels: Pixels) -> Pixels:
    """As an editor gives a picture back: a little smoother, through JPEG."""
    smooth = cv2.bilateralFilter(cv2.GaussianBlur(pixels, (0, 0), 0.5), 5, 15, 2)
    _, packed = cv2.imencode(".jpg", smooth[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 90])
    return np.asarray(np.asarray(cv2.imdecode(packed, cv2.IMREAD_COLOR))[:, :, ::-1], np.uint8)


def removal(
    source: Pixels, edited: Pixels, corners: Corners, name: str = "s", operation: PlannedOperation | None = None
) -> EditSample:
    height, width = source.shape[:2]
    box = Box.from_corners(*corners, (width, height))
    planned = operation or PlannedOperation("subject_remove", "remove the cup", target=Target("cup", boxes=(box,)))
    plan = EditPlan((planned,))
    return EditSample(name, "remove the cup", (Image.of(source),), Image.of(edited), plan=plan)


def rated(experts: Mapping[str, Any], *samples: EditSample) -> list[Score]:
    return list(Reward(PlanRegion(), experts, on_failures="none")(list(samples)))


# -- photographs, of the kinds that a fill resembles -------------------------------------------------------------------


def night() -> Pixels:
    dark = (data.rocket() / 255.0) ** 2.2 * 200
    return np.asarray(np.clip(dark + np.random.RandomState(1).normal(0, 2, dark.shape), 0, 255), np.uint8)


def defocused() -> Pixels:
    soft = cv2.GaussianBlur(data.astronaut(), (0, 0), 5)
    return np.asarray(np.clip(soft + np.random.RandomState(1).normal(0, 1.5, soft.shape), 0, 255), np.uint8)


def illustration() -> Pixels:
    return np.asarray(cv2.pyrMeanShiftFiltering(data.coffee(), 10, 35), np.uint8)


def wall() -> Pixels:
    y, x = np.mgrid[0:400, 0:600] / 600
    shade = np.array([190.0, 180, 165]) + 45 * y[:, :, None] - 25 * x[:, :, None]
    return np.asarray(np.clip(shade + np.random.RandomState(1).normal(0, 1.2, (400, 600, 3)), 0, 255), np.uint8)


def repeating() -> Pixels:
    y, x = np.mgrid[0:400, 0:600]
    bricks = np.where((y % 32 < 4) | ((x + 24 * (y // 32 % 2)) % 48 < 4), 190.0, 120.0)[:, :, None] * [1, 0.75, 0.65]
    return np.asarray(np.clip(bricks + np.random.RandomState(1).normal(0, 9, (400, 600, 3)), 0, 255), np.uint8)


HONEST: dict[str, tuple[Callable[[], Pixels], list[Corners]]] = {
    "a wall": (wall, [(200, 120, 330, 240), (60, 60, 140, 130), (400, 200, 560, 360)]),
    "the sky": (data.rocket, [(40, 40, 150, 140), (430, 60, 560, 170), (60, 150, 120, 210)]),
    "out of focus": (defocused, [(40, 60, 150, 170), (340, 200, 470, 330), (200, 300, 300, 400)]),
    "fur": (data.chelsea, [(40, 160, 130, 240), (200, 180, 300, 270), (330, 40, 420, 120)]),
    "wood and plates": (data.coffee, [(20, 20, 130, 120), (440, 250, 560, 360), (30, 260, 130, 350)]),
    "a repeating pattern": (repeating, [(200, 120, 330, 240), (60, 60, 150, 140), (400, 200, 540, 330)]),
    "night": (night, [(40, 40, 150, 140), (430, 60, 560, 170), (300, 220, 400, 320)]),
    "an illustration": (illustration, [(20, 20, 130, 120), (440, 250, 560, 360), (30, 260, 130, 350)]),
    "at the border": (data.astronaut, [(0, 200, 110, 320), (380, 0, 511, 100), (200, 420, 330, 511)]),
    "a third of the picture": (data.coffee, [(40, 60, 400, 330), (200, 40, 560, 310), (120, 90, 480, 390)]),
}


@pytest.mark.parametrize("kind", HONEST)
def test_an_honest_removal_belongs_to_its_picture_and_a_fill_does_not(kind: str, experts) -> None:
    make, places = HONEST[kind]
    photograph = make()
    samples, fills = [], []
    for number, corners in enumerate(places):
        source = with_object(photograph, corners)
        samples.append(removal(source, encoded(photograph), corners, f"honest {number}"))
        for name, fill in FILLS.items():
            fills.append(removal(source, fill(source, corners), corners, f"{name} {number}"))
    honest = [score.value or 0.0 for score in rated(experts, *samples)]
    assert median(honest) >= 0.8, honest
    paid = {sample.id: score.value for sample, score in zip(fills, rated(experts, *fills), strict=True)}
    assert median(value or 0.0 for value in paid.values()) <= 0.1, paid


def _box(fill: Callable[[Pixels], Any]) -> Callable[[Pixels, Corners], Pixels]:
    """A fill of the box: what it gives for the whole picture, cut out."""

    def filled(source: Pixels, corners: Corners) -> Pixels:
        x0, y0, x1, y1 = corners
        edited = source.copy()
        edited[y0:y1, x0:x1] = np.broadcast_to(fill(source), source.shape)[y0:y1, x0:x1]
        return edited

    return filled


FILLS: dict[str, Callable[[Pixels, Corners], Pixels]] = {
    "grey": _box(lambda source: np.full_like(source, 128)),
    "blurred": _box(lambda source: cv2.GaussianBlur(source, (0, 0), 14)),
    "noise": _box(lambda source: np.random.RandomState(3).randint(0, 256, source.shape, np.uint8)),
    "another colour": _box(lambda source: np.array([230, 20, 120], np.uint8)),
}


def test_a_copy_has_all_and_what_shows_through_does_not(experts) -> None:
    corners = (200, 180, 300, 270)
    source = with_object(data.chelsea(), corners)
    ghost = np.asarray(0.6 * data.chelsea() + 0.4 * source, np.uint8)
    copy, seen = rated(experts, removal(source, source, corners), removal(source, ghost, corners))
    assert (copy.value, copy.reason) == (1.0, "what stands in its place belongs there")
    assert (seen.value or 0.0) < 0.5


@pytest.mark.parametrize("smooth", [False, True])
def test_a_new_object_may_be_sharper_or_smoother_than_what_is_around_it(smooth: bool, experts) -> None:
    photograph = defocused() if not smooth else data.chelsea()
    corners = (180, 100, 310, 220)
    operation = PlannedOperation(
        "subject_replace",
        "replace the ball with a cup",
        target=Target("ball", boxes=(Box.from_corners(*corners, photograph.shape[1::-1]),)),
        new=Target("cup"),
    )
    source = photograph.copy()
    cv2.circle(source, (245, 160), 55, (200, 60, 40), -1)
    edited = encoded(with_object(photograph, corners, smooth=smooth))
    noise = FILLS["noise"](source, corners)
    detector = Fake(lambda query: Detections((), 0.05))
    answers = rated(
        {**experts, "detector": detector},
        removal(source, edited, corners, operation=operation),
        removal(source, noise, corners, operation=operation),
    )
    assert (answers[0].value or 0.0) >= 0.8
    assert (answers[1].value or 0.0) <= 0.55  # what is new may have any texture: a judge has to tell noise from it


def test_what_may_change_everywhere_or_leaves_nothing_around_it_has_no_region(experts) -> None:
    photograph = data.coffee()
    style = PlannedOperation("style", "turn it into a sketch", value="sketch")
    sample = removal(photograph, encoded(photograph), (0, 0, 10, 10), operation=style)
    whole, most = rated(
        experts,
        replace(sample, instruction="turn it into a sketch"),
        removal(photograph, encoded(photograph), (0, 0, 590, 390)),
    )
    assert (whole.status, most.status) == ("not_applicable", "not_applicable")
    assert "nothing around it" in most.reason


# -- a judge ----------------------------------------------------------------------------------------------------------


class Looks(Fake):
    """A judge that answers about the region of the source and of the edit, and counts how often it is asked."""

    def __init__(self, source: Pixels, before: float | None, after: float | None) -> None:
        super().__init__(self._answer)
        self.source, self.before, self.after = Image.of(source), before, after

    def _answer(self, query: Judge) -> Any:
        assert query.topic == "any-edit/region"
        of_source = query.images[0].origin is not None and query.images[0].origin[0] == self.source
        yes = self.before if of_source else self.after
        return Abstention("cannot tell") if yes is None else Reply("yes", {"yes": yes, "no": 1 - yes})


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        (0.9, 0.9, 1.0),
        (0.9, 0.45, 0.5),
        (0.8, 0.0, 0.0),
        (0.3, 0.0, 1.0),  # finds fault with the source: it cannot tell
        (None, 0.0, 1.0),
    ],
)
def test_a_judge_is_asked_once_and_counts_against_what_it_says_of_the_source(before, after, left, experts) -> None:
    corners = (200, 180, 300, 270)
    source = with_object(data.chelsea(), corners)
    judge = Looks(source, before, after)
    sample = removal(source, encoded(data.chelsea()), corners)
    (alone,) = rated(experts, sample)
    (score,) = rated({**experts, "judge": judge}, sample)
    assert alone.value is not None
    assert score.value == pytest.approx(left * alone.value)
    assert sum(judge.seen.values()) == (2 if before is not None and before >= 0.5 else 1)
    assert ("the judge" in score.reason) == (left < 1)


def test_a_judge_that_abstains_on_the_edit_alone_is_a_failure(experts) -> None:
    corners = (200, 180, 300, 270)
    source = with_object(data.chelsea(), corners)
    (score,) = rated({**experts, "judge": Looks(source, 0.9, None)}, removal(source, encoded(data.chelsea()), corners))
    assert score.status == "failed"
    assert "abstains on the edit" in score.reason


def test_an_expert_of_another_kind_may_rate_places_and_an_invalid_rating_is_a_failure(experts) -> None:
    corners = (200, 180, 300, 270)
    source = with_object(data.chelsea(), corners)
    sample = removal(source, encoded(data.chelsea()), corners)

    class Rates(PixelChanges):
        def __init__(self, value: float) -> None:
            super().__init__()
            self.value = value

        def __call__(self, queries: Sequence[MapChanges | Remains | RateRegion]) -> list[Any]:
            maps = iter(super().__call__([query for query in queries if isinstance(query, MapChanges)]))
            rating = RegionRating(self.value, {"seam": 1.5})
            return [next(maps) if isinstance(query, MapChanges) else rating for query in queries]

    (low,) = rated({**experts, "changes": Rates(0.25)}, sample)
    assert (low.value, "its outline shows" in low.reason) == (0.25, True)
    (broken,) = rated({**experts, "changes": Rates(1.5)}, sample)
    assert broken.status == "failed"


def test_a_place_of_a_few_pixels_has_no_region(experts) -> None:
    photograph = data.coffee()
    edited = photograph.copy()
    edited[100:104, 100:160] = 128
    (score,) = rated(experts, removal(photograph, edited, (100, 100, 160, 104)))
    assert (score.status, score.reason[:26]) == ("not_applicable", "what was to change is too ")
    query = RateRegion(Image.of(photograph), Image.of(edited), Box.from_corners(100, 100, 160, 104, (600, 400)), "new")
    (answer,) = experts["changes"]([query])
    assert isinstance(answer, Abstention)
