"""Boxes: conversion between pixels and fractions, and overlap."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import Box
from editcritic.reward.boxes import highest_scoring, suppress_overlaps

SHARES = st.floats(0, 1)
BOXES = st.builds(Box, SHARES, SHARES, SHARES, SHARES, SHARES, st.sampled_from(["", "cup", "saucer"]))


@given(data=st.data(), width=st.integers(1, 20_000), height=st.integers(1, 20_000))
def test_whole_pixels_come_back_as_they_were(data, width, height):
    x0, y0 = data.draw(st.integers(-9, width)), data.draw(st.integers(-9, height))
    x1, y1 = data.draw(st.integers(x0, width + 9)), data.draw(st.integers(y0, height + 9))
    box = Box.from_corners(x0, y0, x1, y1, (width, height))
    assert box.corners((width, height)) == (x0, y0, x1, y1)
    inside = max(x0, 0), max(y0, 0), min(x1, width), min(y1, height)
    assert box.clipped_corners((width, height)) == (inside if inside[0] < inside[2] and inside[1] < inside[3] else None)


def test_corners_sizes_and_the_best_box():
    assert Box.from_corners(-0.5, 0.5, 1.5, 2.9, (10, 10)).corners((10, 10)) == (-1, 0, 1, 2)
    for side in (0.0, 1e-170, 5e-324):
        assert Box(0.0, 0.0, side, side).iou(Box(0.0, 0.0, side, side)) == 0.0
    boxes = [Box(0.1, 0.1, 0.1, 0.1, score, str(score)) for score in (0.3, 0.9, 0.9, 0.1)]
    assert highest_scoring(boxes) is boxes[1]
    assert highest_scoring([]) is None


def test_overlap_is_that_of_pixels():
    rows, columns = np.mgrid[:100, :100]
    rectangles = [(10, 20, 60, 70), (40, 10, 90, 60), (0, 0, 100, 100), (0, 0, 5, 5), (60, 20, 90, 70)]

    def inside(x0, y0, x1, y1):
        return (columns >= x0) & (columns < x1) & (rows >= y0) & (rows < y1)

    for a in rectangles:
        for b in rectangles:
            expected = (inside(*a) & inside(*b)).sum() / (inside(*a) | inside(*b)).sum()
            one, other = (Box.from_corners(*corners, (100, 100)) for corners in (a, b))
            assert one.iou(other) == pytest.approx(expected)
            assert one.contains(other) == (not (inside(*b) & ~inside(*a)).any())


@given(st.lists(BOXES, max_size=8), st.floats(0.05, 0.95))
def test_distinct_boxes_overlap_no_more_than_they_may_and_stand_for_all(boxes, iou):
    kept = suppress_overlaps(boxes, iou)
    assert all(a.iou(b) <= iou for index, a in enumerate(kept) for b in kept[:index])
    assert all(box in kept or any(box.iou(other) > iou for other in kept) for box in boxes)
    assert list(kept) == [box for box in boxes if any(box is other for other in kept)]


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        ((float("nan"), 0.5, 0.1, 0.1), "holds a NaN or an infinity"),
        ((0.5, 0.5, float("inf"), 0.1), "holds a NaN or an infinity"),
        ((0.5, 0.5, 0.1, 0.1, float("nan")), "holds a NaN or an infinity"),
        ((0.5, 0.5, -0.1, 0.1), "has a negative size: give x0 < x1 and y0 < y1"),
    ],
)
def test_a_box_that_is_none_is_refused(numbers, says):
    with pytest.raises(ValueError, match=says):
        Box(*numbers)


def test_a_box_is_written_in_one_way_whatever_its_numbers_came_as():
    box = Box(0.5, 0.5, 1.0, 1.0, 1.0)
    kinds: list[Any] = [int, np.float32, np.float64, np.int64]
    for kind in kinds:
        converted = Box(0.5, 0.5, kind(1), kind(1), kind(1))
        assert converted == box
        assert {type(number) for number in (converted.cx, converted.cy, converted.w, converted.h, converted.score)} == {
            float
        }


@given(BOXES, BOXES)
def test_overlap_is_a_share_the_same_from_both_sides(a, b):
    assert 0 <= a.iou(b) <= 1 + 1e-9
    assert a.iou(b) == b.iou(a)
    if min(a.w, a.h) > 1e-4:  # of a picture's side: a pixel or so
        assert a.iou(a) == pytest.approx(1)
    if a.contains(b):
        assert a.area >= b.area - 1e-9
