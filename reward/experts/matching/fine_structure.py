"""How much fine structure a picture has at each place: what resolution it really has, whatever its size."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

Plane = NDArray[np.float32]

_VISIBLE = 1.0
"""Grey levels, added before two amounts are compared: what cannot be seen is not lost."""
_WIDTHS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0, 1.2)
"""Standard deviations in pixels; less is no blur, and more is another focus."""


def fine_structure(pixels: Plane, grid: tuple[int, int]) -> Plane:
    """rows x columns: mean absolute Laplacian of an image (H x W x 3, 0 to 255) in grey levels."""
    grey = cv2.cvtColor(np.asarray(pixels, np.float32), cv2.COLOR_RGB2GRAY)
    response = np.abs(cv2.Laplacian(grey, cv2.CV_32F))
    return np.asarray(cv2.resize(response, grid[::-1], interpolation=cv2.INTER_AREA), np.float32)


def typical_gain(before: Plane, after: Plane) -> float:
    """Logarithm of the ratio of two amounts of fine structure (rows x columns), as most of the structure has it."""
    ratios, weights = np.log((after + _VISIBLE) / (before + _VISIBLE)).ravel(), (before + after).ravel()
    order = np.argsort(ratios)
    sums = np.cumsum(weights[order])
    return float(ratios[order[np.searchsorted(sums, sums[-1] / 2)]]) if sums[-1] > 0 else 0.0


def no_sharper(edited: Plane, source: Plane, grid: tuple[int, int]) -> Plane:
    """An image (H x W x 3, 0 to 255), blurred as far as its fine structure exceeds that of a source of its size."""
    known, softer = fine_structure(source, grid), edited
    for width in _WIDTHS:
        if typical_gain(known, fine_structure(softer, grid)) <= 0:
            break
        softer = np.asarray(cv2.GaussianBlur(edited, (0, 0), width), np.float32)
    return softer
