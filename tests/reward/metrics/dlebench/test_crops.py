"""Crops: how much context an object gets by its size, and what is enlarged."""

import pytest

from editcritic.reward import Box, Image
from editcritic.reward.engine.program import Ask
from editcritic.reward.metrics.dlebench.tools import (
    check_context,
    context_factor,
    crop_corners,
    enlarge_small_crops,
    touched_pixels,
)

from .scripted_dlebench import Experts, box, noise

LARGE = (4000, 3000)


@pytest.mark.parametrize(
    ("shorter", "factor"), [(1, 6.0), (16, 6.0), (32, 6.0), (88, 4.575), (144, 3.15), (256, 0.3), (400, 0.3)]
)
def test_the_factor_falls_from_6_at_32_pixels_to_03_at_256(shorter, factor):
    assert context_factor(shorter) == pytest.approx(factor)


@pytest.mark.parametrize(
    ("corners", "crop"),
    [
        # 16 x 16: 6 x 16 / 2 = 48 to each side
        ((1000, 1000, 1016, 1016), (952, 952, 1064, 1064)),
        # 16 x 40: s = 16, so 48 across and 6 x 40 / 2 = 120 down
        ((1000, 1000, 1016, 1040), (952, 880, 1064, 1160)),
        # 32 x 32: 96
        ((1000, 1000, 1032, 1032), (904, 904, 1128, 1128)),
        # 144 x 144: 3.15 x 144 / 2 = 226.8, rounded outwards
        ((1000, 1000, 1144, 1144), (773, 773, 1371, 1371)),
        # 256 x 256: 0.3 x 256 / 2 = 38.4
        ((1000, 1000, 1256, 1256), (961, 961, 1295, 1295)),
        # 400 x 400: 0.3 x 400 / 2 = 60
        ((1000, 1000, 1400, 1400), (940, 940, 1460, 1460)),
        # cut at the border, where it reaches out of it
        ((0, 0, 16, 16), (0, 0, 64, 64)),
        ((20, 2980, 36, 2996), (0, 2932, 84, 3000)),
        ((3984, 1000, 4000, 1016), (3936, 952, 4000, 1064)),
        ((0, 0, 4000, 3000), (0, 0, 4000, 3000)),
    ],
)
def test_a_crop_has_the_corners_that_are_computed_by_hand(corners, crop):
    assert crop_corners(corners, LARGE) == crop


def test_a_fixed_context_is_the_same_for_all_sizes():
    assert crop_corners((100, 100, 120, 140), LARGE, 0.5) == (95, 90, 125, 150)
    assert crop_corners((100, 100, 120, 140), LARGE, 0) == (100, 100, 120, 140)


@pytest.mark.parametrize("context", ["wide", -0.1, float("nan"), float("inf"), None])
def test_a_context_that_means_nothing_is_refused(context):
    with pytest.raises(ValueError, match="context"):
        check_context(context)


@pytest.mark.parametrize(
    ("corners", "size", "pixels"),
    [
        ((10, 20, 30, 40), (333, 777), (10, 20, 30, 40)),
        ((10.4, 20.6, 29.2, 39.9), (100, 100), (10, 20, 30, 40)),
        ((5.2, 5.2, 5.3, 5.3), (10, 10), (5, 5, 6, 6)),
        ((-5, -5, 5, 5), (10, 10), (0, 0, 5, 5)),
        ((11, 11, 15, 15), (10, 10), None),
    ],
)
def test_a_box_has_the_pixels_it_touches(corners, size, pixels):
    x0, y0, x1, y1 = corners
    assert touched_pixels(Box.from_corners(x0, y0, x1, y1, size), size) == pixels


def test_every_whole_pixel_survives_the_way_through_fractions():
    for side in (7, 331, 512, 3841):
        for start in range(0, side - 1, max(1, side // 50)):
            assert touched_pixels(box(start, 0, start + 1, 1, (side, 1)), (side, 1)) == (start, 0, start + 1, 1)


def test_only_small_crops_are_enlarged_and_none_beyond_bounds():
    crops = [noise(1, (100, 255)), noise(2, (256, 300)), noise(3, (1025, 20)), noise(4, (1024, 20))]
    experts = Experts()
    program = enlarge_small_crops(crops, 256)
    request = next(program)
    assert isinstance(request, Ask)
    with pytest.raises(StopIteration) as done:
        program.send(tuple(map(experts, request.queries)))
    sizes = [crop.size for crop in done.value.value]
    assert sizes == [(400, 1020), (256, 300), (1025, 20), (4096, 80)]
    assert done.value.value[1] == crops[1]


def test_nothing_is_asked_where_nothing_is_small():
    with pytest.raises(StopIteration) as done:
        next(enlarge_small_crops([noise(1, (300, 300))], 256))
    assert isinstance(done.value.value[0], Image)
