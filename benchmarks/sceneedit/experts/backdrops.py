"""Tells what lies behind the things of a SceneEdit picture, by the colour that most of it and its rim have."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from ..words import BACKDROPS

Pixels = NDArray[np.uint8]
Floats = NDArray[np.float64]

_USUAL = {
    "sky": (170, 196, 222),
    "grass": (151, 183, 133),
    "sand": (213, 195, 159),
    "night": (69, 73, 104),
    "brick wall": (177, 140, 126),
    "water": (122, 160, 186),
    "snow": (226, 231, 235),
    "concrete": (153, 153, 151),
}
"""Medians of the red, green and blue of pictures without things, measured in even light."""

_SIDE = 64
"""Pixels: larger pictures are reduced to it."""
_RIM, _RIM_WEIGHT = 0.06, 2.0
"""Things stand in the middle: the rim, as wide as this share of the side, counts so often."""
_HUE = 0.014
"""How far the shares of red and green in a pixel (of a sum of 1) may lie from the usual ones."""
_LIGHT = 0.16
"""How far the logarithm of brightness may lie from the usual one: light changes that and not hue."""
_TAIL = 2.0
"""Likeness falls as (1 + d^2)^-tail, so slowly that a tinted picture is still like its backdrop the most."""
_CERTAIN = 3.0
"""Probabilities are in proportion to this power of the share of the picture that looks like a backdrop."""


def backdrop(pixels: Pixels) -> dict[str, float]:
    """The probability of each of `BACKDROPS` (they sum to 1) given a picture, H x W x 3 uint8 RGB.

    Right as long as more than about half of the picture is not covered by things. It knows colours in daylight, dim or
    bright; of textures it knows nothing, but that they vary around one colour.
    """
    if max(pixels.shape[:2]) > _SIDE:
        height, width = (max(1, round(side * _SIDE / max(pixels.shape[:2]))) for side in pixels.shape[:2])
        pixels = np.asarray(cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
    places = _places(pixels.reshape(-1, 3).astype(np.float64))
    away = np.square(places[:, None] - _PROTOTYPES).sum(-1)
    share = _weights(*pixels.shape[:2]) @ (1 + away) ** -_TAIL
    sure = share**_CERTAIN
    return {name: float(one) for name, one in zip(BACKDROPS, sure / sure.sum(), strict=True)}


def _weights(height: int, width: int) -> Floats:
    """height * width, with a sum of 1."""
    wide = max(1, round(_RIM * min(height, width)))
    weights = np.full((height, width), _RIM_WEIGHT)
    weights[wide:-wide, wide:-wide] = 1.0
    return np.asarray(weights.ravel() / weights.sum())


def _places(colours: Floats) -> Floats:
    """n x 3: what light leaves as it is (shares of red and green), and brightness, in units of what is usual."""
    total = colours.sum(1) + 3.0
    return np.column_stack([(colours[:, :2] + 1.0) / total[:, None] / _HUE, np.log(total) / _LIGHT])


_PROTOTYPES = _places(np.array([_USUAL[name] for name in BACKDROPS], np.float64))
