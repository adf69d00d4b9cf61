"""The structure of an image: edges without colour, at several resolutions, and where an edit has changed it.

Every pixel has four numbers, each divided by the local edge strength: the gradient of the luminance, which
distinguishes patterns, and that of all colours with its angle doubled (Granlund 1978; Di Zenzo 1986), which has no sign
and is invariant to contrast inversion. In blank areas they are zero, so that these match nothing.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
Plane = NDArray[np.float32]
Corners = tuple[float, float, float, float]

_LONGEST = 1024  # pixels: larger images are reduced first
_NOISE = 2.5  # grey levels per pixel: gradients well below are sensor or JPEG noise
MARGIN = 8  # zero padding in pixels, for objects cut by the border
_CHANGE_DETECTION_SIDE = 160  # longest side of the image for change detection
_CHANGED = 0.4  # mean squared difference of the fields: new structure has 1 to 2; recolouring and sharpening stay below
_TOUCHED = 0.15  # share of changed pixels; below, the content is unchanged
MIRROR = np.array([-1, 1, 1, -1], np.float32)


class Pose(NamedTuple):
    """Pose of a template: centre and size in pixels of an image; mirrored left to right or not."""

    x: float
    y: float
    w: float
    h: float
    mirrored: bool = False

    def overlap(self, other: Pose) -> tuple[float, float]:
        """Intersection over union, and over the smaller of the two."""
        w = min(self.x + self.w / 2, other.x + other.w / 2) - max(self.x - self.w / 2, other.x - other.w / 2)
        h = min(self.y + self.h / 2, other.y + other.h / 2) - max(self.y - self.h / 2, other.y - other.h / 2)
        shared, area, other_area = max(0.0, w) * max(0.0, h), self.w * self.h, other.w * other.h
        return shared / (area + other_area - shared), shared / min(area, other_area)

    def scaled(self, x: float, y: float) -> Pose:
        return self._replace(x=self.x * x, y=self.y * y, w=self.w * x, h=self.h * y)


class PyramidLevel(NamedTuple):
    """An image's structure at one resolution."""

    fields: Plane  # H x W x 4
    edges: Plane  # H x W, squared gradient
    x: float  # pixels of the level per pixel of the image
    y: float


class Pyramid:
    """An image's structure at half-octave resolutions, computed on first use and shared by all boxes."""

    def __init__(self, image: Pixels) -> None:
        """`image`: uint8 RGB, H x W x 3, not empty; else `ValueError`."""
        if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or image.size == 0:
            raise ValueError(f"expected a uint8 image H x W x 3, got {image.dtype} {image.shape}")
        self.height, self.width = image.shape[:2]
        self._image = image
        self._top = min(1.0, _LONGEST / max(self.height, self.width))
        self._last = max(0, math.floor(2 * math.log2(self._top * min(self.height, self.width) / 8)))
        self._levels: dict[int, PyramidLevel] = {}
        self._planes: dict[int, tuple[Plane, ...]] = {}
        self._changes: tuple[Pyramid, StructuralChanges] | None = None

    def nearest(self, ratio: float) -> int:
        """The level whose resolution relative to the image is nearest to `ratio`."""
        return min(max(round(-2 * math.log2(ratio / self._top)), 0), self._last)

    def level(self, k: int) -> PyramidLevel:
        """The structure at `_top * 2 ** (-k / 2)` of the resolution."""
        if k not in self._levels:
            ratio = self._top * 2 ** (-k / 2)
            w, h = max(1, round(self.width * ratio)), max(1, round(self.height * ratio))
            image = cv2.resize(self._image.astype(np.float32), (w, h), interpolation=cv2.INTER_AREA)
            self._levels[k] = PyramidLevel(*_structure(np.asarray(image, np.float32)), w / self.width, h / self.height)
        return self._levels[k]

    def planes(self, k: int) -> tuple[Plane, ...]:
        """The four fields of a level and their energy, as separate planes with zero padding."""
        if k not in self._planes:
            padded = np.pad(self.level(k).fields, ((MARGIN, MARGIN), (MARGIN, MARGIN), (0, 0)))
            fields = (np.ascontiguousarray(padded[..., c]) for c in range(4))
            self._planes[k] = (*fields, field_product(padded, padded))
        return self._planes[k]

    def changes_from(self, base: Pyramid) -> StructuralChanges:
        """Structural changes relative to the base image."""
        cached = self._changes
        if cached is None or cached[0] is not base:
            cached = self._changes = base, StructuralChanges(self, base)
        return cached[1]

    def sample(self, pose: Pose, w: int, h: int) -> Plane:
        """The fields inside `pose` on a grid of h x w x 4; zeros outside the image."""
        level = self.level(self.nearest(math.sqrt(w * h / (pose.w * pose.h))))
        fields = _cut(level.fields, level, pose, w, h)
        return fields * MIRROR if pose.mirrored else fields

    def sharpness(self, pose: Pose, weight: Plane) -> float:
        """Edge energy inside `pose` at the resolution of `weight`, as a multiple of that at a third of it."""
        h, w = weight.shape
        ratio = math.sqrt(w * h / (pose.w * pose.h))
        levels = [self.level(self.nearest(r)) for r in (ratio, ratio / 2**1.5)]
        # Half a squared grey level per pixel regularises blank areas.
        fine, coarse = (float(((_cut(v.edges, v, pose, w, h) + 0.5) * weight).sum()) for v in levels)
        return fine / coarse


