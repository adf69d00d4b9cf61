"""ScenePreference: how good a picture is as a picture, by plain measurements. It stands in for a preference model."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from ....reward import Expert, Measured, Rate

Pixels = NDArray[np.uint8]

_STEEPEST = 99.0
"""Percentile: the steepest places of a picture are its edges."""
_FAINT, _DARK = 1.0, 16.0
"""Grey levels added to the steepest step and to the mean, so that a black picture is a blank one."""
_NOISE = 8.0
"""Grey levels of noise that take one point."""
_CLIPPED = 6.0
"""Points that a wholly clipped picture loses."""


class ScenePreference(Expert):
    """Answers `Rate` with the number of `quality`, whatever the prompt says: it knows no content and no beauty."""

    id = "scene-preference@1"
    kinds = (Rate,)

    def __call__(self, queries: Sequence[Rate]) -> list[Measured]:
        return [Measured(quality(query.image.pixels)) for query in queries]


def quality(pixels: Pixels) -> float:
    """Sharpness - noise - clipping of a picture, H x W x 3 uint8 RGB. Higher is better; without bounds.

    sharpness: log2 of the steepest step from pixel to pixel (99th percentile) plus 1 over the mean luminance plus 16; a
    blank picture has the least, -4 and below. noise: log2 of 1 + (sigma / 8)^2, where sigma is estimated from the
    median second difference (Immerkaer 1996). clipping: 6 times the share of channel values of 254 and more. All in
    grey levels of 0 to 255. Only numbers of pictures of one size and like content compare.
    """
    luminance = pixels @ np.array([0.299, 0.587, 0.114])
    sharpness = np.log2((_steepest(pixels.astype(np.float64)) + _FAINT) / (luminance.mean() + _DARK))
    noise = np.log2(1 + (_sigma(luminance) / _NOISE) ** 2)
    clipping = _CLIPPED * (pixels >= 254).mean()
    return float(sharpness - noise - clipping)


def _steepest(colour: NDArray[np.float64]) -> float:
    wide = np.pad(colour, ((0, 1), (0, 1), (0, 0)), mode="edge")
    step = np.maximum(np.abs(wide[:-1, 1:] - colour), np.abs(wide[1:, :-1] - colour)).mean(2)
    return float(np.percentile(step, _STEEPEST))


def _sigma(luminance: NDArray[np.float64]) -> float:
    """Of noise that differs from pixel to pixel; fine texture counts as noise."""
    kernel = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]], np.float64)
    second = np.abs(cv2.filter2D(luminance, cv2.CV_64F, kernel, borderType=cv2.BORDER_REFLECT_101))
    # The kernel makes sigma 6 times as large; the median of a normal variable's size is 0.6745 sigma.
    return float(np.median(second)) / (6 * 0.6745)
