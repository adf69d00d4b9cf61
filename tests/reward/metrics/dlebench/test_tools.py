"""The tools by themselves: no judge, no engine."""

import numpy as np
import pytest

from editcritic.reward import Box, Image
from editcritic.reward.experts.pixel_differences import PixelDifferences
from editcritic.reward.metrics.dlebench.tools import (
    ToolError,
    check_context,
    context_factor,
    crop_corners,
    detect_object,
    enlarge_small_crops,
    localize_differences,
    touched_pixels,
    zoom_in_image,
)
from editcritic.reward.queries import Abstention, Detect, Detections, Failure

from ...fakes import value_alone
from .scripted_dlebench import EDITED, PLACE, SIZE, SOURCE, Experts, Finds, noise, patched, same

RED = (255, 0, 0)


IMAGE = noise(1)


@pytest.mark.parametrize(
    ("bbox", "options", "shown"),
    [
        ([100, 50, 400, 350], {}, IMAGE.pixels[50:350, 100:400]),
        ((10.5, 20.0, 299.2, 300.0), {}, IMAGE.pixels[20:300, 10:300]),  # rounded outwards
        ([10, 20, 30, 60], {}, Image.of(IMAGE.pixels[20:60, 10:30]).resized(80, 160)),  # enlarged by the enhancer
        ([10, 20, 30, 60], {"enhance_below": 0}, IMAGE.pixels[20:60, 10:30]),
    ],
)
def test_zooming_shows_the_pixels_of_the_box_of_any_picture(bbox, options, shown):
    for image in (IMAGE, np.array(IMAGE.pixels)):
        observation = zoom_in_image(bbox, image, **options)
        assert same(observation.pictures, [shown])
        assert ("4 times as large" in observation.text) is (bbox[2] == 30 and not options)
        assert bbox[0] != 100 or "[100, 50, 400, 350]" in observation.text


@pytest.mark.parametrize(
    ("bbox", "why"),
    [
        *(
            (bbox, "reaches out")
            for bbox in ([0, 0, 641, 10], [-1, 0, 10, 10], [0, 0, 10, 480.5], [700, 500, 800, 600])
        ),
        ([10**30, 0, 10**31, 10], "reaches out"),
        *((bbox, "empty") for bbox in ([10, 10, 10, 20], [20, 10, 10, 20], [5, 5, 5, 5])),
        *((bbox, "shares") for bbox in ([0.1, 0.2, 0.4, 0.5], [0, 0, 1, 1], [0, 0, 0, 0])),
        *((bbox, "four numbers") for bbox in ([1, 2, 3], [1, 2, 3, 4, 5], [[1, 2], [3, 4]], list("1234"), "1234")),
        *((bbox, "four numbers") for bbox in ([1, 2, 3, float("nan")], [1, 2, 3, float("inf")], [True, 2, 3, 4], None)),
        ({"x1": 1}, "four numbers"),
    ],
)
def test_a_box_that_is_none_is_refused_with_the_size_of_the_picture(bbox, why):
    with pytest.raises(ToolError, match=why) as refused:
        zoom_in_image(bbox, SOURCE)
    assert "640 x 480" in str(refused.value)


def test_a_difference_is_shown_before_and_after_with_a_red_line_between():
    observation = localize_differences(SOURCE, EDITED, enhance_below=0)
    (pair,) = observation.pictures
    (region,) = PixelDifferences()._regions(SOURCE.pixels, EDITED.pixels)
    x0, y0, x1, y1 = crop_corners(region.corners(SIZE), SIZE)
    assert same([pair.crop(0, 0, x1 - x0, y1 - y0)], [SOURCE.pixels[y0:y1, x0:x1]])
    assert same([pair.crop(pair.width - (x1 - x0), 0, pair.width, y1 - y0)], [EDITED.pixels[y0:y1, x0:x1]])
    line = pair.pixels[:, x1 - x0 : pair.width - (x1 - x0)]
    assert line.shape[1] == 4
    assert (line == RED).all()
    assert observation.boxes == (region,)
    assert str(list(region.corners(SIZE))) in observation.text
    assert region.corners(SIZE) == pytest.approx(PLACE, abs=2)


def test_both_sides_of_a_small_pair_are_enlarged_and_a_picture_of_another_size_is_brought_to_the_first_ones():
    plain, large = localize_differences(SOURCE, EDITED, enhance_below=0), localize_differences(SOURCE, EDITED)
    (small,), (pair,) = plain.pictures, large.pictures
    assert (pair.width - 4, pair.height) == (4 * (small.width - 4), 4 * small.height)
    observation = localize_differences(SOURCE, EDITED.resized(1280, 960))
    assert "brought from 1280 x 960 to 640 x 480" in observation.text
    assert (len(observation.pictures), "brought" in large.text) == (1, False)
    same_pictures = localize_differences(SOURCE, SOURCE)
    assert same_pictures.pictures == same_pictures.boxes == ()
    assert "No region" in same_pictures.text
    assert localize_differences(SOURCE, EDITED, differences=PixelDifferences(threshold=254)).boxes == ()


