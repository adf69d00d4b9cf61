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

_SIDE = 32
"""Pixels: larger pictures are reduced to it, which averages noise."""
_RIM, _RIM_WEIGHT = 0.06, 2.0
"""Things stand in the middle: the rim, as wide as this share of the side, counts so often."""
_GAINS = np.geomspace(0.6, 1.7, 14)
"""Light in which each backdrop is looked for: bright light clips, and what is clipped has another hue."""
_DAYLIGHT = 0.35
"""How far the logarithm of the light's gain usually lies from that of even light."""
_HUE = 0.005
"""How far the shares of red and green in a pixel (of a sum of 1) may lie from those of the backdrop in that light."""
_LIGHT = 0.1
"""How far the logarithm of its brightness may."""
_TAIL = 2.0
"""Likeness falls as (1 + d^2)^-tail, so slowly that a tinted picture is still like its backdrop the most."""
_CERTAIN = 3.0
"""Probabilities are in proportion to this power of the share of the picture that looks like a backdrop."""


def backdrop(pixels: Pixels) -> dict[str, float]:
    """The probability of each of `BACKDROPS` (they sum to 1) given a picture, H x W x 3 uint8 RGB.

    Right as long as more than about half of the picture is not covered by things. It knows backdrops by their colour in
    any light, not by their texture: a tinted one may pass for another, and what light has clipped to white for snow.
    """
    if max(pixels.shape[:2]) > _SIDE:
        height, width = (max(1, round(side * _SIDE / max(pixels.shape[:2]))) for side in pixels.shape[:2])
        pixels = np.asarray(cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
    places = _places(pixels.reshape(-1, 3).astype(np.float64))
    away = np.square(places).sum(1)[:, None] + _SQUARES - 2 * (places @ _PROTOTYPES.T)
    nearest = np.maximum(away, 0.0).reshape(len(places), len(BACKDROPS), -1).min(2)
    share = _weights(*pixels.shape[:2]) @ (1 + nearest) ** -_TAIL
    sure = share**_CERTAIN
    return {name: float(one) for name, one in zip(BACKDROPS, sure / sure.sum(), strict=True)}


def _weights(height: int, width: int) -> Floats:
    """height * width, with a sum of 1."""
    wide = max(1, round(_RIM * min(height, width)))
    weights = np.full((height, width), _RIM_WEIGHT)
    weights[wide:-wide, wide:-wide] = 1.0
    return np.asarray(weights.ravel() / weights.sum())


def _places(colours: Floats) -> Floats:
    """n x 3: what light leaves as it is (shares of red and green), and brightness; in units of `_HUE` and `_LIGHT`."""
    total = colours.sum(1) + 3.0
    return np.column_stack([(colours[:, :2] + 1.0) / total[:, None] / _HUE, np.log(total) / _LIGHT])


_lit = np.minimum(np.array([_USUAL[name] for name in BACKDROPS])[:, None] * _GAINS[:, None], 255.0).reshape(-1, 3)
_PROTOTYPES = _places(_lit)
_SQUARES = np.square(_PROTOTYPES).sum(1) + np.tile(np.square(np.log(_GAINS) / _DAYLIGHT), len(BACKDROPS))
