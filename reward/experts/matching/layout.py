"""Layout of an image: which of its patches resemble each other. Survives new colours, styles and seasons."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from .patch_descriptors import describe

Plane = NDArray[np.float32]

_GRID = (12, 12)
_SIDE = 192  # pixels


def layout(lab: Plane) -> Plane:
    """144 x 144: similarity of any two patches of an image in CIE L*a*b*, of any size."""
    patches = describe(np.asarray(cv2.resize(lab, (_SIDE, _SIDE), interpolation=cv2.INTER_AREA), np.float32), _GRID)
    statistics = np.concatenate(
        [patches.colour, np.log(patches.amplitude + 0.5), patches.gradients.reshape(*_GRID, -1)], axis=2
    )
    # Each statistic counts relative to its spread over the picture, colour, contrast and gradients as groups.
    groups = np.split(statistics.reshape(_GRID[0] * _GRID[1], -1), [3, 6], axis=1)
    return np.asarray(np.mean([_similarities(group) for group in groups], axis=0), np.float32)


def _similarities(statistics: Plane) -> Plane:
    centred = statistics - statistics.mean(0)
    scaled = centred / (centred.std(0) + 0.1 * centred.std() + 1e-3)
    unit = scaled / (np.linalg.norm(scaled, axis=1, keepdims=True) + 0.3 * np.sqrt(scaled.shape[1]))
    return np.asarray(unit @ unit.T, np.float32)


def layout_agreement(one: Plane, other: Plane) -> float:
    """Correlation in [-1, 1] of two layouts; 1 for two flat images, 0 for a flat one and another."""
    upper = np.triu_indices(len(one), 1)
    a, b = one[upper], other[upper]
    a, b = a - a.mean(), b - b.mean()
    flat = [float(np.abs(part).max()) < 1e-4 for part in (a, b)]
    if any(flat):
        return float(all(flat))
    return float(np.clip((a @ b) / np.sqrt((a @ a) * (b @ b)), -1.0, 1.0))
