"""Operations that derive an image: crop, resize, turn, tilt, paint, outline, side by side, paste, contrast."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import cv2
import numpy as np
import PIL.Image

from .image_decoding import Pixels

ImageOperation = tuple[Any, ...]
"""A name and plain values: serializable as JSON."""
Canvas = Literal["same", "expanded", "filled"]
"""Of a rotated picture: of the same size, so large that nothing is cut, or with an enlarged content without corners."""
Colour = tuple[int, int, int]
WHITE: Colour = (255, 255, 255)
RED: Colour = (255, 0, 0)
_RESAMPLE = {"lanczos": PIL.Image.Resampling.LANCZOS, "bicubic": PIL.Image.Resampling.BICUBIC}
_LEAST_RANGE = 24  # levels that a stretched image has at least before: grain of an even surface stays grain
_SEAM = 3  # pixels at the border of a rotated picture that interpolation mixes with what is outside


def apply_operation(operation: ImageOperation, *parents: Pixels) -> Pixels:
    """Apply an operation to pixels. The result may share memory with them."""
    pixels = parents[0]
    match operation:
        case ("crop", x0, y0, x1, y1):
            return pixels[y0:y1, x0:x1]
        case ("resize", width, height, "area"):  # fast downscaling, for thumbnails
            return cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA).astype(np.uint8, copy=False)
        case ("resize", width, height, resample):
            return np.array(PIL.Image.fromarray(np.array(pixels)).resize((width, height), _RESAMPLE[resample]))
        case ("turn", mirrored, quarters):
            return np.ascontiguousarray(np.rot90(pixels[:, ::-1] if mirrored else pixels, -quarters))
        case ("tilt", degrees, width, height, scale):
            return _tilted(pixels, degrees, (width, height), scale)
        case ("paint", r, g, b, *corners):
            painted = pixels.copy()
            for x0, y0, x1, y1 in _areas(corners, pixels):
                painted[y0:y1, x0:x1] = (r, g, b)
            return painted
        case ("outline", width, r, g, b, *corners):
            outlined = pixels.copy()
            for x0, y0, x1, y1 in _areas(corners, pixels):
                inside = outlined[y0:y1, x0:x1]
                for edge in (inside[:width], inside[-width:], inside[:, :width], inside[:, -width:]):
                    edge[:] = (r, g, b)
            return outlined
        case ("beside", line, r, g, b, _):
            separator = np.full((pixels.shape[0], line, 3), (r, g, b), np.uint8)
            return np.concatenate([pixels, separator, parents[1]], axis=1)
        case ("paste", x, y, _):
            pasted, part = pixels.copy(), parents[1]
            pasted[y : y + part.shape[0], x : x + part.shape[1]] = part
            return pasted
        case ("stretch", quantile):
            low, high = np.quantile(pixels, (quantile, 1 - quantile))
            levels = (np.arange(256) - low) * (255 / max(high - low, _LEAST_RANGE))
            return np.asarray(np.clip(np.round(levels), 0, 255).astype(np.uint8)[pixels], np.uint8)
        case _:
            raise AssertionError(f"unknown image operation {operation}")


def _tilted(pixels: Pixels, degrees: float, size: tuple[int, int], scale: float) -> Pixels:
    height, width = pixels.shape[:2]
    middle = ((width - 1) / 2, (height - 1) / 2)
    warp = cv2.getRotationMatrix2D(middle, -degrees, scale)
    warp[:, 2] += ((size[0] - 1) / 2 - middle[0], (size[1] - 1) / 2 - middle[1])
    tilted = cv2.warpAffine(
        pixels, warp, size, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_CONSTANT, borderValue=WHITE
    )
    return np.asarray(tilted, np.uint8)


def tilted_size(width: int, height: int, degrees: float, canvas: Canvas) -> tuple[tuple[int, int], float]:
    """(width, height) of a picture after a rotation, and the scale of its content, see `Image.tilted`."""
    angle = math.radians(degrees)
    cos, sin = abs(math.cos(angle)), abs(math.sin(angle))
    across, down = width * cos + height * sin, width * sin + height * cos
    match canvas:
        case "same":
            return (width, height), 1.0
        case "expanded":
            return (max(1, round(across)), max(1, round(down))), 1.0
        case "filled":
            return (width, height), max(across / width, down / height) * (1 + _SEAM / min(width, height))


def _areas(corners: Sequence[int], pixels: Pixels) -> Iterator[tuple[int, int, int, int]]:
    """Areas, four numbers each, clipped to the image; empty ones are left out."""
    height, width = pixels.shape[:2]
    for x0, y0, x1, y1 in zip(*(iter(corners),) * 4, strict=True):
        x0, y0, x1, y1 = max(x0, 0), max(y0, 0), min(x1, width), min(y1, height)
        if x0 < x1 and y0 < y1:
            yield x0, y0, x1, y1
