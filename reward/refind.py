"""Find an annotated object again in an edited photograph, by its structure alone: no model, no download.

Identity rests on edges, not on colour, so that a recoloured object is still itself. Every pixel carries four numbers,
each divided by the edge strength around it: the gradient of the luminance, which tells patterns apart, and that of all
colours together with its angle doubled (Granlund 1978; Di Zenzo 1986), which has no sign and survives dark becoming
light. Where nothing is to be seen they are zero, so that blank areas agree with nothing.

Two places are compared by the Dice coefficient 2 t.f / (t.t + f.f) of these fields, cell by cell, most of all in the
middle of the box. The search goes from coarse to fine: seven scales and both mirror images are correlated with a small
picture, then the peaks are aligned (inverse compositional Gauss-Newton, Baker & Matthews 2004) at two resolutions,
but for those where the edit has not changed the picture: nothing new can be there.

A similarity becomes a score by what chance reaches: less at the object's old place than anywhere else, more for few
pixels and for plain shapes, which the photograph itself tells by its look-alikes. And what looked as much like the
object before the edit is not the object now. The constants below are fitted on scikit-image's photographs
(`python -m editcritic.benchmarks.perf.refind_quality` prints what they are worth).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
Plane = NDArray[np.float32]
Corners = tuple[float, float, float, float]

_LONGEST = 1024  # pixels: larger pictures are reduced first
_NOISE = 2.5  # grey levels per pixel: gradients well below are taken for sensor or JPEG noise
_SCALES = tuple(2 ** (step / 3) for step in range(-3, 4))
_SMALLEST = 12.0  # pixels, root of the area: of less, chance finds the like everywhere
_PLAIN = 0.2  # mean energy of the fields: of less, there is noise only
_STRAIGHT = 0.04  # what a shift by one pixel along the edges changes: of less, there is one straight edge only
_COARSE, _FINE = 24, 64  # side of the template (root of its area, pixels) for the search, and for the verdict
_OVERVIEW, _CLOSER = 256, 384  # longest side of the picture in the search; the second for small objects
_MARGIN = 8  # pixels of nothing around it, for objects that its edge cuts
_PEAKS = 24
_SURVEY = 160  # longest side of the picture when it is looked through for changes
_CHANGED = 0.4  # mean squared difference of the fields: new structure has 1 to 2; recolouring and sharpening stay below
_TOUCHED = 0.15  # share of changed pixels: of less, whatever is there was there before the edit
_CELLS = 6
_MIRROR = np.array([-1, 1, 1, -1], np.float32)


class Featureless(ValueError):
    """The box has too little structure, or too few pixels, to be recognised by."""


@dataclass(frozen=True)
class Found:
    """One instance: corners in pixels of the edited picture (maybe outside of it); score in [0, 1], 1: unchanged."""

    x0: float
    y0: float
    x1: float
    y1: float
    score: float


def find_again(base: Pixels, box: Corners, edited: Pixels, *, floor: float = 0.05, limit: int = 20) -> list[Found]:
    """Instances in `edited` of the object inside `box` of `base`, best first, overlaps suppressed.

    `base`, `edited`: uint8 RGB, H x W x 3, each of any size. `box`: x0, y0, x1, y1 in pixels of `base`; what lies
    outside the picture is ignored. Scores below `floor` are left out, and all but the `limit` best. Raises
    `Featureless` when the box has nothing to be recognised by, `ValueError` for a box that is none or an array that
    is no picture. To compare many edits or boxes, build `Template` and `Pyramid` once and use `Template.find`.
    """
    return Template(base, box).find(edited, floor=floor, limit=limit)


class _Pose(NamedTuple):
    """Where a template lies: centre and size in pixels of a picture; turned left to right or not."""

    x: float
    y: float
    w: float
    h: float
    mirrored: bool = False

    def overlap(self, other: _Pose) -> tuple[float, float]:
        """The intersection as a part of the union, and of the smaller of the two."""
        w = min(self.x + self.w / 2, other.x + other.w / 2) - max(self.x - self.w / 2, other.x - other.w / 2)
        h = min(self.y + self.h / 2, other.y + other.h / 2) - max(self.y - self.h / 2, other.y - other.h / 2)
        shared, one, two = max(0.0, w) * max(0.0, h), self.w * self.h, other.w * other.h
        return shared / (one + two - shared), shared / min(one, two)

    def scaled(self, x: float, y: float) -> _Pose:
        return self._replace(x=self.x * x, y=self.y * y, w=self.w * x, h=self.h * y)


class _Match(NamedTuple):
    pose: _Pose
    similarity: float  # at most about 1
    side: float  # of the grid it was measured on, root of its area, pixels


class _Level(NamedTuple):
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
        self._levels: dict[int, _Level] = {}
        self._planes: dict[int, tuple[Plane, ...]] = {}
        self._changes: tuple[Pyramid, _Changes] | None = None

    def nearest(self, ratio: float) -> int:
        """The level whose pixels per pixel of the picture come nearest to `ratio`."""
        return min(max(round(-2 * math.log2(ratio / self._top)), 0), self._last)

    def level(self, k: int) -> _Level:
        """The structure at `_top * 2 ** (-k / 2)` of the resolution."""
        if k not in self._levels:
            ratio = self._top * 2 ** (-k / 2)
            w, h = max(1, round(self.width * ratio)), max(1, round(self.height * ratio))
            image = cv2.resize(self._image.astype(np.float32), (w, h), interpolation=cv2.INTER_AREA)
            self._levels[k] = _Level(*_structure(np.asarray(image, np.float32)), w / self.width, h / self.height)
        return self._levels[k]

    def planes(self, k: int) -> tuple[Plane, ...]:
        """The four fields of a level and their energy, one by one, each with a margin of zeros."""
        if k not in self._planes:
            padded = np.pad(self.level(k).fields, ((_MARGIN, _MARGIN), (_MARGIN, _MARGIN), (0, 0)))
            fields = (np.ascontiguousarray(padded[..., c]) for c in range(4))
            self._planes[k] = (*fields, _dot(padded, padded))
        return self._planes[k]

    def changes(self, base: Pyramid) -> _Changes:
        """Where this picture differs from the base picture, of which it may be an edit."""
        known = self._changes
        if known is None or known[0] is not base:
            known = self._changes = base, _Changes(self, base)
        return known[1]

    def sample(self, pose: _Pose, w: int, h: int) -> Plane:
        """The fields inside `pose` on a grid of h x w x 4; zeros outside the picture."""
        level = self.level(self.nearest(math.sqrt(w * h / (pose.w * pose.h))))
        fields = _cut(level.fields, level, pose, w, h)
        return fields * _MIRROR if pose.mirrored else fields

    def sharpness(self, pose: _Pose, weight: Plane) -> float:
        """Edge energy inside `pose` at the resolution of `weight`, as a multiple of that at a third of it."""
        h, w = weight.shape
        ratio = math.sqrt(w * h / (pose.w * pose.h))
        levels = [self.level(self.nearest(r)) for r in (ratio, ratio / 2**1.5)]
        # Half a squared grey level per pixel: nothing is not sharper than nothing.
        fine, coarse = (float(((_cut(v.edges, v, pose, w, h) + 0.5) * weight).sum()) for v in levels)
        return fine / coarse


class _Changes:
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
        changed = (cv2.blur(_dot(apart, apart), (5, 5)) > _CHANGED).astype(np.uint8)
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

    def touch(self, pose: _Pose) -> bool:
        """Whether enough of a place has changed for something new to be there."""
        if self.everywhere:
            return True
        h, w = self._sums.shape[0] - 1, self._sums.shape[1] - 1
        x0, x1 = (min(max(round(x * self._x), 0), w) for x in (pose.x - pose.w / 2, pose.x + pose.w / 2))
        y0, y1 = (min(max(round(y * self._y), 0), h) for y in (pose.y - pose.h / 2, pose.y + pose.h / 2))
        inside = self._sums[y1, x1] - self._sums[y0, x1] - self._sums[y1, x0] + self._sums[y0, x0]
        return bool(inside >= _TOUCHED * max((x1 - x0) * (y1 - y0), 1))


class _Frame:
    """A template on one grid, with what comparing and aligning need."""

    def __init__(self, fields: Plane, weight: Plane, sharpness: float) -> None:
        self.fields, self.weight, self.sharpness = fields, weight, sharpness
        self.h, self.w = weight.shape
        energies = _dot(fields, fields) * weight
        self.energy = float(energies.sum())
        self._cells = _pool(energies)
        self._least = 0.1 * float(self._cells.mean()) + 1e-9  # nearly empty cells prove little by agreeing
        self._most = float((2 * self._cells**2 / (2 * self._cells + self._least)).sum()) + 1e-9
        x = ((np.arange(self.w, dtype=np.float32) + 0.5) / self.w - 0.5)[None, :, None]
        y = ((np.arange(self.h, dtype=np.float32) + 0.5) / self.h - 0.5)[:, None, None]
        across, down = np.gradient(fields, axis=1) * self.w, np.gradient(fields, axis=0) * self.h
        slopes = np.stack([across, down, across * x, down * y], -1)
        self._slopes = (slopes * weight[..., None, None]).reshape(-1, 4)
        normal = self._slopes.T @ slopes.reshape(-1, 4)
        shifts = normal[:2, :2] / np.outer((self.w, self.h), (self.w, self.h))
        self.hold = float(np.linalg.eigvalsh(shifts)[0]) / (self.energy + 1e-9)
        self._inverse = np.linalg.inv(normal + np.eye(4) * (2.5e-4 * np.trace(normal) + 1e-9))

    def similarity(self, seen: Plane) -> float:
        """Dice coefficient in each cell, averaged by the energy that the template has there; 1 for equal fields."""
        shared, its = _pool(_dot(self.fields, seen) * self.weight), _pool(_dot(seen, seen) * self.weight)
        return float((2 * shared * self._cells / (self._cells + its + self._least)).sum()) / self._most

    def step(self, seen: Plane) -> list[float]:
        """Where the template seems to lie: shift right and down, wider, taller, as parts of the box's sides."""
        gain = float((_dot(self.fields, seen) * self.weight).sum()) / (self.energy + 1e-9)
        difference = self.fields - seen / max(gain, 0.3)
        return [float(d) for d in np.clip(self._inverse @ (self._slopes.T @ difference.reshape(-1)), -0.12, 0.12)]


