"""Tiles cover an image within their bounds, and blending them restores it without seams."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from editcritic.reward.experts.upscalers import OVERLAP, Canvas, Tiling, min_tile_size

SIDES = st.integers(1, 900)


@given(st.tuples(SIDES, SIDES), st.integers(0, 200), st.sampled_from([1, 4, 8]))
def test_tiles_are_no_larger_than_asked_for_and_overlap_their_neighbours(size, more, align):
    side = min_tile_size(align) + more
    tiles = list(Tiling(size, side, align))
    for low, high in ((0, 2), (1, 3)):
        spans = sorted({(tile[low], tile[high]) for tile in tiles})
        assert spans[0][0] == 0
        assert spans[-1][1] == size[low]
        assert all(start % align == 0 and 0 < end - start <= side for start, end in spans)
        assert all(before[1] - after[0] == OVERLAP for before, after in itertools.pairwise(spans))
        assert all(before[1] <= after[0] for before, after in zip(spans, spans[2:], strict=False))
    assert len(tiles) == len(set(tiles))


@settings(max_examples=30)
@given(st.tuples(st.integers(1, 400), st.integers(1, 400)), st.sampled_from([1, 2, 4]), st.sampled_from([1, 8]))
def test_a_picture_cut_into_tiles_is_put_together_again(size, factor, align):
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3)).astype(np.uint8)
    larger = pixels.repeat(factor, 0).repeat(factor, 1)
    canvas = Canvas(size, factor)
    for x0, y0, x1, y1 in Tiling(size, 128, align):
        part = larger[y0 * factor : y1 * factor, x0 * factor : x1 * factor]
        canvas.add_tile((x0, y0, x1, y1), part.astype(np.float32) / np.float32(255))
    assert canvas.is_finite
    assert np.array_equal(canvas.pixels(), larger)


def test_what_a_model_makes_up_at_the_rim_of_a_tile_does_not_show():
    size = (300, 40)
    canvas = Canvas(size, 2)
    for x0, y0, x1, y1 in Tiling(size, 128):
        values = np.full(((y1 - y0) * 2, (x1 - x0) * 2, 3), 0.5, np.float32)
        values[:, : OVERLAP // 2 if x0 else 0] = 1.0  # in pixels of the enlarged image: a quarter of the overlap
        values[:, values.shape[1] - (OVERLAP // 2 if x1 < 300 else 0) :] = 0.0
        canvas.add_tile((x0, y0, x1, y1), values)
    assert np.unique(canvas.pixels()).tolist() == [128]


def test_overshooting_is_cut_and_what_is_no_number_is_noticed():
    canvas = Canvas((1, 1), 2)
    canvas.add_tile((0, 0, 1, 1), np.full((2, 2, 3), 1.7, np.float32))
    assert (canvas.pixels() == 255).all()
    canvas.add_tile((0, 0, 1, 1), np.full((2, 2, 3), np.nan, np.float32))
    assert not canvas.is_finite


def test_a_side_that_is_all_overlap_is_refused():
    with pytest.raises(ValueError, match="a tile has a side of 104 pixels or more, got 103"):
        Tiling((10, 10), 103, 8)
