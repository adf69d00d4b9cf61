"""Crops around small objects: context that depends on the object's size, and upscaling of small crops."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...boxes import Box
from ...engine.program import Program, ask_many
from ...image import Corners, Image, Size
from ...queries.kinds import Upscale

Context = str | float
"""Context of a crop: `adaptive`, or a factor of the box's sides."""

_MOST, _LEAST = 6.0, 0.3
_SMALL, _LARGE = 32, 256
_EXACT = 1e-6
"""Pixels: boxes are stored as fractions, and the round trip must not move a corner."""

MAX_CROP_SIDE = 4096
"""Pixels: crops that would be longer than this after upscaling are not upscaled."""

UPSCALE_FACTOR = 4
"""Upscaling factor per side (that of Real-ESRGAN)."""


def check_context(context: Context) -> None:
    """Raise ValueError for an invalid context."""
    if context == "adaptive" or (isinstance(context, float | int) and math.isfinite(context) and context >= 0):
        return
    raise ValueError(f"context must be `adaptive` or a factor >= 0 of the box's sides, got {context!r}")


def context_factor(shorter: float, context: Context = "adaptive") -> float:
    """The expansion ratio of a box, in units of its sides, from its shorter side in pixels (paper, Eq. 1).

    6.0 up to 32 pixels, 0.3 from 256 pixels on, linear between.
    """
    if isinstance(context, float | int):
        return float(context)
    share = min(max((shorter - _SMALL) / (_LARGE - _SMALL), 0.0), 1.0)
    return (1 - share) * _MOST + share * _LEAST


def touched_pixels(box: Box, size: Size) -> Corners | None:
    """The pixels that a box touches, at least one; None for a box outside the image."""
    width, height = size
    x0, y0 = math.floor(box.x0 * width + _EXACT), math.floor(box.y0 * height + _EXACT)
    x1, y1 = math.ceil(box.x1 * width - _EXACT), math.ceil(box.y1 * height - _EXACT)
    x0, y0, x1, y1 = max(x0, 0), max(y0, 0), min(max(x1, x0 + 1), width), min(max(y1, y0 + 1), height)
    return (x0, y0, x1, y1) if x0 < x1 and y0 < y1 else None


def crop_corners(corners: Corners, size: Size, context: Context = "adaptive") -> Corners:
    """The corners of a crop: the box expanded by `context_factor`, half of it to each side, clipped to the image.

    The paper gives the expansion ratio only; adding it to the box's own sides is our reading.
    """
    x0, y0, x1, y1 = corners
    factor = context_factor(min(x1 - x0, y1 - y0), context)
    across, down = factor * (x1 - x0) / 2, factor * (y1 - y0) / 2
    return (
        max(math.floor(x0 - across + _EXACT), 0),
        max(math.floor(y0 - down + _EXACT), 0),
        min(math.ceil(x1 + across - _EXACT), size[0]),
        min(math.ceil(y1 + down - _EXACT), size[1]),
    )


def is_small(crop: Image, below: int) -> bool:
    """Whether a crop is upscaled: its shorter side is below `below` pixels, and the result not longer than 4096."""
    return min(crop.size) < below and max(crop.size) * UPSCALE_FACTOR <= MAX_CROP_SIDE


def enlarge_small_crops(crops: Sequence[Image], below: int) -> Program[tuple[Image, ...]]:
    """The crops, with the small ones upscaled by the enhancer."""
    small = [crop for crop in crops if is_small(crop, below)]
    answers = yield from ask_many([Upscale(crop, UPSCALE_FACTOR) for crop in small])
    larger = dict(zip(small, (answer.image for answer in answers), strict=True))
    return tuple(larger.get(crop, crop) for crop in crops)
