"""Outlines: what shapes look like, and how well what is seen of a thing fits them."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ..words import SHAPES, SIGN

Plane = NDArray[np.float32]

OUTLINES = (*SHAPES, SIGN)
_CELLS = 24
"""Cells a side of the frame in which outlines are compared."""
_FINE = 8
"""Points a cell and side in which outlines are drawn."""

_TIPS = {"none": (0, 0, 0, 0), "all": (1, 1, 1, 1), "up": (0, 1, 0, 0), "down": (0, 0, 0, 1)}
"""Sides (left, top, right, bottom) that end in a tip: its last pixel is covered too little to be seen."""
_TIP = 0.6
"""Pixels by which the box of a tip is larger than it looks."""
_GROWTH = (0.0, 0.1, 0.2, 0.32)
"""How far a thing may go on beneath what covers it, in shares of what is seen of it."""
_HIDDEN = 0.12
"""Weight of a pixel at which something else is seen. Not 0: what needs nothing hidden explains a picture better."""
_GROWN = 0.1
"""Loss of match for a box grown by its own size."""
_SQUARENESS = 0.22
"""Standard deviation of log(width / height) of anything but signs."""
_WIDTH, _WIDTH_SOFT = 1.38, 0.06
"""Width / height from which a plate is a sign's, and how softly that sets in."""
_SHARP = 32.0
"""How strongly a better match tells against the shapes that fit less well."""
_POOR, _GOOD = 0.50, 0.78
"""Overlaps (IoU) at which a match is worth nothing, and nearly everything."""


class Fit(NamedTuple):
    """shapes: shape -> match in [0, 1]. corners: of the box in pixels, of the best match. shown: share not hidden."""

    shapes: dict[str, float]
    corners: tuple[float, float, float, float]
    shown: float


def fit(
    cover: Plane,
    other: Plane,
    corners: tuple[float, float, float, float],
    touched: tuple[bool, ...],
    lettered: float,
    pixel: float,
) -> Fit:
    """Compare a thing with all outlines.

    cover: how far each pixel (H x W) shows the thing, in [0, 1]. other: 1 where something else is seen that may hide
    it. corners: x0, y0, x1, y1 around what is seen. touched: the sides (left, top, right, bottom) on which it may go
    on unseen. lettered: how surely there are letters on it, in [0, 1]. pixel: side of what
    was a pixel before the picture was enlarged.
    """
    boxes, grown = _boxes(corners, touched, pixel)
    seen = _framed(cover, boxes, 0.0)
    hidden = _framed(other, boxes, 1.0) if any(touched) or other.any() else np.zeros_like(seen)
    weight = 1.0 - (1.0 - _HIDDEN) * hidden
    size = min(corners[2] - corners[0], corners[3] - corners[1]) / pixel
    models = _models(min(4 * round(size / 4), 48) if size > 16 else max(4, 2 * round(size / 2)))
    lower, upper = np.minimum(seen[:, None], models), np.maximum(seen[:, None], models)
    shared, union = np.einsum("kmn,kn->km", lower, weight), np.einsum("kmn,kn->km", upper, weight)
    overlap = shared / np.maximum(union, 1e-6) - _GROWN * grown[:, None]
    ratio = np.log((boxes[:, 2] - boxes[:, 0]) / (boxes[:, 3] - boxes[:, 1]))
    uneven = 1 - np.exp(-((ratio / _SQUARENESS) ** 2) / 2)
    overlap[:, :-1] *= 1 - 0.6 * uneven[:, None]
    wide = 1 / (1 + np.exp(-(ratio - math.log(_WIDTH)) / _WIDTH_SOFT))
    overlap[:, -1] *= 0.4 + 0.6 * wide * (0.7 + 0.3 * lettered)
    best = overlap.max(axis=0)
    place = int(overlap[:, int(best.argmax())].argmax())
    shares = np.exp(_SHARP * (best - best.max()))
    quality = 1 / (1 + np.exp(-(best - (_POOR + _GOOD) / 2) * 6 / (_GOOD - _POOR)))
    matches = quality * shares / shares.sum()
    model = models[int(best.argmax())]
    shown = float(model @ (1 - hidden[place]) / model.sum())
    x0, y0, x1, y1 = (float(value) for value in boxes[place])
    return Fit(dict(zip(OUTLINES, matches.tolist(), strict=True)), (x0, y0, x1, y1), shown)


