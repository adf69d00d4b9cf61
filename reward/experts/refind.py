"""Find an annotated object again in an edited photograph, by its structure alone (no model, no download).

Identity rests on edges, not on colour, so that a recoloured object is still itself. Every pixel carries four numbers,
all divided by the edge strength of its neighbourhood: the luminance gradient, which tells patterns apart, and the
gradient of all colours together with its angle doubled (Granlund 1978; Di Zenzo 1986), which has no sign and survives
a dark thing becoming a light one. Flat regions carry zeros, so that blank areas agree with nothing.

Two places are compared by the Dice coefficient 2 t.f / (t.t + f.f) of these fields, cell by cell, weighted towards the
middle of the box. The search is coarse to fine: nine scales and both mirror images by correlation on a small picture,
then Gauss-Newton alignment (Baker & Matthews 2004) of the best peaks at two resolutions.

A similarity becomes a score by what chance reaches: more for small and for plain objects, for which the source
photograph itself supplies the look-alikes. What looked as much like the object before the edit is not the object now.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

_LONGEST = 1024  # pixels: larger pictures are reduced first
_NOISE = 2.5  # grey levels per pixel: gradients well below are taken for sensor or JPEG noise
_SCALES = tuple(2 ** (step / 4) for step in range(-4, 5))
_SMALLEST = 12  # pixels, root of the area: below, a copy cannot be told from chance
_COARSE, _MIDDLE, _FINE = 24, 24, 64  # template side (root of the area) at the three stages
_BORDER = 8  # pixels of nothing around a coarse picture, for objects cut by its edge
_PEAKS = 32  # coarse peaks kept
_CELLS = 6
_MIRROR = np.array([-1, 1, 1, -1], np.float32)


class Featureless(ValueError):
    """The box has too little structure, or too few pixels, to be recognised by."""


@dataclass(frozen=True)
class Found:
    """One instance: corners in pixels of the edited picture, score in [0, 1] (1: the same pixels)."""

    x0: float
    y0: float
    x1: float
    y1: float
    score: float


def find_again(
    base: NDArray[np.uint8],
    box: tuple[float, float, float, float],
    edited: NDArray[np.uint8],
    *,
    floor: float = 0.05,
    limit: int = 20,
) -> list[Found]:
    """Instances in `edited` of the object inside `box` of `base`, best first, overlaps suppressed.

    `base`, `edited`: uint8 RGB, H x W x 3, of any sizes. `box`: x0, y0, x1, y1 in pixels of `base`; the part outside
    the picture is ignored. Scores below `floor` are left out. Raises `Featureless` when the box has nothing to be
    recognised by, `ValueError` for a box that is not one or an array that is not a picture.
    To compare many edits, build `Template` and `Pyramid` once and call `Template.find`.
    """
    return Template(Pyramid(base), box).find(Pyramid(edited), floor=floor, limit=limit)


class _Level(NamedTuple):
    fields: Floats  # H x W x 4
    edges: Floats  # H x W, squared gradient
    x: float  # level pixels per picture pixel
    y: float


class _Pose(NamedTuple):
    """Where a template may lie: centre and size in pixels of the picture, turned left to right or not."""

    x: float
    y: float
    w: float
    h: float
    mirrored: bool = False

    def overlap(self, other: _Pose) -> tuple[float, float]:
        """Intersection over union, and over the smaller of the two."""
        w = min(self.x + self.w / 2, other.x + other.w / 2) - max(self.x - self.w / 2, other.x - other.w / 2)
        h = min(self.y + self.h / 2, other.y + other.h / 2) - max(self.y - self.h / 2, other.y - other.h / 2)
        both = max(0.0, w) * max(0.0, h)
        one, two = self.w * self.h, other.w * other.h
        return both / (one + two - both), both / min(one, two)


class _Match(NamedTuple):
    pose: _Pose
    raw: float  # similarity, at most 1
    side: float  # root of the area of the frame it was measured on, pixels
    kept: float = 1.0


class Pyramid:
    """A picture's structure at half-octave resolutions, computed when asked for; shared by all boxes."""

    def __init__(self, image: NDArray[np.uint8]) -> None:
        """`image`: uint8 RGB, H x W x 3, at least one pixel."""
        if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or image.size == 0:
            raise ValueError(f"expected a uint8 picture H x W x 3, got {image.dtype} {image.shape}")
        self.image = image
        self.height, self.width = image.shape[:2]
        self._top = min(1.0, _LONGEST / max(self.height, self.width))
        self._levels: dict[int, _Level] = {}
        self._planes: dict[int, list[Floats]] = {}

    def nearest(self, ratio: float) -> int:
        """The level whose pixels per picture pixel are nearest to `ratio`."""
        last = max(0, math.floor(2 * math.log2(max(1.0, self._top * min(self.height, self.width) / 8))))
        return min(max(round(-2 * math.log2(ratio / self._top)), 0), last)

    def level(self, k: int) -> _Level:
        if k not in self._levels:
            ratio = self._top * 2 ** (-k / 2)
            w, h = max(1, round(self.width * ratio)), max(1, round(self.height * ratio))
            image = self.image.astype(np.float32)
            if (w, h) != (self.width, self.height):
                image = np.asarray(cv2.resize(image, (w, h), interpolation=cv2.INTER_AREA), np.float32)
            self._levels[k] = _Level(*_structure(image), w / self.width, h / self.height)
        return self._levels[k]

    def planes(self, k: int) -> list[Floats]:
        """The four fields of a level and their energy, each contiguous, with `_BORDER` of zeros around."""
        if k not in self._planes:
            fields = self.level(k).fields
            padded = np.pad(fields, ((_BORDER, _BORDER), (_BORDER, _BORDER), (0, 0)))
            planes = [np.ascontiguousarray(padded[..., c]) for c in range(4)]
            self._planes[k] = [*planes, _dot(padded, padded)]
        return self._planes[k]

    def sample(self, pose: _Pose, w: int, h: int) -> Floats:
        """The fields inside `pose` on a grid of w x h; zeros outside the picture."""
        level = self.level(self.nearest(math.sqrt(w * h / (pose.w * pose.h))))
        out = _cut(level.fields, level, pose, w, h)
        return out * _MIRROR if pose.mirrored else out

    def sharpness(self, pose: _Pose, weight: Floats) -> float:
        """Edge energy at the resolution of `weight`, in units of that at a third of it."""
        h, w = weight.shape
        ratio = math.sqrt(w * h / (pose.w * pose.h))
        levels = [self.level(self.nearest(r)) for r in (ratio, ratio / 2**1.5)]
        fine, coarse = (float(((_cut(v.edges, v, pose, w, h) + 0.5) * weight).sum()) for v in levels)
        return fine / coarse


