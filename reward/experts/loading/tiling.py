"""Splitting large images into overlapping tiles, which bounds a model's memory, and blending them without seams."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...image import Corners, Pixels, Size

OVERLAP = 32
"""Pixels that neighbouring tiles share. The outer quarter on each side is dropped, since padding affects it; over the
half between, the tiles are blended."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Tiling:
    """Tiles of an image of `size` (width, height), `tile_size` pixels a side or fewer.

    align: tiles begin at multiples of this many pixels, for models with a fixed grid of windows. Raises ValueError for
    a tile_size that is too small for the overlap.
    """

    size: Size
    tile_size: int
    align: int = 1

    def __post_init__(self) -> None:
        if self.tile_size < min_tile_size(self.align):
            raise ValueError(f"a tile has a side of {min_tile_size(self.align)} pixels or more, got {self.tile_size}")

    def __iter__(self) -> Iterator[Corners]:
        for y0, y1 in self._spans(self.size[1]):
            for x0, x1 in self._spans(self.size[0]):
                yield x0, y0, x1, y1

    def _spans(self, length: int) -> list[tuple[int, int]]:
        """As few as possible, of sizes as equal as the grid allows."""
        if length <= self.tile_size:
            return [(0, length)]
        max_step = (self.tile_size - OVERLAP) // self.align * self.align
        count = math.ceil((length - OVERLAP) / max_step)
        step = math.ceil((length - OVERLAP) / count / self.align) * self.align
        return [(x, min(x + step + OVERLAP, length)) for x in range(0, length - OVERLAP, step)]


class Canvas:
    """The output image, `factor` times as large as `size`, blended from enlarged tiles."""

    def __init__(self, size: Size, factor: int) -> None:
        self._size = size
        self._factor = factor
        self._blended = np.zeros((size[1] * factor, size[0] * factor, 3), np.float32)

    def add_tile(self, corners: Corners, values: Floats) -> None:
        """values: of a tile, enlarged, rows x columns x 3."""
        x0, y0, x1, y1 = (side * self._factor for side in corners)
        width, height = (side * self._factor for side in self._size)
        down = self._weights(y1 - y0, y0 > 0, y1 < height)[:, None, None]
        across = self._weights(x1 - x0, x0 > 0, x1 < width)[None, :, None]
        self._blended[y0:y1, x0:x1] += values * down * across

    def _weights(self, length: int, before: bool, after: bool) -> Floats:
        """Blending weights along one side, in [0, 1]: lower towards a neighbour `before` or `after`."""
        shared = OVERLAP * self._factor
        rising = np.clip(((np.arange(shared) + 0.5) / shared - 0.25) * 2, 0, 1).astype(np.float32)
        weights = np.ones(length, np.float32)
        if before:
            weights[:shared] *= rising
        if after:
            weights[-shared:] *= rising[::-1]
        return weights

    @property
    def is_finite(self) -> bool:
        """Whether all values are finite."""
        return bool(np.isfinite(self._blended).all())

    def pixels(self) -> Pixels:
        """The image as uint8; values are clipped to [0, 1]."""
        return (np.clip(self._blended, 0, 1) * 255 + 0.5).astype(np.uint8)


def min_tile_size(align: int = 1) -> int:
    """Pixels. With less, a tile could overlap its next but one neighbour, and weights would not sum to one."""
    return OVERLAP * 3 + align