def _boxes(
    corners: tuple[float, ...], touched: tuple[bool, ...], pixel: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Candidates for the whole box, n x 4, and by how much each has grown beyond what is seen."""
    width, height = corners[2] - corners[0], corners[3] - corners[1]
    steps = product(*(_GROWTH if side else (0.0,) for side in touched))
    growths = np.array([step for step in steps if sum(amount > 0 for amount in step) <= 2])
    outward = np.array([-width, -height, width, height])
    sign = np.array([-1.0, -1.0, 1.0, 1.0])
    boxes = [
        np.array(corners) + growths * outward + _TIP * pixel * sign * tips for tips in np.array(list(_TIPS.values()))
    ]
    return np.concatenate(boxes), np.tile(growths.sum(axis=1), len(_TIPS))


def _framed(plane: Plane, boxes: NDArray[np.float64], beyond: float) -> Plane:
    """What each box holds, in cells: n x cells; `beyond` stands for what lies outside of the picture."""
    along = (np.arange(_CELLS) + 0.5) / _CELLS
    x = boxes[:, :1] + along * (boxes[:, 2:3] - boxes[:, :1]) - 0.5
    y = boxes[:, 1:2] + along * (boxes[:, 3:] - boxes[:, 1:2]) - 0.5
    shape = (len(boxes), _CELLS, _CELLS)
    across = np.broadcast_to(x[:, None, :], shape).reshape(-1, _CELLS).astype(np.float32)
    down = np.broadcast_to(y[:, :, None], shape).reshape(-1, _CELLS).astype(np.float32)
    values = cv2.remap(plane, across, down, cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT, borderValue=(beyond,))
    return np.asarray(values.reshape(len(boxes), -1), np.float32)


@lru_cache(maxsize=64)
def _models(size: int) -> Plane:
    """The outlines as things of `size` pixels show them: shapes x cells."""
    planes = []
    for shape in OUTLINES:
        fine = np.zeros((_CELLS * _FINE,) * 2, np.float32)
        for ring, points in _polygons(shape):
            whole = np.rint((points + 1) / 2 * len(fine) * 16 - 8).astype(np.int32)
            cv2.fillPoly(fine, [whole], 0.0 if ring else 1.0, shift=4)
        soft = cv2.GaussianBlur(fine, (0, 0), 0.42 * len(fine) / size, borderType=cv2.BORDER_CONSTANT)
        planes.append(cv2.resize(soft, (_CELLS, _CELLS), interpolation=cv2.INTER_AREA).ravel())
    models = np.array(planes, np.float32)
    models.setflags(write=False)
    return models


def _polygons(shape: str) -> list[tuple[bool, NDArray[np.float64]]]:
    """Outlines in [-1, 1] x [-1, 1], y downwards; the first of each says whether it is cut out."""
    turn = np.linspace(0, 2 * math.pi, 96, endpoint=False)
    circle = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    if shape == "circle":
        return [(False, circle)]
    if shape == "ring":
        return [(False, circle), (True, 0.5 * circle)]
    if shape in ("square", SIGN):
        return [(False, np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]))]
    if shape == "triangle":
        return [(False, np.array([(0, -1), (1, 1), (-1, 1)]))]
    if shape == "diamond":
        return [(False, np.array([(0, -1), (1, 0), (0, 1), (-1, 0)]))]
    if shape == "cross":
        bar = np.array([(-1, -1 / 3), (1, -1 / 3), (1, 1 / 3), (-1, 1 / 3)])
        return [(False, bar), (False, bar[:, ::-1])]
    if shape == "star":
        tips = np.arange(10) * math.pi / 5
        reach = np.where(np.arange(10) % 2, 0.42, 1.0)
        star = np.stack([reach * np.sin(tips), -reach * np.cos(tips)], axis=1)
        low, high = star.min(axis=0), star.max(axis=0)
        return [(False, (star - low) / (high - low) * 2 - 1)]
    assert shape == "heart", shape
    lobe = 0.5 * circle + np.array([0.5, -0.5])
    return [(False, lobe), (False, lobe * np.array([-1, 1])), (False, np.array([(-1, -0.5), (1, -0.5), (0, 1)]))]
