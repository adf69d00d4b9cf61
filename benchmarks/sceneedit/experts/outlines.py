"""Outlines of the shapes and how well an object fits them; its material by the direction in which brightness varies."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ..vocabulary import MATERIALS, SHAPES, SIGN

_UNEVEN, _UNEVEN_SOFT = 0.085, 0.016
"""Relative spread of brightness from which on a surface is not plain, and the width of the transition."""
_TAIL, _TAIL_AT = 0.15, 1.036
"""Share of the brightest and of the darkest pixels that are ignored, such as a rim; the normal quantile of that share.
"""
_LINED = 0.8  # share of the spread that lines must explain, beyond chance, to score above an irregular surface
_STEPS = 0.15  # bonus for diagonal lines, which are drawn in steps
_CLEAR = 0.5  # least share of the spread that is assumed to be signal
_DIRECTION_SHARPNESS = 14.0  # sharpness of the softmax over directions


def classify_material(bright: NDArray[np.float32], inside: NDArray[np.bool_], noise: float) -> dict[str, float]:
    """Material -> probability; empty stands for plain.

    bright: brightness of the pixels (H x W). inside: pixels that show the object alone. noise: standard deviation of
    the image's noise, as a share of full brightness. The direction of lines matters, not their distance.
    """
    y, x = np.nonzero(inside)
    if len(y) < 6:
        return dict.fromkeys(("", *MATERIALS), 1 / (1 + len(MATERIALS)))
    values = bright[y, x].astype(np.float64)
    mean = max(float(values.mean()), 1e-3)
    values = values / mean
    ordered = np.sort(values)
    tail_count = int(_TAIL * len(ordered))
    low, high = ordered[tail_count], ordered[-1 - tail_count]
    total_spread = min(float(values.std()), float(high - low) / (2 * _TAIL_AT))
    spread = math.sqrt(max(total_spread**2 - (noise / mean) ** 2, 0.0))
    signal_share = max(spread / max(total_spread, 1e-6), _CLEAR) ** 2
    uneven = 1 / (1 + math.exp(-(spread - _UNEVEN) / _UNEVEN_SOFT))
    lines = {
        "wood": _explained_variance(values, y) / signal_share,
        "metal": _explained_variance(values, x) / signal_share,
        "fabric": max(_explained_variance(values, x + y), _explained_variance(values, x - y)) / signal_share + _STEPS,
        "stone": _LINED,
    }
    weights = {name: math.exp(_DIRECTION_SHARPNESS * min(lines[name], 1.0)) for name in MATERIALS}
    total = sum(weights.values())
    return {"": 1 - uneven} | {name: uneven * weight / total for name, weight in weights.items()}


def _explained_variance(values: NDArray[np.float64], line: NDArray[np.int64]) -> float:
    """Share of the variance of brightness between lines, less what chance would put there (adjusted R squared)."""
    line = line - line.min()
    count = np.bincount(line)
    mean = np.bincount(line, values) / np.maximum(count, 1)
    within = float(((values - mean[line]) ** 2).sum())
    total = float(((values - values.mean()) ** 2).sum())
    degrees_of_freedom = max(len(values) - int((count > 0).sum()), 1)
    return 1 - (within / degrees_of_freedom) / max(total / (len(values) - 1), 1e-12)


Plane = NDArray[np.float32]

OUTLINES = (*SHAPES, SIGN)
_CELLS = 24  # cells per side of the frame in which outlines are compared
_SUPERSAMPLING = 8  # points per cell and side at which outlines are rendered

_TIP_SIDES = {"none": (0, 0, 0, 0), "all": (1, 1, 1, 1), "up": (0, 1, 0, 0), "down": (0, 0, 0, 1)}
"""Sides (left, top, right, bottom) that end in a tip, whose last pixel has too little cover to be visible."""
_TIP = 0.6  # pixels by which the box of a tip is larger than its visible part
_GROWTH = (0.0, 0.1, 0.2, 0.32)  # growth of an object beneath an occluder, as shares of its visible part
_HIDDEN = 0.12  # weight of an occluded pixel. Not 0: an explanation without occlusion is better
_GROWN = 0.1  # penalty for a box grown by its own size
_SQUARENESS = 0.22  # standard deviation of log(width / height) of all shapes but signs
_WIDTH, _WIDTH_SOFT = 1.38, 0.06  # width / height from which on a plate is a sign's, and the width of the transition
_SHARP = 32.0  # sharpness of the softmax over shapes
_NO_MATCH_IOU, _GOOD_MATCH_IOU = 0.50, 0.78  # overlaps (IoU) at which a match scores almost 0, and almost 1


class OutlineFit(NamedTuple):
    """shapes: shape -> match in [0, 1]. corners: of the best match's box, in pixels. visible_share: not hidden."""

    shapes: dict[str, float]
    corners: tuple[float, float, float, float]
    visible_share: float


