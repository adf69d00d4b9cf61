"""What of an edit a change of tone or of focus explains: the picture that the source becomes by it alone.

A change of tone is another saturation and a rising curve for each channel: brightness, contrast, casts, grey. A change
of focus is a blur of one width, of the source or of the edit. Both are fitted to what most pixels show, so that what is
painted over a part of the picture stays unexplained.
"""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from ...image import Pixels

Plane = NDArray[np.float32]

_SIDE = 256
"""Pixels of the longer side at which a tone is fitted."""
_KNOTS = 48
"""Of a curve, each of as many pixels."""
_WIDTHS = (0.0, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0, 11.0, 16.0)
"""Standard deviations of blurs that are tried, in pixels of a longer side of 512; a misfit falls, and then rises."""
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)


def with_tone_of(before: Pixels, after: Pixels, free: NDArray[np.bool_]) -> Pixels:
    """The first picture with the tone of the second (both H x W x 3), as fitted to the pixels in `free` (H x W)."""
    height, width = before.shape[:2]
    ratio = min(1.0, _SIDE / max(height, width))
    size = (max(1, round(width * ratio)), max(1, round(height * ratio)))
    old, new = (cv2.blur(cv2.resize(part, size, interpolation=cv2.INTER_AREA), (3, 3)) for part in (before, after))
    used = cv2.resize(free.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST).astype(np.bool_)
    if not used.any():
        return before
    x, y = old[used].astype(np.float32), new[used].astype(np.float32)
    first = _curves(x, y)
    curved = _through(first, x)
    fits = []
    for start, colours in ((None, x), (first, curved)):
        factor = _saturation(colours, y)
        saturated = _saturate(colours, factor)
        last = _curves(saturated, y)
        misfit = float(np.median(np.abs(_through(last, saturated) - y).sum(axis=1)))
        fits.append((misfit, start, factor, last))
    _, start, factor, last = min(fits, key=lambda fit: fit[0])
    flat = before.reshape(-1, 3).astype(np.float32)
    flat = flat if start is None else _through(start, flat)
    toned = _through(last, _saturate(flat, factor))
    return np.asarray(np.clip(toned + 0.5, 0, 255).astype(np.uint8).reshape(before.shape), np.uint8)


_Curve = tuple[Plane, Plane]


def _curves(x: Plane, y: Plane) -> list[_Curve]:
    """For each channel the rising curve through the medians of y, for equal parts of the pixels by x."""
    curves = []
    for channel in range(3):
        order = np.argsort(x[:, channel], kind="stable")
        parts = np.array_split(order, min(_KNOTS, order.size))
        knots = np.array([np.median(x[part, channel]) for part in parts], np.float32)
        values = np.array([np.median(y[part, channel]) for part in parts], np.float32)
        upper, lower = np.maximum.accumulate(values), np.minimum.accumulate(values[::-1])[::-1]
        knots, first = np.unique(knots, return_index=True)
        curves.append((knots, ((upper + lower) / 2)[first].astype(np.float32)))
    return curves


def _through(curves: list[_Curve], colours: Plane) -> Plane:
    """The colours (n x 3) through a curve each; beyond its ends a curve is a straight line as steep as a copy's."""
    passed = []
    for channel, (knots, values) in enumerate(curves):
        x = colours[:, channel]
        beyond = np.minimum(x - knots[0], 0) + np.maximum(x - knots[-1], 0)
        passed.append(np.interp(x, knots, values) + beyond)
    return np.clip(np.stack(passed, axis=1), 0, 255).astype(np.float32)


def _saturation(x: Plane, y: Plane) -> float:
    """The factor of the distance from grey, by least squares on the pixels that it explains best."""
    old, new = (colours - (colours @ _LUMA)[:, None] for colours in (x, y))
    old, new = old - np.median(old, axis=0), new - np.median(new, axis=0)
    kept = np.ones(len(x), np.bool_)
    factor = 1.0
    for _ in range(4):
        factor = float((old[kept] * new[kept]).sum() / ((old[kept] ** 2).sum() + 1.0))
        misfit = np.abs(new - factor * old).sum(axis=1)
        kept = misfit <= max(6.0, 3 * float(np.median(misfit)))
    return max(0.0, factor)


def _saturate(colours: Plane, factor: float) -> Plane:
    grey = (colours @ _LUMA)[:, None]
    return np.asarray(grey + np.float32(factor) * (colours - grey), np.float32)


def in_one_focus(before: Pixels, after: Pixels, free: NDArray[np.bool_]) -> tuple[Pixels, Pixels]:
    """Both pictures (H x W x 3) as sharp as the less sharp one of them, and a little less: kernels of blurs differ.

    free: H x W, the pixels that the widths are fitted to.
    """
    height, width = before.shape[:2]
    ratio = min(1.0, _FOCUS_SIDE / max(height, width))
    size = (max(1, round(width * ratio)), max(1, round(height * ratio)))
    old, new = (np.asarray(cv2.resize(part, size, interpolation=cv2.INTER_AREA), np.uint8) for part in (before, after))
    used = cv2.resize(free.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST).astype(np.bool_)
    if not used.any():
        return before, after
    is_sharpened = _sharpness(new, used) > _sharpness(old, used)
    sharp, soft = (new, old) if is_sharpened else (old, new)
    pixel = max(size) / _FOCUS_SIDE

    def misfit(width: float, border: int) -> float:
        return float(cv2.absdiff(_blurred(sharp, width * pixel, border), soft)[used].mean(dtype=np.float64))

    fitted, least = 0.0, math.inf
    for candidate in _WIDTHS:
        if (tried := misfit(candidate, _BORDERS[0])) > least:  # equal for blurs of less than a pixel
            break
        fitted, least = candidate, tried
    border = min(_BORDERS, key=lambda one: misfit(fitted, one))
    unit = max(height, width) / _FOCUS_SIDE
    own, common = fitted * unit, max(_LEAST_WIDTH, fitted) * unit
    before, after = (before, _blurred(after, own, border)) if is_sharpened else (_blurred(before, own, border), after)
    return _blurred(before, common, border), _blurred(after, common, border)


def _sharpness(pixels: Pixels, used: NDArray[np.bool_]) -> float:
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    return float(np.abs(cv2.Laplacian(grey, cv2.CV_32F))[used].mean(dtype=np.float64))


_BORDERS = (cv2.BORDER_REPLICATE, cv2.BORDER_REFLECT_101, cv2.BORDER_CONSTANT)
"""What programs take to lie beyond the border when they blur."""
_FOCUS_SIDE = 512
"""Pixels of the longer side at which a blur is fitted."""
_LEAST_WIDTH = 1.5
"""Standard deviation of the blur of both, at least, in pixels of that side."""


def _blurred(pixels: Pixels, width: float, border: int) -> Pixels:
    if width <= 0.1:
        return pixels
    return np.asarray(cv2.GaussianBlur(pixels, (0, 0), width, borderType=border), np.uint8)
