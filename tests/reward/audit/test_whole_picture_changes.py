"""Changes of a whole picture: what they do, that amounts of nothing do nothing, and that arguments stay as they are."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache

import numpy as np
import PIL.Image
import pytest

from editcritic.benchmarks.demo.candidate_edits import demo_tasks
from editcritic.reward.audit import whole_picture_changes as changes
from editcritic.reward.audit.families.words import labelled, strip
from editcritic.reward.image import Pixels


@cache
def photograph() -> Pixels:
    pixels = demo_tasks()[0].pixels.copy()
    pixels.setflags(write=False)
    return pixels


@pytest.mark.parametrize(
    "change",
    [
        lambda pixels: changes.resized(pixels, 1.0),
        lambda pixels: changes.moved(pixels, 1.0, 0.0, 0.0),
        lambda pixels: changes.scaled(pixels, 1.0),
        lambda pixels: changes.contrasted(pixels, 1.0),
        lambda pixels: changes.with_cast(pixels, (0, 0, 0)),
        lambda pixels: changes.saturated(pixels, 1.0),
        lambda pixels: changes.sharpened(pixels, 0.0, 1.5),
        lambda pixels: changes.noisy(pixels, 0.0, np.random.default_rng(0)),
        lambda pixels: changes.gridded(pixels, 0.0, 8),
        lambda pixels: changes.mapped(pixels, np.arange(256, dtype=np.uint8)),
    ],
)
def test_an_amount_of_nothing_changes_nothing(change: Callable[[Pixels], Pixels]) -> None:
    changed = change(photograph())
    assert changed.dtype == np.uint8
    assert np.array_equal(changed, photograph())


def test_values_are_rounded_half_up_and_clipped():
    assert changes.clipped(np.array([-3.0, 0.49, 0.5, 1.5, 254.5, 300.0])).tolist() == [0, 0, 1, 2, 255, 255]
    levels = np.array([[[10, 100, 200]]], np.uint8)
    assert changes.scaled(levels, 1.5).tolist() == [[[15, 150, 255]]]
    assert changes.contrasted(levels, 0.5).tolist() == [[[69, 114, 164]]]
    assert changes.with_cast(levels, (-20, 5, 60)).tolist() == [[[0, 105, 255]]]
    assert changes.saturated(levels, 0.0).tolist() == [[[103, 103, 103]]]
    assert changes.saturated(levels, 2.0).tolist() == [[[0, 97, 255]]]
    grid = changes.gridded(np.zeros((9, 13, 3), np.uint8), 40, 4)[..., 0]
    assert np.flatnonzero(grid[1]).tolist() == [0, 4, 8, 12]
    assert np.flatnonzero(grid[:, 1]).tolist() == [0, 4, 8]
    assert grid[4, 4] == 80


@pytest.mark.parametrize("quality", [3, 30, 85, 98])
def test_a_picture_is_compressed_as_pillow_does_it(quality: int) -> None:
    """Two builds of one codec: rounding may differ, colours and blocks may not."""
    file = io.BytesIO()
    PIL.Image.fromarray(photograph()).save(file, "JPEG", quality=quality)
    theirs = np.asarray(PIL.Image.open(file)).astype(np.int16)
    assert np.abs(changes.jpeg(photograph(), quality) - theirs).mean() < 0.2


@pytest.mark.parametrize("size", [(1, 1), (1, 40), (40, 1), (8, 8), (33, 1000), (512, 512)])
def test_any_size_can_be_compressed_resized_and_written_on(size: tuple[int, int]) -> None:
    pixels = np.full((*size, 3), 90, np.uint8)
    written = labelled(pixels, "Score: 10", strip(pixels, 0.16, top=True))
    for changed in (changes.jpeg(pixels, 20), changes.resized(pixels, 0.3), written):
        assert changed.shape == pixels.shape
        assert changed.dtype == np.uint8
    assert (pixels == 90).all()