def fit_outlines(
    object_cover: Plane,
    occluder_mask: Plane,
    corners: tuple[float, float, float, float],
    open_sides: tuple[bool, ...],
    text_probability: float,
    pixel_scale: float,
) -> OutlineFit:
    """Compare an object with all outlines.

    object_cover: share of each pixel (H x W) that shows the object, in [0, 1]. occluder_mask: 1 where something else
    may hide it. corners: x0, y0, x1, y1 of the visible part. open_sides: sides (left, top, right, bottom) on which it
    may continue unseen. text_probability: that there are letters on it. pixel_scale: pixels per original pixel.
    """
    boxes, growth = _boxes(corners, open_sides, pixel_scale)
    framed_cover = _framed(object_cover, boxes, 0.0)
    hidden = (
        _framed(occluder_mask, boxes, 1.0) if any(open_sides) or occluder_mask.any() else np.zeros_like(framed_cover)
    )
    weight = 1.0 - (1.0 - _HIDDEN) * hidden
    size = min(corners[2] - corners[0], corners[3] - corners[1]) / pixel_scale
    models = _models(min(4 * round(size / 4), 48) if size > 16 else max(4, 2 * round(size / 2)))
    lower, upper = np.minimum(framed_cover[:, None], models), np.maximum(framed_cover[:, None], models)
    shared, union = np.einsum("kmn,kn->km", lower, weight), np.einsum("kmn,kn->km", upper, weight)
    overlap = shared / np.maximum(union, 1e-6) - _GROWN * growth[:, None]
    ratio = np.log((boxes[:, 2] - boxes[:, 0]) / (boxes[:, 3] - boxes[:, 1]))
    elongation = 1 - np.exp(-((ratio / _SQUARENESS) ** 2) / 2)
    overlap[:, :-1] *= 1 - 0.6 * elongation[:, None]
    wide = 1 / (1 + np.exp(-(ratio - math.log(_WIDTH)) / _WIDTH_SOFT))
    overlap[:, -1] *= 0.4 + 0.6 * wide * (0.7 + 0.3 * text_probability)
    best = overlap.max(axis=0)
    best_box = int(overlap[:, int(best.argmax())].argmax())
    shares = np.exp(_SHARP * (best - best.max()))
    quality = 1 / (1 + np.exp(-(best - (_NO_MATCH_IOU + _GOOD_MATCH_IOU) / 2) * 6 / (_GOOD_MATCH_IOU - _NO_MATCH_IOU)))
    matches = quality * shares / shares.sum()
    model = models[int(best.argmax())]
    visible_share = float(model @ (1 - hidden[best_box]) / model.sum())
    x0, y0, x1, y1 = (float(value) for value in boxes[best_box])
    return OutlineFit(dict(zip(OUTLINES, matches.tolist(), strict=True)), (x0, y0, x1, y1), visible_share)


def _boxes(
    corners: tuple[float, ...], open_sides: tuple[bool, ...], pixel_scale: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Candidates for the full box, n x 4, and how much each has grown beyond the visible part."""
    width, height = corners[2] - corners[0], corners[3] - corners[1]
    steps = product(*(_GROWTH if side else (0.0,) for side in open_sides))
    growths = np.array([step for step in steps if sum(amount > 0 for amount in step) <= 2])
    outward = np.array([-width, -height, width, height])
    sign = np.array([-1.0, -1.0, 1.0, 1.0])
    boxes = [
        np.array(corners) + growths * outward + _TIP * pixel_scale * sign * tips
        for tips in np.array(list(_TIP_SIDES.values()))
    ]
    return np.concatenate(boxes), np.tile(growths.sum(axis=1), len(_TIP_SIDES))


def _framed(plane: Plane, boxes: NDArray[np.float64], beyond: float) -> Plane:
    """The content of each box in cells: n x cells; `beyond` stands for pixels outside the image."""
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
    """The outlines of objects of `size` pixels: shapes x cells."""
    planes = []
    for shape in OUTLINES:
        fine = np.zeros((_CELLS * _SUPERSAMPLING,) * 2, np.float32)
        for ring, points in _polygons(shape):
            vertices = np.rint((points + 1) / 2 * len(fine) * 16 - 8).astype(np.int32)
            cv2.fillPoly(fine, [vertices], 0.0 if ring else 1.0, shift=4)
        soft = cv2.GaussianBlur(fine, (0, 0), 0.42 * len(fine) / size, borderType=cv2.BORDER_CONSTANT)
        planes.append(cv2.resize(soft, (_CELLS, _CELLS), interpolation=cv2.INTER_AREA).ravel())
    models = np.array(planes, np.float32)
    models.setflags(write=False)
    return models


def _polygons(shape: str) -> list[tuple[bool, NDArray[np.float64]]]:
    """Outlines in [-1, 1] x [-1, 1], y downwards; the first value of each says whether it is cut out."""
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