def _cut(plane: Floats, level: _Level, pose: _Pose, w: int, h: int) -> Floats:
    dx, dy = pose.w * level.x / w * (-1 if pose.mirrored else 1), pose.h * level.y / h
    onto = np.array(
        [
            [dx, 0, pose.x * level.x - 0.5 - dx * (w - 1) / 2],
            [0, dy, pose.y * level.y - 0.5 - dy * (h - 1) / 2],
        ]
    )
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.asarray(cv2.warpAffine(plane, onto, (w, h), flags=flags), np.float32)


class _Frame:
    """The template on one grid, with what aligning to it needs."""

    def __init__(self, fields: Floats) -> None:
        self.h, self.w = fields.shape[:2]
        self.fields, self.weight = fields, _weight(self.w, self.h)
        self._cells = _pool(_dot(fields, fields) * self.weight)
        self.energy = float(self._cells.sum()) * fields.size / 4 / self._cells.size
        # A cell with a tenth of the mean energy counts little, whatever its agreement.
        self._least = 0.1 * float(self._cells.mean()) + 1e-9
        self._most = float((2 * self._cells**2 / (2 * self._cells + self._least)).sum()) + 1e-9
        x = ((np.arange(self.w, dtype=np.float32) + 0.5) / self.w - 0.5)[None, :, None]
        y = ((np.arange(self.h, dtype=np.float32) + 0.5) / self.h - 0.5)[:, None, None]
        across, down = np.gradient(fields, axis=1) * self.w, np.gradient(fields, axis=0) * self.h
        slopes = np.stack([across, down, across * x, down * y], -1)
        self._slopes = (slopes * self.weight[..., None, None]).reshape(-1, 4)
        normal = self._slopes.T @ slopes.reshape(-1, 4)
        self._inverse = np.linalg.inv(normal + np.eye(4) * (1e-3 * np.trace(normal) / 4 + 1e-9))

    def similarity(self, seen: Floats) -> float:
        """Dice coefficient of the cells of a grid, averaged by the template's energy in them; 1 for equal fields."""
        both, its = _pool(_dot(self.fields, seen) * self.weight), _pool(_dot(seen, seen) * self.weight)
        dice = 2 * both / (self._cells + its + self._least)
        return float((dice * self._cells).sum()) / self._most

    def step(self, seen: Floats) -> NDArray[np.float64]:
        """Shift right and down, growth of width and height, as parts of the box, that lead towards the template."""
        gain = float((_dot(self.fields, seen) * self.weight).sum()) / (self.energy + 1e-9)
        difference = (seen / max(gain, 0.3) - self.fields).reshape(-1)
        return np.clip(self._inverse @ (self._slopes.T @ difference), -0.12, 0.12)


