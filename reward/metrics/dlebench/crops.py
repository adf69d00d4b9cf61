"""Parts of a picture: as much around an object as its size asks for, and enlarged where they are small."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..asking import Asks, ask_each
from ..boxes import Box
from ..image import Corners, Image, Size
from ..query import Upscale

Context = str | float
"""How much of the surroundings a crop has: `adaptive`, or a factor of the box's sides."""

_MOST, _LEAST = 6.0, 0.3
_SMALL, _LARGE = 32, 256
_EXACT = 1e-6
"""Pixels: boxes are kept as fractions, and the way there and back must not move a corner."""

LONGEST = 4096
"""Pixels: crops that would be longer than this after enlarging are shown as they are."""

FACTOR = 4
"""Of the enhancer, pixels a side (Real-ESRGAN's own)."""


def check_context(context: Context) -> None:
    """Raise ValueError for a context that means nothing."""
    if context == "adaptive" or (isinstance(context, float | int) and math.isfinite(context) and context >= 0):
        return
    raise ValueError(f"context is `adaptive` or a factor of the box's sides, 0 or more, got {context!r}")


def growth(shorter: float, context: Context = "adaptive") -> float:
    """By how many times its own sides a box is enlarged whose shorter side has so many pixels (paper, Eq. 1).

    6.0 up to 32 pixels, 0.3 from 256 pixels on, linear between.
    """
    if isinstance(context, float | int):
        return float(context)
    share = min(max((shorter - _SMALL) / (_LARGE - _SMALL), 0.0), 1.0)
    return (1 - share) * _MOST + share * _LEAST


def pixels_of(box: Box, size: Size) -> Corners | None:
    """The pixels that a box touches, at least one; None for a box outside of the picture."""
    width, height = size
    x0, y0 = math.floor(box.x0 * width + _EXACT), math.floor(box.y0 * height + _EXACT)
    x1, y1 = math.ceil(box.x1 * width - _EXACT), math.ceil(box.y1 * height - _EXACT)
    x0, y0, x1, y1 = max(x0, 0), max(y0, 0), min(max(x1, x0 + 1), width), min(max(y1, y0 + 1), height)
    return (x0, y0, x1, y1) if x0 < x1 and y0 < y1 else None


def around(corners: Corners, size: Size, context: Context = "adaptive") -> Corners:
    """The corners of a crop: the box grown by `growth`, half of it to each side, and cut at the picture's border.

    The paper names an expansion ratio and not where it goes; that it adds to the box's own sides is our reading.
    """
    x0, y0, x1, y1 = corners
    factor = growth(min(x1 - x0, y1 - y0), context)
    across, down = factor * (x1 - x0) / 2, factor * (y1 - y0) / 2
    return (
        max(math.floor(x0 - across + _EXACT), 0),
        max(math.floor(y0 - down + _EXACT), 0),
        min(math.ceil(x1 + across - _EXACT), size[0]),
        min(math.ceil(y1 + down - _EXACT), size[1]),
    )


def is_small(crop: Image, below: int) -> bool:
    """Whether a crop is enlarged: its shorter side is under `below` pixels, and it does not get longer than 4096."""
    return min(crop.size) < below and max(crop.size) * FACTOR <= LONGEST


def enlarged(crops: Sequence[Image], below: int) -> Asks[tuple[Image, ...]]:
    """The crops, the small ones of them four times as large, by the enhancer."""
    small = [crop for crop in crops if is_small(crop, below)]
    answers = yield from ask_each([Upscale(crop, FACTOR) for crop in small])
    larger = dict(zip(small, (answer.image for answer in answers), strict=True))
    return tuple(larger.get(crop, crop) for crop in crops)