class Template:
    """What is inside one box of a photograph; finds it in any number of edited pictures."""

    def __init__(self, base: Pyramid | Pixels, box: Corners) -> None:
        """`box`: x0, y0, x1, y1 in pixels of `base`. Raises `Featureless`; `ValueError` for what is no box in it."""
        self._base = base if isinstance(base, Pyramid) else Pyramid(base)
        if not (all(map(math.isfinite, box)) and box[0] < box[2] and box[1] < box[3]):
            raise ValueError(f"expected a box x0, y0, x1, y1 with x0 < x1 and y0 < y1, got {box}")
        x0, x1 = (min(max(x, 0.0), float(self._base.width)) for x in box[::2])
        y0, y1 = (min(max(y, 0.0), float(self._base.height)) for y in box[1::2])
        if x0 == x1 or y0 == y1:
            raise ValueError(f"the box {box} lies outside the picture of {self._base.width} x {self._base.height}")
        if min(x1 - x0, y1 - y0) < _SMALLEST / 2 or (x1 - x0) * (y1 - y0) < _SMALLEST**2:
            raise Featureless(f"the box {box} has too few pixels to be recognised by")
        self._home = _Pose((x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0)
        self._frames: dict[tuple[int, int], _Frame] = {}
        self._kernels: dict[tuple[int, int, bool], tuple[tuple[Plane, ...], float]] = {}
        self._excess: float | None = None
        frame = self._frame(1.0, _FINE)
        if frame.energy < _PLAIN * float(frame.weight.sum()):
            raise Featureless(f"the box {box} has hardly any edges to be recognised by")
        if frame.hold < _STRAIGHT:
            raise Featureless(f"the box {box} has edges in one direction only: it looks the same all along them")
        self._straight = 1.5 * max(0.0, 0.1 - frame.hold)

    def find(self, edited: Pyramid | Pixels, *, floor: float = 0.05, limit: int = 20) -> list[Found]:
        """As `find_again`."""
        picture = edited if isinstance(edited, Pyramid) else Pyramid(edited)
        scored = [(self._score(picture, match), match.pose) for match in self._matches(picture, limit)]
        kept: list[tuple[float, _Pose]] = []
        for score, pose in sorted(scored, key=lambda s: -s[0]):
            if score < max(floor, 1e-6) or len(kept) >= limit:
                break
            overlaps = [pose.overlap(other) for _, other in kept]
            # Inside an instance there are smaller things that look like it.
            if all(union <= 0.5 and smaller <= 0.6 for union, smaller in overlaps):
                kept.append((score, pose))
        return [Found(p.x - p.w / 2, p.y - p.h / 2, p.x + p.w / 2, p.y + p.h / 2, score) for score, p in kept]

    def _score(self, picture: Pyramid, match: _Match) -> float:
        """How sure, from the similarity and from what chance would reach there."""
        x, y = self._ratio(picture)
        home = 0.0 if match.pose.mirrored else match.pose.overlap(self._home.scaled(x, y))[0]
        t = min(max((home - 0.75) / 0.25, 0.0), 1.0)
        t = t * t * (3 - 2 * t)
        chance = _chance(match.side) + self._plainness() + self._straight + (0.03 if match.pose.mirrored else 0.0)
        # Where the object was, one place is looked at; elsewhere, the best of very many.
        level = (1 - t) * min(chance, 0.85) + t * (0.32 - 0.002 * match.side + 0.5 * self._plainness())
        if match.similarity <= level:
            return 0.0
        if home < 0.5:
            before = self._align(self._base, match.pose.scaled(1 / x, 1 / y), _FINE, steps=4)
            if before.pose.overlap(self._home)[0] < 0.4:
                level = min(max(level, before.similarity + 0.05), 0.95)
        rest = 1 - min(max((match.similarity - level) / (1 - level), 0.0), 1.0)
        return float(1 - rest ** (1.2 + 0.3 * t))

    def _plainness(self) -> float:
        """By how much the look-alikes in the photograph itself surpass what chance reaches with most objects."""
        if self._excess is None:
            others = [m for m in self._matches(self._base, 10) if m.pose.overlap(self._home)[0] < 0.4]
            self._excess = min(max((m.similarity - _chance(m.side) for m in others), default=0.0), 0.3)
        return max(self._excess, 0.0)

    def _matches(self, picture: Pyramid, limit: int) -> list[_Match]:
        """The likeliest places, the old one among them, aligned and compared at the fine level."""
        home = self._home.scaled(*self._ratio(picture))
        coarse = [self._align(picture, pose, _COARSE, steps=5) for pose in self._peaks(picture)]
        distinct: list[_Match] = []
        for match in sorted(coarse, key=lambda m: -m.similarity):
            if match.similarity > 0.2 and _distinct(match.pose, [m.pose for m in distinct]):
                distinct.append(match)
        promising = distinct[:6] + [m for m in distinct[6:] if m.similarity > 0.6][: max(limit - 6, 0)]
        starts = [m.pose for m in promising] + [self._align(picture, home, _COARSE, steps=5).pose]
        fine = [self._align(picture, pose, _FINE, steps=6) for pose in starts]
        # Exactly where it was, too: alignment has nothing to hold on to when little of the object is left.
        return [self._without_blur(picture, m) for m in (self._align(picture, home, _FINE, steps=0), *fine)]

    def _without_blur(self, picture: Pyramid, match: _Match) -> _Match:
        """The match with less similarity where the details are gone: a smear of the object is not the object."""
        frame = self._frame(self._scale(picture, match.pose), _FINE)
        kept = picture.sharpness(match.pose, frame.weight) / frame.sharpness
        lost, similarity = 1 - min(max((kept - 0.1) / 0.25, 0.0), 1.0), min(max(match.similarity, 0.0), 1.0)
        return match._replace(similarity=similarity * (1 - lost * (1 - similarity**2)))

    def _peaks(self, picture: Pyramid) -> list[_Pose]:
        """Places, scales and mirror images that stand out in a small picture, most outstanding first."""
        home, longest = self._home.scaled(*self._ratio(picture)), max(picture.width, picture.height)
        changes = picture.changes(self._base)
        if changes.around is None:
            return []
        peaks: list[tuple[float, _Pose]] = []
        for scale in _SCALES:
            w, h = home.w * scale, home.h * scale
            side = math.sqrt(w * h)
            if side < _SMALLEST or w > 1.25 * picture.width or h > 1.25 * picture.height:
                continue
            overview = _OVERVIEW if side * _OVERVIEW >= _SMALLEST * longest else _CLOSER
            k = max(picture.nearest(_COARSE / side), picture.nearest(overview / longest))
            level, planes = picture.level(k), picture.planes(k)
            tw, th = max(3, round(w * level.x)), max(3, round(h * level.y))
            if tw > planes[0].shape[1] or th > planes[0].shape[0]:
                continue
            left, top, right, bottom = _window(changes.around, level, tw, th, planes[0].shape)
            *fields, power = (plane[top:bottom, left:right] for plane in planes)
            its = np.maximum(cv2.matchTemplate(power, _weight(tw, th), cv2.TM_CCORR), 0)
            for mirrored in (False, True):
                kernels, energy = self._kernel(tw, th, mirrored)
                products = [cv2.matchTemplate(p, t, cv2.TM_CCORR) for p, t in zip(fields, kernels, strict=True)]
                dice = 2 * np.sum(products, axis=0) / (energy + its + 1e-6)
                ys, xs = np.nonzero((dice >= cv2.dilate(dice, np.ones((5, 5), np.uint8))) & (dice > 0.25))
                # Chance agrees more at some sizes than at others: count standard deviations of the map.
                outstanding = (dice[ys, xs] - dice.mean()) / (dice.std() + 1e-6)
                for i in np.argsort(-outstanding, kind="stable")[: _PEAKS // 2]:
                    x = float(left + xs[i] - _MARGIN + tw / 2) / level.x
                    y = float(top + ys[i] - _MARGIN + th / 2) / level.y
                    peaks.append((float(outstanding[i]), _Pose(x, y, w, h, mirrored)))
        kept: list[_Pose] = []
        for _, pose in sorted(peaks, key=lambda p: -p[0]):
            if changes.touch(pose) and _distinct(pose, kept):
                kept.append(pose)
            if len(kept) == (_PEAKS if changes.wide else _PEAKS // 3):
                break
        return kept

    def _align(self, picture: Pyramid, start: _Pose, side: int, steps: int) -> _Match:
        """The best of the poses that Gauss-Newton visits on its way from `start`."""
        frame = self._frame(self._scale(picture, start), side)
        home = self._home.scaled(*self._ratio(picture))
        pose, best, last = start, _Match(start, -1.0, math.sqrt(frame.w * frame.h)), -1.0
        for step in range(steps + 1):
            seen = picture.sample(pose, frame.w, frame.h)
            similarity = frame.similarity(seen)
            if similarity > best.similarity:
                best = best._replace(pose=pose, similarity=similarity)
            if step == steps or similarity < last - 0.02:
                break
            last = max(last, similarity)
            right, down, wider, taller = frame.step(seen)
            x = pose.x + (-right if pose.mirrored else right) * pose.w
            pose = _Pose(x, pose.y + down * pose.h, pose.w * (1 + wider), pose.h * (1 + taller), pose.mirrored)
            # A thing that has to be stretched to fit is another thing.
            stretched, grown = pose.w * home.h / (pose.h * home.w), pose.w * pose.h / (start.w * start.h)
            if not (0.8 < stretched < 1.25 and 0.6 < grown < 1.7):
                break
        return best

    def _ratio(self, picture: Pyramid) -> tuple[float, float]:
        return picture.width / self._base.width, picture.height / self._base.height

    def _scale(self, picture: Pyramid, pose: _Pose) -> float:
        """How much larger the object is at `pose` than in a picture that was only resized."""
        x, y = self._ratio(picture)
        return math.sqrt(pose.w * pose.h / (self._home.w * self._home.h * x * y))

    def _frame(self, scale: float, side: int) -> _Frame:
        """The template at `side` or at the resolution that a copy of this scale has, if that is less."""
        w, h = self._home.w * min(1.0, scale), self._home.h * min(1.0, scale)
        ratio = min(1.0, side / math.sqrt(w * h), 2.5 * side / max(w, h))
        w, h = max(4, round(w * ratio)), max(4, round(h * ratio))
        if (w, h) not in self._frames:
            weight = _weight(w, h)
            fields, sharpness = self._base.sample(self._home, w, h), self._base.sharpness(self._home, weight)
            self._frames[w, h] = _Frame(fields, weight, sharpness)
        return self._frames[w, h]

    def _kernel(self, w: int, h: int, mirrored: bool) -> tuple[tuple[Plane, ...], float]:
        """What to correlate the planes of a level with, and the template's energy."""
        if (w, h, mirrored) not in self._kernels:
            fields, weight = self._base.sample(self._home, w, h), _weight(w, h)
            if mirrored:
                fields = fields[:, ::-1] * _MIRROR
            kernels = tuple(np.ascontiguousarray(fields[..., c] * weight) for c in range(4))
            self._kernels[w, h, mirrored] = kernels, float((_dot(fields, fields) * weight).sum())
        return self._kernels[w, h, mirrored]


def _chance(side: float) -> float:
    """The similarity that one in twenty of the best wrong places surpasses, on a grid of side x side pixels."""
    return 0.74 - 0.0075 * side


def _window(around: Corners, level: _Level, tw: int, th: int, shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """The part of a level's planes in which a template of tw x th can lie and still touch what is inside `around`."""
    x0, y0, x1, y1 = around
    left = max(math.floor(x0 * level.x) + _MARGIN - tw, 0)
    top = max(math.floor(y0 * level.y) + _MARGIN - th, 0)
    right = min(math.ceil(x1 * level.x) + _MARGIN + tw, shape[1])
    bottom = min(math.ceil(y1 * level.y) + _MARGIN + th, shape[0])
    return min(left, shape[1] - tw), min(top, shape[0] - th), max(right, tw), max(bottom, th)


def _distinct(pose: _Pose, others: list[_Pose]) -> bool:
    return all(pose.mirrored != other.mirrored or pose.overlap(other)[0] < 0.6 for other in others)


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


def _cut(plane: Plane, level: _Level, pose: _Pose, w: int, h: int) -> Plane:
    """What lies inside `pose`, on a grid of w x h."""
    dx, dy = pose.w * level.x / w * (-1 if pose.mirrored else 1), pose.h * level.y / h
    x, y = pose.x * level.x - 0.5 - dx * (w - 1) / 2, pose.y * level.y - 0.5 - dy * (h - 1) / 2
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.asarray(cv2.warpAffine(plane, np.array([[dx, 0, x], [0, dy, y]]), (w, h), flags=flags), np.float32)


def _dot(one: Plane, two: Plane) -> Plane:
    """Scalar product of the four fields at every pixel."""
    return np.asarray(cv2.transform(one * two, np.ones((1, 4), np.float32)), np.float32)


def _pool(plane: Plane) -> Plane:
    """Means over cells."""
    h, w = plane.shape
    return np.asarray(cv2.resize(plane, (min(_CELLS, w), min(_CELLS, h)), interpolation=cv2.INTER_AREA), np.float32)


def _weight(w: int, h: int) -> Plane:
    """The middle of a box is object; its corners are background."""
    x, y = (np.arange(w) + 0.5) / w * 2 - 1, (np.arange(h) + 0.5) / h * 2 - 1
    return np.exp(-(x[None, :] ** 2) - y[:, None] ** 2).astype(np.float32)
