"""Classifies the backdrop of a SceneEdit image by the colour of most of it and of its rim."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from ..vocabulary import BACKDROPS

Pixels = NDArray[np.uint8]
Floats = NDArray[np.float64]

_MEDIAN_RGB = {
    "sky": (170, 196, 222),
    "grass": (151, 183, 133),
    "sand": (213, 195, 159),
    "night": (69, 73, 104),
    "brick wall": (177, 140, 126),
    "water": (122, 160, 186),
    "snow": (226, 231, 235),
    "concrete": (153, 153, 151),
}
"""Median red, green and blue of images without objects, in even light."""

_SIDE = 32
"""Pixels: larger images are resized to it, which averages noise."""
_RIM, _RIM_WEIGHT = 0.06, 2.0
"""Width of the rim, as a share of the side, and its weight: objects are mostly in the middle."""
_GAINS = np.geomspace(0.6, 1.7, 14)
"""Gains at which each backdrop is matched: bright light clips, and clipped colours have another hue."""
_LOG_GAIN_SIGMA = 0.35
"""Standard deviation of the logarithm of the light's gain."""
_HUE = 0.005
"""Scale of the deviation of a pixel's shares of red and green (of a sum of 1) from the backdrop's in that light."""
_LIGHT = 0.1
"""Scale of the deviation of the logarithm of its brightness."""
_TAIL = 2.0
"""Similarity falls as (1 + d^2)^-tail, slowly enough for a tinted image to match its own backdrop best."""
_CERTAIN = 3.0
"""Probabilities are proportional to this power of the share of the image that looks like a backdrop."""


def classify_backdrop(pixels: Pixels) -> dict[str, float]:
    """The probability of each of `BACKDROPS` (they sum to 1) for an image, H x W x 3 uint8 RGB.

    Right as long as objects cover less than about half of the image. Backdrops are recognised by their colour in any
    light, not by their texture: a tinted one may pass for another, and a clipped white one for snow.
    """
    if max(pixels.shape[:2]) > _SIDE:
        height, width = (max(1, round(side * _SIDE / max(pixels.shape[:2]))) for side in pixels.shape[:2])
        pixels = np.asarray(cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
    features = _colour_features(pixels.reshape(-1, 3).astype(np.float64))
    distances = np.square(features).sum(1)[:, None] + _SQUARES - 2 * (features @ _PROTOTYPES.T)
    nearest = np.maximum(distances, 0.0).reshape(len(features), len(BACKDROPS), -1).min(2)
    share = _weights(*pixels.shape[:2]) @ (1 + nearest) ** -_TAIL
    powered = share**_CERTAIN
    return {name: float(probability) for name, probability in zip(BACKDROPS, powered / powered.sum(), strict=True)}


def _weights(height: int, width: int) -> Floats:
    """height * width, with a sum of 1."""
    wide = max(1, round(_RIM * min(height, width)))
    weights = np.full((height, width), _RIM_WEIGHT)
    weights[wide:-wide, wide:-wide] = 1.0
    return np.asarray(weights.ravel() / weights.sum())


def _colour_features(colours: Floats) -> Floats:
    """n x 3: shares of red and green, which light does not change, in units of `_HUE`; log brightness, of `_LIGHT`."""
    total = colours.sum(1) + 3.0
    return np.column_stack([(colours[:, :2] + 1.0) / total[:, None] / _HUE, np.log(total) / _LIGHT])


_lit = np.minimum(np.array([_MEDIAN_RGB[name] for name in BACKDROPS])[:, None] * _GAINS[:, None], 255.0).reshape(-1, 3)
_PROTOTYPES = _colour_features(_lit)
_SQUARES = np.square(_PROTOTYPES).sum(1) + np.tile(np.square(np.log(_GAINS) / _LOG_GAIN_SIGMA), len(BACKDROPS))
