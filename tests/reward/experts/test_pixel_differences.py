"""PixelDifferences: noise is ignored; in small images a changed texture is detected."""

import cv2
import numpy as np
import pytest
from skimage import data

from editcritic.reward import Box, Image
from editcritic.reward.experts.pixel_differences import PixelDifferences
from editcritic.reward.queries import Detections
from editcritic.reward.queries.kinds import Differ
from editcritic.reward.queries.outcomes import Abstention

from .pictures import noisy


def regions(before, after, expert=None):
    (detections,) = (expert or PixelDifferences())([Differ(Image.of(before), Image.of(after))])
    assert isinstance(detections, Detections)
    return detections.boxes


def lines(side, period):
    """A green square on grey, plain and with a line texture of the same mean."""
    plain = np.full((side, side, 3), 150, np.uint8)
    part = slice(side // 4, side // 2)
    plain[part, part] = (36, 148, 56)
    lined = plain.copy()
    bright = np.where(np.arange(side) % period < period // 2, 1.2, 0.8)[:, None, None]
    lined[part, part] = (plain * bright)[part, part].astype(np.uint8)
    return plain, lined


@pytest.mark.parametrize("side", [32, 64, 128, 512])
def test_in_small_pictures_lines_of_four_pixels_are_seen_and_noise_is_no_difference(side):
    plain, lined = lines(side, 4)
    if side < 512:
        (box,) = regions(plain, lined)
        assert box.cx == pytest.approx(0.375, abs=0.1)
        assert box.w == pytest.approx(0.25, abs=0.15)
    else:  # finer than what encoding does
        assert regions(plain, lined) == ()
    for sigma in (2, 5, 8):
        assert all(regions(plain, noisy(plain, sigma, seed)) == () for seed in range(5))


def test_a_change_in_a_photograph_is_boxed_and_the_strongest_scored_higher():
    before = data.chelsea()
    weak, strong = before.copy(), before.copy()
    weak[40:80, 60:100] = (weak[40:80, 60:100] * 0.6).astype(np.uint8)
    strong[40:80, 60:100] = 255 - strong[40:80, 60:100]
    (faint,), (clear,) = regions(before, weak), regions(before, strong)
    assert faint.clipped_corners((before.shape[1], before.shape[0])) == pytest.approx((60, 40, 100, 80), abs=4)
    assert clear.score > faint.score > 0
    pair = Differ(Image.of(np.zeros((8, 8, 3), np.uint8)), Image.of(np.zeros((8, 9, 3), np.uint8)))
    (outcome,) = PixelDifferences()([pair])
    assert isinstance(outcome, Abstention)


def by_scanning(expert, before, after):
    """Reference: searches every region in the whole image."""
    height, width = before.shape[:2]
    difference = cv2.absdiff(cv2.blur(before, (5, 5)), cv2.blur(after, (5, 5))).max(axis=2).astype(np.float32)
    if max(width, height) < 256:
        apart = before.astype(np.float32) - after
        mean = cv2.blur(apart, (5, 5))
        spread = np.sqrt(np.maximum(cv2.blur(apart * apart, (5, 5)) - mean * mean, 0)).max(axis=2)
        difference = np.maximum(difference, spread * (4 / 3))
    changed = (difference > expert.threshold).astype(np.uint8)
    reach = max(1, round(expert.join_distance * max(width, height) / 2))
    count, labels = cv2.connectedComponents(cv2.dilate(changed, np.ones((2 * reach + 1, 2 * reach + 1), np.uint8)))
    labels = np.where(changed > 0, labels, 0)
    detections = []
    for label in range(1, count):
        rows, columns = np.nonzero(labels == label)
        if rows.size < max(1.0, expert.min_area * width * height):
            continue
        strength = float(difference[rows, columns].mean()) / 255
        corners = (int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1)
        detections.append(Box.from_corners(*corners, (width, height), score=strength))
    return tuple(sorted(detections, key=lambda box: -box.area)[: expert.max_regions])


def scribbled(rng, width, height, marks):
    """A random image, and the same with rectangles and rings drawn on, some of them equal, some cut by the border."""
    before = cv2.blur(rng.integers(0, 256, (height, width, 3), dtype=np.uint8), (7, 7))
    after = np.array(before)
    for _ in range(marks):
        x, y = (int(rng.integers(-8, side)) for side in (width, height))
        w, h = ((int(side) for side in rng.integers(1, 24, 2)), (9, 9))[int(rng.integers(2))]
        colour = tuple(int(value) for value in rng.integers(0, 256, 3))
        cv2.rectangle(after, (x, y), (x + w, y + h), colour, thickness=int(rng.choice([-1, 1, 3])))
    return before, after


@pytest.mark.parametrize("seed", range(24))
def test_no_region_and_no_digit_is_other_than_by_scanning_the_picture_a_region(seed):
    rng = np.random.default_rng(seed)
    width, height = (int(side) for side in rng.integers(16, 240 if seed % 2 else 400, 2))
    expert = PixelDifferences(
        threshold=int(rng.choice([4, 24, 60])),
        join_distance=float(rng.choice([0.0, 0.01, 0.02, 0.1])),
        min_area=float(rng.choice([0.0, 0.0001, 0.01])),
        max_regions=int(rng.choice([1, 5, 32])),
    )
    before, after = scribbled(rng, width, height, int(rng.integers(0, 60)))
    assert regions(before, after, expert) == by_scanning(expert, before, after)


def test_all_of_the_picture_may_have_changed_and_none_of_it():
    black, white = np.zeros((300, 200, 3), np.uint8), np.full((300, 200, 3), 255, np.uint8)
    assert regions(black, white) == by_scanning(PixelDifferences(), black, white) == (Box(0.5, 0.5, 1.0, 1.0, 1.0),)
    assert regions(black, black) == ()
