"""ScenePreference: visual quality by plain measurements. It stands in for a preference model."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from ....reward import Expert
from ....reward.queries import Abstention, Measurement, Rate
from ....reward.queries.kinds import Outcome

Pixels = NDArray[np.uint8]

_STEEPEST = 99.0
"""Percentile of gradients that counts as edges."""
_FAINT, _DARK = 1.0, 16.0
"""Grey levels added to the steepest gradient and to the mean, so that a black image counts as blank."""
_NOISE = 8.0
"""Grey levels of noise that cost one point."""
_CLIPPED = 6.0
"""Points that full clipping costs."""


_CLEAN, _GRAINY = 2.5, 8.0
"""Noise in the hue, in grey levels, up to which an image is clean, and the excess that halves its quality."""
_PLAIN = 15.0
"""Spread, in grey levels, below which quality falls."""


class ScenePreference(Expert):
    """Answers `Rate` for any prompt: it ignores content and beauty.

    `preference`: `quality`. On the scales of the raters it stands in for: `visual_quality` as `image quality` from 1 to
    5 and as `aesthetics` from 0 to 100. Abstains on other qualities.
    """

    id = "scene-preference@2"
    kinds = (Rate,)

    def __call__(self, queries: Sequence[Rate]) -> list[Outcome]:
        return [_rated(query) for query in queries]


def _rated(query: Rate) -> Measurement | Abstention:
    match query.quality:
        case "preference":
            return Measurement(quality(query.image.pixels))
        case "image quality":
            return Measurement(1 + 4 * visual_quality(query.image.pixels))
        case "aesthetics":
            return Measurement(100 * visual_quality(query.image.pixels))
        case other:
            return Abstention(
                f"a scene preference cannot rate {other!r}: it knows preference, image quality, aesthetics"
            )


def visual_quality(pixels: Pixels) -> float:
    """Visual quality in [0, 1]: the product of factors for noise, fading and clipping.

    Unlike `quality` it compares images of any content: noise is measured in the hue, which textures do not change.
    """
    planes = pixels.astype(np.float64)
    hues = [(planes[..., a] - planes[..., b]) / np.sqrt(2) for a, b in ((0, 1), (1, 2))]
    noise = max(0.0, max(map(_sigma, hues)) - _CLEAN) / _GRAINY
    contrast = float(cv2.GaussianBlur(pixels, (0, 0), 1.0).std(axis=(0, 1)).max())
    clipped = float((pixels >= 254).all(axis=2).mean())
    return min(1.0, contrast / _PLAIN) * (1 - clipped) / (1 + noise**2)


def quality(pixels: Pixels) -> float:
    """Sharpness - noise - clipping of an image, H x W x 3 uint8 RGB. Higher is better; without bounds.

    sharpness: log2 of the steepest step from pixel to pixel (99th percentile) plus 1 over the mean luminance plus 16; a
    blank image has the least, -4 and below. noise: log2 of 1 + (sigma / 8)^2, where sigma is estimated from the
    median second difference (Immerkaer 1996). clipping: 6 times the share of channel values of 254 and more. All in
    grey levels of 0 to 255. Only numbers of images of one size and like content compare.
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
    """Standard deviation of pixel noise; fine texture counts as noise."""
    kernel = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]], np.float64)
    second = np.abs(cv2.filter2D(luminance, cv2.CV_64F, kernel, borderType=cv2.BORDER_REFLECT_101))
    # The kernel scales sigma by 6; the median of a normal variable's absolute value is 0.6745 sigma.
    return float(np.median(second)) / (6 * 0.6745)
