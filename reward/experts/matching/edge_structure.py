"""The structure of a picture: edges without colour, at every resolution, and where an edit has changed it.

Every pixel carries four numbers, each divided by the edge strength around it: the gradient of the luminance, which
tells patterns apart, and that of all colours together with its angle doubled (Granlund 1978; Di Zenzo 1986), which has
no sign and survives dark becoming light. Where nothing is to be seen they are zero, so that blank areas agree with
nothing.
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

_LONGEST = 1024  # pixels: larger pictures are reduced first
_NOISE = 2.5  # grey levels per pixel: gradients well below are taken for sensor or JPEG noise
MARGIN = 8  # pixels of nothing around it, for objects that its edge cuts
_SURVEY = 160  # longest side of the picture when it is looked through for changes
_CHANGED = 0.4  # mean squared difference of the fields: new structure has 1 to 2; recolouring and sharpening stay below
_TOUCHED = 0.15  # share of changed pixels: of less, whatever is there was there before the edit
MIRROR = np.array([-1, 1, 1, -1], np.float32)


class Pose(NamedTuple):
    """Where a template lies: centre and size in pixels of a picture; turned left to right or not."""

    x: float
    y: float
    w: float
    h: float
    mirrored: bool = False

    def overlap(self, other: Pose) -> tuple[float, float]:
        """The intersection as a part of the union, and of the smaller of the two."""
        w = min(self.x + self.w / 2, other.x + other.w / 2) - max(self.x - self.w / 2, other.x - other.w / 2)
        h = min(self.y + self.h / 2, other.y + other.h / 2) - max(self.y - self.h / 2, other.y - other.h / 2)
        shared, one, two = max(0.0, w) * max(0.0, h), self.w * self.h, other.w * other.h
        return shared / (one + two - shared), shared / min(one, two)

    def scaled(self, x: float, y: float) -> Pose:
        return self._replace(x=self.x * x, y=self.y * y, w=self.w * x, h=self.h * y)


class Level(NamedTuple):
    """A picture's structure at one resolution."""

    fields: Plane  # H x W x 4
    edges: Plane  # H x W, squared gradient
    x: float  # pixels of the level per pixel of the picture
    y: float


class Pyramid:
    """A picture's structure at half-octave resolutions, computed when first asked for. All boxes share it."""

    def __init__(self, image: Pixels) -> None:
        """`image`: uint8 RGB, H x W x 3, not empty; else `ValueError`."""
        if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or image.size == 0:
            raise ValueError(f"expected a uint8 picture H x W x 3, got {image.dtype} {image.shape}")
        self.height, self.width = image.shape[:2]
        self._image = image
        self._top = min(1.0, _LONGEST / max(self.height, self.width))
        self._last = max(0, math.floor(2 * math.log2(self._top * min(self.height, self.width) / 8)))
        self._levels: dict[int, Level] = {}
        self._planes: dict[int, tuple[Plane, ...]] = {}
        self._changes: tuple[Pyramid, Changes] | None = None

    def nearest(self, ratio: float) -> int:
        """The level whose pixels per pixel of the picture come nearest to `ratio`."""
        return min(max(round(-2 * math.log2(ratio / self._top)), 0), self._last)

    def level(self, k: int) -> Level:
        """The structure at `_top * 2 ** (-k / 2)` of the resolution."""
        if k not in self._levels:
            ratio = self._top * 2 ** (-k / 2)
            w, h = max(1, round(self.width * ratio)), max(1, round(self.height * ratio))
            image = cv2.resize(self._image.astype(np.float32), (w, h), interpolation=cv2.INTER_AREA)
            self._levels[k] = Level(*_structure(np.asarray(image, np.float32)), w / self.width, h / self.height)
        return self._levels[k]

    def planes(self, k: int) -> tuple[Plane, ...]:
        """The four fields of a level and their energy, one by one, each with a margin of zeros."""
        if k not in self._planes:
            padded = np.pad(self.level(k).fields, ((MARGIN, MARGIN), (MARGIN, MARGIN), (0, 0)))
            fields = (np.ascontiguousarray(padded[..., c]) for c in range(4))
            self._planes[k] = (*fields, dot(padded, padded))
        return self._planes[k]

    def changes(self, base: Pyramid) -> Changes:
        """Where this picture differs from the base picture, of which it may be an edit."""
        known = self._changes
        if known is None or known[0] is not base:
            known = self._changes = base, Changes(self, base)
        return known[1]

    def sample(self, pose: Pose, w: int, h: int) -> Plane:
        """The fields inside `pose` on a grid of h x w x 4; zeros outside the picture."""
        level = self.level(self.nearest(math.sqrt(w * h / (pose.w * pose.h))))
        fields = _cut(level.fields, level, pose, w, h)
        return fields * MIRROR if pose.mirrored else fields

    def sharpness(self, pose: Pose, weight: Plane) -> float:
        """Edge energy inside `pose` at the resolution of `weight`, as a multiple of that at a third of it."""
        h, w = weight.shape
        ratio = math.sqrt(w * h / (pose.w * pose.h))
        levels = [self.level(self.nearest(r)) for r in (ratio, ratio / 2**1.5)]
        # Half a squared grey level per pixel: nothing is not sharper than nothing.
        fine, coarse = (float(((_cut(v.edges, v, pose, w, h) + 0.5) * weight).sum()) for v in levels)
        return fine / coarse


