"""How the look of a picture changed, in the terms in which people ask for it: brightness, contrast, colours, detail.

Each number is what one request is about and its neighbours are not: a gain of brightness stretches all distances of
lightness and colour by the same factor, and more contrast does so to colours, which is neither contrast nor saturation.
All are of the pixels that changed alike, so that what is painted over a part of the picture hardly counts.

Below, what of an edit a change of tone or of focus explains: the picture that the source becomes by it alone. A change
of tone is another saturation and a rising curve for each channel; one of focus a blur of one width, of the source or of
the edit. Both are fitted to what most pixels show.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ...image import Pixels
from .patch_descriptors import Plane, size_within, to_lab

_WARM = np.array([0.342, 0.940], np.float32)  # direction of warmer light in a*, b*: the hue angle of orange, 70 degrees
_FLOOR = 1.0  # L*a*b* units, added to what is divided: less is no contrast or colour
_RIDGE = 0.05
"""Weight of a cast, in shares of the pixels: in a picture of one colour, a stronger one is saturation and no cast."""
_TRIMMINGS = 4
_FITS, _FITS_MEDIAN = 6.0, 3.0
"""Misfit up to which a pixel changed as the others did: L*a*b* units of all channels, multiples of the median."""
_DETAIL_FLOOR = 0.3  # L* per pixel, added to detail before it is divided


class AppearanceChange(NamedTuple):
    """Of the second picture against the first, all but detail in units of CIE L*a*b*. lightness: of the middle half of
    the pixels. contrast: of the distance of light and dark thirds, halved. saturation: of the typical chroma. warmth:
    of the colour cast, towards orange; tint: at right angles to it, towards magenta. detail: natural logarithm of the
    ratio of fine gradients where there were many, beyond contrast and noise."""

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


_SIDE = 256  # pixels of the longer side at which a tone is fitted
_KNOTS = 48  # of a curve, each of as many pixels
_WIDTHS = (0.0, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0, 11.0, 16.0)
"""Standard deviations of blurs that are tried, in pixels of a longer side of 512; a misfit falls, and then rises."""
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)


def with_tone_of(before: Pixels, after: Pixels, free: NDArray[np.bool_]) -> Pixels:
    """The first picture with the tone of the second (both H x W x 3), as fitted to the pixels in `free` (H x W)."""
    size = size_within(before, _SIDE)
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
    free: H x W, the pixels that the widths are fitted to."""
    size = size_within(before, _FOCUS_SIDE)
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
    unit = max(before.shape[:2]) / _FOCUS_SIDE
    own, common = fitted * unit, max(_LEAST_WIDTH, fitted) * unit
    before, after = (before, _blurred(after, own, border)) if is_sharpened else (_blurred(before, own, border), after)
    return _blurred(before, common, border), _blurred(after, common, border)


def _sharpness(pixels: Pixels, used: NDArray[np.bool_]) -> float:
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    return float(np.abs(cv2.Laplacian(grey, cv2.CV_32F))[used].mean(dtype=np.float64))


_BORDERS = (cv2.BORDER_REPLICATE, cv2.BORDER_REFLECT_101, cv2.BORDER_CONSTANT)
"""What programs take to lie beyond the border when they blur."""
_FOCUS_SIDE = 512  # pixels of the longer side at which a blur is fitted
_LEAST_WIDTH = 1.5  # standard deviation of the blur of both, at least, in pixels of that side


def _blurred(pixels: Pixels, width: float, border: int) -> Pixels:
    if width <= 0.1:
        return pixels
    return np.asarray(cv2.GaussianBlur(pixels, (0, 0), width, borderType=border), np.uint8)
