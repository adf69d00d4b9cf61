"""How the look of a picture changed, in the terms in which people ask for it: brightness, contrast, colours, detail.

Each number is what one request is about and its neighbours are not: a gain of brightness stretches all distances of
lightness and colour by the same factor, and more contrast does so to colours, which is neither contrast nor saturation.
All are of the pixels that changed alike, so that what is painted over a part of the picture hardly counts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ...image import Pixels
from .patch_descriptors import to_lab

Plane = NDArray[np.float32]

_WARM = np.array([0.342, 0.940], np.float32)
"""Direction of warmer light in a*, b*: the hue angle of orange, 70 degrees."""
_FLOOR = 1.0
"""L*a*b* units, added to what is divided: less is no contrast or colour."""
_RIDGE = 0.05
"""Weight of a cast, in shares of the pixels: in a picture of one colour, a stronger one is saturation and no cast."""
_TRIMMINGS = 4
_FITS, _FITS_MEDIAN = 6.0, 3.0
"""Misfit up to which a pixel changed as the others did: L*a*b* units of all channels, multiples of the median."""
_DETAIL_FLOOR = 0.3
"""L* per pixel, added to detail before it is divided."""


class AppearanceChange(NamedTuple):
    """Of the second picture against the first, all but detail in units of CIE L*a*b*.

    lightness: of the middle half of the pixels. contrast: of the distance of light and dark thirds, halved. saturation:
    of the typical chroma. warmth: of the colour cast, towards orange; tint: at right angles to it, towards magenta.
    detail: natural logarithm of the ratio of fine gradients where there were many, beyond contrast and noise.
    """

    lightness: float
    contrast: float
    saturation: float
    warmth: float
    tint: float
    detail: float


def appearance_change(before: Pixels, after: Pixels, free: NDArray[np.bool_]) -> AppearanceChange:
    """What changed between two pictures of one size (H x W x 3), over the pixels in `free` (H x W), at least one."""
    old, new = (to_lab(cv2.blur(pixels, (5, 5)).astype(np.float32))[free] for pixels in (before, after))
    most = _changed_alike(old, new)
    old, new = old[most], new[most]
    lightness = _middle_mean(new[:, 0] - old[:, 0])
    gain = math.log((new[:, 0].mean() + 5) / (old[:, 0].mean() + 5))
    spread_before, spread_after = _spread(old[:, 0], old[:, 0]), _spread(old[:, 0], new[:, 0])
    stretch = math.log((max(spread_after, 0.0) + _FLOOR) / (spread_before + _FLOOR))
    contrast = math.expm1(_common(stretch, stretch - gain)) * spread_before / 2
    factor = _colour_factor(old[:, 1:], new[:, 1:])
    chroma = float(np.sqrt((old[:, 1:] ** 2).sum(axis=1).mean()))
    purity = math.log(max(factor, 0.01))
    saturation = math.expm1(_common(purity, purity - gain, purity - stretch)) * chroma
    cast = [_middle_mean(new[:, channel] - factor * old[:, channel]) for channel in (1, 2)]
    warmth = float(np.dot(cast, _WARM))
    tint = float(cast[0] * _WARM[1] - cast[1] * _WARM[0])
    return AppearanceChange(lightness, contrast, saturation, warmth, tint, _detail(before, after, free, stretch))


def typical_chroma(pixels: Pixels, free: NDArray[np.bool_]) -> float:
    """Root mean square distance from grey in CIE L*a*b*, of a picture without its noise; free: as above."""
    colours = to_lab(cv2.blur(pixels, (3, 3)).astype(np.float32))[free][:, 1:]
    return float(np.sqrt((colours**2).sum(axis=1).mean()))


def _changed_alike(old: Plane, new: Plane) -> NDArray[np.intp]:
    """Indices of the pixels (n x 3) that one linear change of each channel explains, about: at least half of them."""
    kept = np.arange(len(old))
    for _ in range(_TRIMMINGS):
        misfit = np.zeros(len(old), np.float32)
        for channel in range(3):
            x, y = old[:, channel], new[:, channel]
            middle_x, middle_y = x[kept].mean(), y[kept].mean()
            slope = ((x[kept] - middle_x) * (y[kept] - middle_y)).mean() / (((x[kept] - middle_x) ** 2).mean() + 1e-3)
            misfit += np.abs(y - middle_y - slope * (x - middle_x))
        kept = np.flatnonzero(misfit <= max(_FITS, _FITS_MEDIAN * float(np.median(misfit))))
    return kept


def _common(*changes: float) -> float:
    """What several readings of one change have in common: the least of them, 0 where they disagree on its direction."""
    if all(change > 0 for change in changes):
        return min(changes)
    return max(changes) if all(change < 0 for change in changes) else 0.0


def _middle_mean(values: Plane) -> float:
    """Mean of the middle half."""
    ranked = np.sort(values)
    quarter = ranked.size // 4
    return float(ranked[quarter : ranked.size - quarter].mean(dtype=np.float64))


def _spread(by: Plane, values: Plane) -> float:
    """Distance of the medians of `values` where `by` is in its upper, and in its lower third."""
    order = np.argsort(by, kind="stable")
    third = max(1, order.size // 3)
    return float(np.median(values[order[-third:]]) - np.median(values[order[:third]]))


def _colour_factor(old: Plane, new: Plane) -> float:
    """Factor of a* and b* between two pictures (n x 2), beside a cast; at least 0."""
    middle_old, middle_new = old.mean(axis=0, dtype=np.float64), new.mean(axis=0, dtype=np.float64)
    explained = 1 / (1 + _RIDGE)  # share of the means that a cast explains
    shared = float((old * new).sum(axis=1).mean(dtype=np.float64) - explained * middle_old @ middle_new)
    own = float((old * old).sum(axis=1).mean(dtype=np.float64) - explained * middle_old @ middle_old)
    return max(0.0, (shared + _FLOOR) / (own + _FLOOR))


def _detail(before: Pixels, after: Pixels, free: NDArray[np.bool_], stretch: float) -> float:
    old, new = (_fine_gradients(pixels)[free] for pixels in (before, after))
    order = np.argsort(old, kind="stable")
    third = max(1, order.size // 3)
    low_old, low_new = (float(np.median(values[order[:third]])) for values in (old, new))
    high_old, high_new = (float(np.median(values[order[-third:]])) for values in (old, new))
    # Noise adds the same everywhere: it is in the strong gradients, and not in their distance to the weak ones.
    strong = math.log((high_new + _DETAIL_FLOOR) / (high_old + _DETAIL_FLOOR))
    distance = math.log((max(0.0, high_new - low_new) + _DETAIL_FLOOR) / (high_old - low_old + _DETAIL_FLOOR))
    return _common(strong, distance, strong - stretch)


def _fine_gradients(pixels: Pixels) -> Plane:
    """H x W: mean absolute Laplacian of L* around each pixel."""
    lightness = np.ascontiguousarray(to_lab(pixels.astype(np.float32))[:, :, 0])
    return np.asarray(cv2.blur(np.abs(cv2.Laplacian(lightness, cv2.CV_32F)), (7, 7)), np.float32)