class Changes:
    """Where an edit has another structure than its base picture. Anywhere else, whatever is there was there before.

    everywhere: whether the pictures do not lie one on the other (or are the same one), so that nothing can be said.
    around: x0, y0, x1, y1 of all changed pixels, in pixels of the edited picture; None where there are none.
    wide: whether more than a quarter of the picture has changed.
    """

    def __init__(self, picture: Pyramid, base: Pyramid) -> None:
        self.everywhere = base is picture
        self.everywhere |= abs(picture.width * base.height / (picture.height * base.width) - 1) > 0.02
        self.around: Corners | None = (0.0, 0.0, float(picture.width), float(picture.height))
        self.wide = True
        if self.everywhere:
            return
        before, after = (p.level(p.nearest(_SURVEY / max(p.width, p.height))).fields for p in (base, picture))
        h, w = before.shape[:2]
        apart = cv2.resize(after, (w, h), interpolation=cv2.INTER_AREA) - before
        changed = (cv2.blur(dot(apart, apart), (5, 5)) > _CHANGED).astype(np.uint8)
        specks_gone = cv2.morphologyEx(changed, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
        changed = np.asarray(specks_gone, np.uint8)
        self._sums = np.asarray(cv2.integral(changed), np.float64)
        self._x, self._y = w / picture.width, h / picture.height
        ys, xs = np.nonzero(changed)
        self.wide = 4 * ys.size > changed.size
        self.around = None
        if ys.size:
            x0, y0, x1, y1 = (float(n) for n in (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1))
            self.around = x0 / self._x, y0 / self._y, x1 / self._x, y1 / self._y

    def touch(self, pose: Pose) -> bool:
        """Whether enough of a place has changed for something new to be there."""
        if self.everywhere:
            return True
        h, w = self._sums.shape[0] - 1, self._sums.shape[1] - 1
        x0, x1 = (min(max(round(x * self._x), 0), w) for x in (pose.x - pose.w / 2, pose.x + pose.w / 2))
        y0, y1 = (min(max(round(y * self._y), 0), h) for y in (pose.y - pose.h / 2, pose.y + pose.h / 2))
        inside = self._sums[y1, x1] - self._sums[y0, x1] - self._sums[y1, x0] + self._sums[y0, x0]
        return bool(inside >= _TOUCHED * max((x1 - x0) * (y1 - y0), 1))


def _structure(image: Plane) -> tuple[Plane, Plane]:
    """The four fields, H x W x 4, and the squared gradient, H x W, of an H x W x 3 picture."""
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


def _cut(plane: Plane, level: Level, pose: Pose, w: int, h: int) -> Plane:
    """What lies inside `pose`, on a grid of w x h."""
    dx, dy = pose.w * level.x / w * (-1 if pose.mirrored else 1), pose.h * level.y / h
    x, y = pose.x * level.x - 0.5 - dx * (w - 1) / 2, pose.y * level.y - 0.5 - dy * (h - 1) / 2
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.asarray(cv2.warpAffine(plane, np.array([[dx, 0, x], [0, dy, y]]), (w, h), flags=flags), np.float32)


def dot(one: Plane, two: Plane) -> Plane:
    """Scalar product of the four fields at every pixel."""
    return np.asarray(cv2.transform(one * two, np.ones((1, 4), np.float32)), np.float32)
