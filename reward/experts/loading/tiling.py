"""Big pictures in overlapping tiles, so that a model's memory is bounded, and put together without seams."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..image import Corners, Pixels, Size

OVERLAP = 32
"""Pixels that neighbours share. The outer quarter of them on each side is thrown away, since a model pads what it does
not see; over the half between, one tile fades into the other."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Tiling:
    """Tiles of a picture of `size` (width, height), `side` pixels a side or fewer.

    align: they begin at multiples of so many pixels, for models that look at a picture through a fixed grid of windows.
    Raises ValueError for a side that leaves nothing beside the overlap.
    """

    size: Size
    side: int
    align: int = 1

    def __post_init__(self) -> None:
        if self.side < least_side(self.align):
            raise ValueError(f"a tile has a side of {least_side(self.align)} pixels or more, got {self.side}")

    def __iter__(self) -> Iterator[Corners]:
        for y0, y1 in self._spans(self.size[1]):
            for x0, x1 in self._spans(self.size[0]):
                yield x0, y0, x1, y1

    def _spans(self, length: int) -> list[tuple[int, int]]:
        """As few as there can be, and as equal as the grid lets them."""
        if length <= self.side:
            return [(0, length)]
        most = (self.side - OVERLAP) // self.align * self.align
        count = math.ceil((length - OVERLAP) / most)
        step = math.ceil((length - OVERLAP) / count / self.align) * self.align
        return [(x, min(x + step + OVERLAP, length)) for x in range(0, length - OVERLAP, step)]


class Canvas:
    """A picture `factor` times as large as `size`, made of what a model makes of the tiles of a picture of `size`."""

    def __init__(self, size: Size, factor: int) -> None:
        self._size = size
        self._factor = factor
        self._laid = np.zeros((size[1] * factor, size[0] * factor, 3), np.float32)

    def lay(self, corners: Corners, values: Floats) -> None:
        """values: of a tile, enlarged, rows x columns x 3."""
        x0, y0, x1, y1 = (side * self._factor for side in corners)
        width, height = (side * self._factor for side in self._size)
        down = self._weights(y1 - y0, y0 > 0, y1 < height)[:, None, None]
        across = self._weights(x1 - x0, x0 > 0, x1 < width)[None, :, None]
        self._laid[y0:y1, x0:x1] += values * down * across

    def _weights(self, length: int, before: bool, after: bool) -> Floats:
        """What a tile counts along one side, in [0, 1]: less where there is a neighbour `before` or `after` it."""
        shared = OVERLAP * self._factor
        rising = np.clip(((np.arange(shared) + 0.5) / shared - 0.25) * 2, 0, 1).astype(np.float32)
        weights = np.ones(length, np.float32)
        if before:
            weights[:shared] *= rising
        if after:
            weights[-shared:] *= rising[::-1]
        return weights

    @property
    def sound(self) -> bool:
        """Whether all that was laid are numbers."""
        return bool(np.isfinite(self._laid).all())

    def pixels(self) -> Pixels:
        """Rounded to whole numbers; what lies outside of [0, 1] is cut."""
        return (np.clip(self._laid, 0, 1) * 255 + 0.5).astype(np.uint8)


def least_side(align: int = 1) -> int:
    """Pixels. With less, a tile could overlap with its neighbour's neighbour, and weights would not sum to one."""
    return OVERLAP * 3 + align
