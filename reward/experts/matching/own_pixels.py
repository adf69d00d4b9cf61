"""Which pixels of a box are the object's own, from the source alone: those that are unlike what is around the box."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Plane = NDArray[np.float32]
Corners = tuple[int, int, int, int]

_LIGHTNESS = 0.6
"""Weight of lightness beside a* and b*: shade changes it most."""
_BLUR = 8.0
"""CIE L*a*b* distance over which one colour becomes another."""
_REACH = 0.5
"""Of the box's side (root of its area): how far from a pixel its surroundings count."""
_ALIKE = (0.03, 0.2)
"""A pixel belongs a little to the surroundings if 3 % of those near it look like it, and entirely at 20 %."""
_SAMPLES = 400
_FEWEST = 20
"""Pixels around a box, below which nothing is known of its surroundings, and all of the box is the object's."""


def own_pixels(lab: Plane, box: Corners) -> Plane:
    """H x W in [0, 1]: how much each pixel of an image (H x W x 3, CIE L*a*b*) belongs to the object in a box.

    box: x0, y0, x1, y1 in pixels; 0 outside of it. The image is a cut-out that shows what is around the box. Colours
    are compared with those around the box, nearer ones more: a thin object in a wide box is found, and what continues
    around it (a face behind glasses) is not its own.
    """
    x0, y0, x1, y1 = box
    inside = np.zeros(lab.shape[:2], bool)
    inside[y0:y1, x0:x1] = True
    own = inside.astype(np.float32)
    around = np.argwhere(~inside)
    if len(around) < _FEWEST or not inside.any():
        return own
    around = around[:: max(1, len(around) // _SAMPLES)]
    colours = lab * np.array([_LIGHTNESS, 1, 1], np.float32)
    near = _kernel(np.argwhere(inside), around, _REACH * float(np.sqrt((x1 - x0) * (y1 - y0))))
    alike = _kernel(colours[inside], colours[tuple(around.T)], _BLUR)
    share = (near * alike).sum(1) / np.maximum(near.sum(1), 1e-9)
    low, high = _ALIKE
    t = np.clip((share - low) / (high - low), 0, 1)
    own[inside] = 1 - t * t * (3 - 2 * t)
    return own


def _kernel(first: NDArray[np.generic], second: NDArray[np.generic], spread: float) -> Plane:
    """n x m: exp(-d^2 / (2 spread^2)) of the distances of points."""
    a, b = first.astype(np.float32), second.astype(np.float32)
    squares = (a * a).sum(1)[:, None] + (b * b).sum(1) - 2 * (a @ b.T)
    return np.asarray(np.exp(np.maximum(squares, 0) * (-0.5 / spread**2)), np.float32)