class Template:
    """The structure inside one box of a photograph; compares with any number of edited pictures."""

    def __init__(self, base: Pyramid | NDArray[np.uint8], box: tuple[float, float, float, float]) -> None:
        """`box`: x0, y0, x1, y1 in pixels of `base`. Raises `Featureless`, or `ValueError` for a bad box."""
        self.base = base if isinstance(base, Pyramid) else Pyramid(base)
        if not all(map(math.isfinite, box)) or box[0] >= box[2] or box[1] >= box[3]:
            raise ValueError(f"expected a box x0 < x1, y0 < y1 in finite pixels, got {box}")
        x0, y0 = max(box[0], 0.0), max(box[1], 0.0)
        x1, y1 = min(box[2], float(self.base.width)), min(box[3], float(self.base.height))
        if x0 >= x1 or y0 >= y1:
            raise ValueError(f"the box {box} lies outside the picture of {self.base.width} x {self.base.height}")
        self._home = _Pose((x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0)
        self._frames: dict[tuple[int, int], _Frame] = {}
        self._kernels: dict[tuple[int, int, bool], tuple[list[Floats], float]] = {}
        self._plainness: float | None = None
        frame = self._frame(1.0, _FINE)
        if min(x1 - x0, y1 - y0) < 6 or math.sqrt((x1 - x0) * (y1 - y0)) < _SMALLEST:
            raise Featureless(f"the box {box} has too few pixels to be recognised by")
        if frame.energy < 0.1 * float(frame.weight.sum()):
            raise Featureless(f"the box {box} has hardly any edges to be recognised by")

    def matches(self, edited: Pyramid) -> list[_Match]:
        home = self._nominal(edited)
        middle = []
        for pose in self._peaks(edited):
            match = self._align(edited, pose, _MIDDLE, steps=5)
            if match.raw > 0.2:
                middle.append(match)
        middle.sort(key=lambda m: -m.raw)
        distinct: list[_Match] = []
        for m in middle:
            if all(m.pose.mirrored != d.pose.mirrored or m.pose.overlap(d.pose)[0] < 0.6 for d in distinct):
                distinct.append(m)
        fine = [self._align(edited, m.pose, _FINE, steps=6) for m in distinct[:10]]
        near = self._align(edited, home, _MIDDLE, steps=5)
        fine += [self._align(edited, home, _FINE, steps=0), self._align(edited, near.pose, _FINE, steps=6)]
        return [self._sharp(edited, m) for m in fine]

    def _sharp(self, picture: Pyramid, match: _Match) -> _Match:
        """The match, less where there is only a blur of the object: agreement of what is left proves little."""
        frame = self._fit(match.pose, picture, _FINE)
        kept = picture.sharpness(match.pose, frame.weight) / self._base_sharp(frame)
        return match._replace(kept=kept)

    def _base_sharp(self, frame: _Frame) -> float:
        return self.base.sharpness(self._home, frame.weight)

    def _fit(self, pose: _Pose, picture: Pyramid, side: int) -> _Frame:
        home = self._nominal(picture)
        return self._frame(math.sqrt(pose.w * pose.h / (home.w * home.h)), side)

    def _nominal(self, edited: Pyramid) -> _Pose:
        """The box itself in an edited picture that was at most resized."""
        x, y = edited.width / self.base.width, edited.height / self.base.height
        return _Pose(self._home.x * x, self._home.y * y, self._home.w * x, self._home.h * y)

    def _peaks(self, edited: Pyramid) -> list[_Pose]:
        """Places and scales that stand out in a small picture, most outstanding first."""
        home, longest = self._nominal(edited), max(edited.width, edited.height)
        peaks: list[tuple[float, _Pose]] = []
        for scale in _SCALES:
            w, h = home.w * scale, home.h * scale
            side = math.sqrt(w * h)
            if side < _SMALLEST or w > 1.25 * edited.width or h > 1.25 * edited.height:
                continue
            picture = 256 if side * 256 / longest >= _COARSE / 2 else 384
            k = max(edited.nearest(_COARSE / side), edited.nearest(picture / longest))
            level, planes = edited.level(k), edited.planes(k)
            tw, th = max(3, round(w * level.x)), max(3, round(h * level.y))
            if tw > planes[0].shape[1] or th > planes[0].shape[0]:
                continue
            for mirrored in (False, True):
                kernels, energy = self._kernel(tw, th, mirrored)
                *products, its = (cv2.matchTemplate(p, t, cv2.TM_CCORR) for p, t in zip(planes, kernels, strict=True))
                similar = 2 * sum(products) / (energy + np.maximum(its, 0) + 1e-6)
                top = (similar >= cv2.dilate(similar, np.ones((5, 5), np.uint8))) & (similar > 0.15)
                # Chance agrees more at some sizes than at others: rank by standard deviations above the map's mean.
                outstanding = (similar - similar.mean()) / (similar.std() + 1e-6)
                ys, xs = np.nonzero(top)
                for i in np.argsort(-outstanding[ys, xs], kind="stable")[:10]:
                    x, y = (xs[i] - _BORDER + tw / 2) / level.x, (ys[i] - _BORDER + th / 2) / level.y
                    peaks.append((float(outstanding[ys[i], xs[i]]), _Pose(float(x), float(y), w, h, mirrored)))
        peaks.sort(key=lambda p: -p[0])
        kept: list[_Pose] = []
        for _, pose in peaks:
            if all(pose.mirrored != k.mirrored or pose.overlap(k)[0] < 0.6 for k in kept):
                kept.append(pose)
            if len(kept) == _PEAKS:
                break
        return kept

    def _align(self, picture: Pyramid, start: _Pose, side: int, steps: int) -> _Match:
        """The best of the poses that Gauss-Newton visits from `start`, inverse compositional."""
        home = self._nominal(picture)
        frame = self._frame(math.sqrt(start.w * start.h / (home.w * home.h)), side)
        pose, last = start, -math.inf
        best = _Match(start, -1.0, 0.0)
        sign = -1 if start.mirrored else 1
        for step in range(steps + 1):
            seen = picture.sample(pose, frame.w, frame.h)
            raw = frame.similarity(seen)
            if raw > best.raw:
                best = _Match(pose, raw, math.sqrt(frame.w * frame.h))
            if step == steps or raw < last - 0.02:
                break
            last = max(last, raw)
            right, down, wider, taller = (float(d) for d in frame.step(seen))
            pose = _Pose(
                pose.x - sign * right * pose.w,
                pose.y - down * pose.h,
                pose.w / (1 + wider),
                pose.h / (1 + taller),
                pose.mirrored,
            )
            if not (0.75 < pose.w / start.w < 1.33 and 0.75 < pose.h / start.h < 1.33):
                break
        return best

    def _frame(self, scale: float, side: int) -> _Frame:
        w, h = self._home.w * min(1.0, scale), self._home.h * min(1.0, scale)
        ratio = min(1.0, side / math.sqrt(w * h), 2.5 * side / max(w, h))
        key = max(4, round(w * ratio)), max(4, round(h * ratio))
        if key not in self._frames:
            self._frames[key] = _Frame(self.base.sample(self._home, *key))
        return self._frames[key]

    def _kernel(self, w: int, h: int, mirrored: bool) -> tuple[list[Floats], float]:
        """The weighted template to correlate with, the weight itself, and the template's energy."""
        if (w, h, mirrored) not in self._kernels:
            fields, weight = self.base.sample(self._home, w, h), _weight(w, h)
            energy = float((_dot(fields, fields) * weight).sum())
            if mirrored:
                fields = fields[:, ::-1] * _MIRROR
            kernels = [np.ascontiguousarray(fields[..., c] * weight) for c in range(4)]
            self._kernels[w, h, mirrored] = [*kernels, weight], energy
        return self._kernels[w, h, mirrored]


def _structure(image: Floats) -> tuple[Floats, Floats]:
    """The fields (luminance gradient, double-angle colour gradient, over the edge strength around), and the edges."""
    smooth = cv2.GaussianBlur(image, (0, 0), 0.7)
    across = cv2.Scharr(smooth, cv2.CV_32F, 1, 0, scale=1 / 32, borderType=cv2.BORDER_REPLICATE)
    down = cv2.Scharr(smooth, cv2.CV_32F, 0, 1, scale=1 / 32, borderType=cv2.BORDER_REPLICATE)
    luminance, mean = np.array([[0.299, 0.587, 0.114]], np.float32), np.full((1, 3), 1 / 3, np.float32)
    xx, yy = cv2.transform(across * across, mean), cv2.transform(down * down, mean)
    xy = cv2.transform(across * down, mean)
    edges = xx + yy
    around = np.sqrt(cv2.GaussianBlur(edges, (0, 0), 4.0) + _NOISE**2)
    cosine, sine = xx - yy, 2 * xy
    strength = np.sqrt(np.sqrt(cosine * cosine + sine * sine) + 1e-6)
    fields = np.dstack(
        [
            cv2.transform(across, luminance) / around,
            cv2.transform(down, luminance) / around,
            cosine / (strength * around),
            sine / (strength * around),
        ]
    )
    return fields, edges


def _dot(one: Floats, two: Floats) -> Floats:
    """Scalar product of the four fields at every pixel."""
    return np.asarray(cv2.transform(one * two, np.ones((1, 4), np.float32)), np.float32)


def _pool(plane: Floats) -> Floats:
    """Means over a grid of `_CELLS` each way, or over single pixels where there are fewer."""
    h, w = plane.shape
    return np.asarray(cv2.resize(plane, (min(_CELLS, w), min(_CELLS, h)), interpolation=cv2.INTER_AREA), np.float32)


def _weight(w: int, h: int) -> Floats:
    """The middle of a box is object, its corners often background."""
    x, y = (np.arange(w) + 0.5) / w * 2 - 1, (np.arange(h) + 0.5) / h * 2 - 1
    return np.exp(-(x[None, :] ** 2 + y[:, None] ** 2)).astype(np.float32)