class StructuralChanges:
    """Where an edit has another structure than its base image; elsewhere the content is unchanged. everywhere: whether
    the images are not aligned (or are the same), so that changes are unknown. around: x0, y0, x1, y1 of all changed
    pixels, in pixels of the edited image; None without changes. wide: whether more than a quarter of the image has
    changed."""

    def __init__(self, edited: Pyramid, base: Pyramid) -> None:
        self.everywhere = base is edited
        self.everywhere |= abs(edited.width * base.height / (edited.height * base.width) - 1) > 0.02
        self.around: Corners | None = (0.0, 0.0, float(edited.width), float(edited.height))
        self.wide = True
        if self.everywhere:
            return
        ratios = (_CHANGE_DETECTION_SIDE / max(one.width, one.height) for one in (base, edited))
        before, after = (one.level(one.nearest(r)).fields for one, r in zip((base, edited), ratios, strict=True))
        h, w = before.shape[:2]
        difference = cv2.resize(after, (w, h), interpolation=cv2.INTER_AREA) - before
        changed = (cv2.blur(field_product(difference, difference), (5, 5)) > _CHANGED).astype(np.uint8)
        changed = np.asarray(cv2.morphologyEx(changed, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8)), np.uint8)
        self._sums = np.asarray(cv2.integral(changed), np.float64)
        self._x, self._y = w / edited.width, h / edited.height
        ys, xs = np.nonzero(changed)
        self.wide = 4 * ys.size > changed.size
        self.around = None
        if ys.size:
            x0, y0, x1, y1 = (float(n) for n in (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1))
            self.around = x0 / self._x, y0 / self._y, x1 / self._x, y1 / self._y

    def touch(self, pose: Pose) -> bool:
        """Whether enough pixels at a pose have changed for a new object."""
        if self.everywhere:
            return True
        h, w = self._sums.shape[0] - 1, self._sums.shape[1] - 1
        x0, x1 = (min(max(round(x * self._x), 0), w) for x in (pose.x - pose.w / 2, pose.x + pose.w / 2))
        y0, y1 = (min(max(round(y * self._y), 0), h) for y in (pose.y - pose.h / 2, pose.y + pose.h / 2))
        inside = self._sums[y1, x1] - self._sums[y0, x1] - self._sums[y1, x0] + self._sums[y0, x0]
        return bool(inside >= _TOUCHED * max((x1 - x0) * (y1 - y0), 1))


def _structure(image: Plane) -> tuple[Plane, Plane]:
    """The four fields, H x W x 4, and the squared gradient, H x W, of an H x W x 3 image."""
    smooth = cv2.GaussianBlur(image, (0, 0), 0.7)
    across, down = (
        cv2.Scharr(smooth, cv2.CV_32F, dx, dy, scale=1 / 32, borderType=cv2.BORDER_REPLICATE)
        for dx, dy in ((1, 0), (0, 1))
    )
    luminance, mean = np.array([[0.299, 0.587, 0.114]], np.float32), np.full((1, 3), 1 / 3, np.float32)
    xx, yy, xy = (cv2.transform(product, mean) for product in (across * across, down * down, across * down))
    edges = xx + yy
    around = np.sqrt(np.asarray(cv2.GaussianBlur(edges, (0, 0), 4.0)) + _NOISE**2)
    cosine, sine = xx - yy, 2 * xy
    # The double angle's length is a squared gradient: its root puts all four numbers on one scale.
    root = np.sqrt(np.hypot(cosine, sine) + 1e-6)
    fields = [cv2.transform(across, luminance), cv2.transform(down, luminance), cosine / root, sine / root]
    return np.dstack([np.asarray(field / around, np.float32) for field in fields]), np.asarray(edges, np.float32)


def _cut(plane: Plane, level: PyramidLevel, pose: Pose, w: int, h: int) -> Plane:
    """The plane inside `pose`, sampled on a grid of w x h."""
    dx, dy = pose.w * level.x / w * (-1 if pose.mirrored else 1), pose.h * level.y / h
    x, y = pose.x * level.x - 0.5 - dx * (w - 1) / 2, pose.y * level.y - 0.5 - dy * (h - 1) / 2
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.asarray(cv2.warpAffine(plane, np.array([[dx, 0, x], [0, dy, y]]), (w, h), flags=flags), np.float32)


def field_product(first: Plane, second: Plane) -> Plane:
    """Scalar product of the four fields at every pixel."""
    return np.asarray(cv2.transform(first * second, np.ones((1, 4), np.float32)), np.float32)