def test_the_largest_regions_are_shown_first_and_the_rest_is_counted():
    areas = [(50, 50, 60, 60), (200, 50, 230, 80), (400, 300, 460, 360)]
    edited = patched(SOURCE, *areas)
    observation = localize_differences(SOURCE, edited, regions=2, enhance_below=0)
    crops = [crop_corners(box.corners(SIZE), SIZE) for box in observation.boxes[:2]]
    shown = [pair.crop(0, 0, (pair.width - 4) // 2, pair.height) for pair in observation.pictures]
    assert same(shown, [SOURCE.crop(*crop) for crop in crops])
    assert "3 regions differ, the 2 largest are shown" in observation.text
    assert [box.corners(SIZE) for box in observation.boxes] == [
        pytest.approx(area, abs=2) for area in (areas[2], areas[1], areas[0])
    ]


def test_objects_are_outlined_outside_of_their_boxes_best_first():
    near, far = (100, 100, 140, 130), (400, 300, 420, 320)
    boxes = [Box.from_corners(*far, SIZE, score=0.5), Box.from_corners(*near, SIZE, score=0.9)]
    weak = Box.from_corners(0, 0, 50, 50, SIZE, score=0.3)
    detector = Finds(Detections((*boxes, weak)))
    observation = detect_object(SOURCE, "cup", detector=detector)
    assert detector.queries == [Detect(SOURCE, ("cup",))]
    assert observation.text.index("[100, 100, 140, 130] (score 0.90)") < observation.text.index(
        "[400, 300, 420, 320] (score 0.50)"
    )
    expected = np.array(SOURCE.pixels)
    for x0, y0, x1, y1 in (near, far):
        expected[y0 - 2 : y1 + 2, x0 - 2 : x1 + 2] = RED
        expected[y0:y1, x0:x1] = SOURCE.pixels[y0:y1, x0:x1]
    assert same(observation.pictures, [expected])
    assert [box.score for box in observation.boxes] == [0.9, 0.5]


def test_what_is_not_found_is_said_without_a_picture():
    observation = detect_object(SOURCE, "cup", detector=Finds(Detections(())))
    assert (observation.pictures, "'cup' was not found" in observation.text) == ((), True)


@pytest.mark.parametrize(
    ("name", "outcome", "error", "why"),
    [
        ("cup", Failure("out of memory"), ToolError, "out of memory"),
        ("cup", Abstention("out of memory"), ToolError, "out of memory"),
        (" ", None, ToolError, "empty"),  # nobody is asked
        ("cup", "here", ValueError, "detect expects"),
    ],
)
def test_a_detector_that_cannot_answer_is_an_error(name, outcome, error, why):
    detector = Finds(outcome)
    with pytest.raises(error, match=why):
        detect_object(SOURCE, name, detector=detector)
    assert len(detector.queries) == (name == "cup")


LARGE = (4000, 3000)


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
        *(((0, 0, 16, 16), (0, 0, 64, 64)), ((20, 2980, 36, 2996), (0, 2932, 84, 3000))),
        *(((3984, 1000, 4000, 1016), (3936, 952, 4000, 1064)), ((0, 0, 4000, 3000), (0, 0, 4000, 3000))),
    ],
)
def test_a_crop_has_the_corners_that_are_computed_by_hand(corners, crop):
    assert crop_corners(corners, LARGE) == crop


@pytest.mark.parametrize("context", ["wide", -0.1, float("nan"), float("inf"), None])
def test_a_fixed_context_is_the_same_for_all_sizes_and_one_that_means_nothing_is_refused(context):
    assert crop_corners((100, 100, 120, 140), LARGE, 0.5) == (95, 90, 125, 150)
    assert crop_corners((100, 100, 120, 140), LARGE, 0) == (100, 100, 120, 140)
    with pytest.raises(ValueError, match="context"):
        check_context(context)


@pytest.mark.parametrize(
    ("corners", "size", "pixels"),
    [
        ((10, 20, 30, 40), (333, 777), (10, 20, 30, 40)),
        ((10.4, 20.6, 29.2, 39.9), (100, 100), (10, 20, 30, 40)),
        *(((5.2, 5.2, 5.3, 5.3), (10, 10), (5, 5, 6, 6)), ((-5, -5, 5, 5), (10, 10), (0, 0, 5, 5))),
        ((11, 11, 15, 15), (10, 10), None),
    ],
)
def test_a_box_has_the_pixels_it_touches(corners, size, pixels):
    x0, y0, x1, y1 = corners
    assert touched_pixels(Box.from_corners(x0, y0, x1, y1, size), size) == pixels


def test_only_small_crops_are_enlarged_and_none_beyond_bounds():
    crops = [noise(1, (100, 255)), noise(2, (256, 300)), noise(3, (1025, 20)), noise(4, (1024, 20))]
    enlarged = value_alone(enlarge_small_crops(crops, 256), Experts(), "enhancer")
    assert [crop.size for crop in enlarged] == [(400, 1020), (256, 300), (1025, 20), (4096, 80)]
    assert enlarged[1] == crops[1]
    nobody = Experts()
    assert value_alone(enlarge_small_crops([noise(1, (300, 300))], 256), nobody, "enhancer")
    assert nobody.queries == []


@pytest.mark.parametrize(
    ("shorter", "factor"), [(1, 6.0), (16, 6.0), (32, 6.0), (88, 4.575), (144, 3.15), (256, 0.3), (400, 0.3)]
)
def test_the_factor_falls_from_6_at_32_pixels_to_03_at_256(shorter, factor):
    assert context_factor(shorter) == pytest.approx(factor)
