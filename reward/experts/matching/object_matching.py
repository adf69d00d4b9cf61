"""Match an annotated object in an edited photograph by its structure only: no model, no download.

Matching uses edges, not colour (`edge_structure`), so that a recoloured object still matches.

Two regions are compared by the Dice coefficient 2 t.f / (t.t + f.f) of their fields, cell by cell, weighted towards the
middle of the box. The search is coarse to fine: seven scales and both mirror images are correlated with a small image,
then the peaks are aligned (inverse compositional Gauss-Newton, Baker & Matthews 2004) at two resolutions. Peaks in
areas that the edit has not changed are skipped.

A similarity becomes a score relative to the similarity reached by chance, which is lower at the object's old position
than elsewhere, and higher for few pixels and plain shapes; look-alikes in the photograph itself measure it. A region
that was as similar to the object before the edit does not count. The constants below are fitted on scikit-image's
photographs (`python -m studies.performance.matching_quality` evaluates them).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np

from .edge_structure import MARGIN, MIRROR, Corners, Pixels, Plane, Pose, Pyramid, field_product

_SCALES = tuple(2 ** (step / 3) for step in range(-3, 4))
_SMALLEST = 12.0  # pixels, root of the area; smaller objects match by chance
_PLAIN = 0.2  # mean energy of the fields; below, there is only noise
_STRAIGHT = 0.04  # change by a shift of one pixel along the edges; below, there is only one straight edge
_COARSE, _FINE = 24, 64  # side of the template (root of its area, pixels) for the search and for the final score
_OVERVIEW, _CLOSER = 256, 384  # longest side of the image in the search; the second for small objects
_PEAKS = 24  # poses to align; a third of it if little has changed
_CELLS = 6


class TooLittleStructure(ValueError):
    """The box has too little structure, or too few pixels, to be matched."""


@dataclass(frozen=True)
class ObjectMatch:
    """One instance: corners in pixels of the edited image (possibly outside); score in [0, 1], 1: unchanged."""

    x0: float
    y0: float
    x1: float
    y1: float
    score: float


class _PoseMatch(NamedTuple):
    pose: Pose
    similarity: float  # at most about 1
    side: float  # of the grid it was measured on, root of its area, pixels


class _TemplateGrid:
    """A template on one grid, with precomputed values for comparison and alignment."""

    def __init__(self, fields: Plane, weight: Plane, sharpness: float) -> None:
        self.fields, self.weight, self.sharpness = fields, weight, sharpness
        self.h, self.w = weight.shape
        energies = field_product(fields, fields) * weight
        self.energy = float(energies.sum())
        self._cells = _pool(energies)
        self._regulariser = 0.1 * float(self._cells.mean()) + 1e-9  # nearly empty cells carry little evidence
        self._max_similarity = float((2 * self._cells**2 / (2 * self._cells + self._regulariser)).sum()) + 1e-9
        x = ((np.arange(self.w, dtype=np.float32) + 0.5) / self.w - 0.5)[None, :, None]
        y = ((np.arange(self.h, dtype=np.float32) + 0.5) / self.h - 0.5)[:, None, None]
        across, down = np.gradient(fields, axis=1) * self.w, np.gradient(fields, axis=0) * self.h
        slopes = np.stack([across, down, across * x, down * y], -1)
        self._slopes = (slopes * weight[..., None, None]).reshape(-1, 4)
        normal = self._slopes.T @ slopes.reshape(-1, 4)
        shifts = normal[:2, :2] / np.outer((self.w, self.h), (self.w, self.h))
        self.hold = float(np.linalg.eigvalsh(shifts)[0]) / (self.energy + 1e-9)
        self._inverse = np.linalg.inv(normal + np.eye(4) * (2.5e-4 * np.trace(normal) + 1e-9))

    def similarity(self, fields: Plane) -> float:
        """Dice coefficient per cell, averaged by the template's energy; 1 for equal fields."""
        products = _pool(field_product(self.fields, fields) * self.weight)
        energies = _pool(field_product(fields, fields) * self.weight)
        dice = 2 * products * self._cells / (self._cells + energies + self._regulariser)
        return float(dice.sum()) / self._max_similarity

    def step(self, fields: Plane) -> list[float]:
        """Gauss-Newton step: shift right and down, change of width and height, as fractions of the box's sides."""
        gain = float((field_product(self.fields, fields) * self.weight).sum()) / (self.energy + 1e-9)
        difference = self.fields - fields / max(gain, 0.3)
        return [float(d) for d in np.clip(self._inverse @ (self._slopes.T @ difference.reshape(-1)), -0.12, 0.12)]


class ObjectTemplate:
    """The content of one box of a photograph, to be matched in any number of edited images."""

    def __init__(self, base: Pyramid | Pixels, box: Corners) -> None:
        """`box`: x0, y0, x1, y1 in pixels of `base`. Raises `TooLittleStructure`; `ValueError` for an invalid box."""
        self._base = base if isinstance(base, Pyramid) else Pyramid(base)
        if not (all(map(math.isfinite, box)) and box[0] < box[2] and box[1] < box[3]):
            raise ValueError(f"expected a box x0, y0, x1, y1 with x0 < x1 and y0 < y1, got {box}")
        x0, x1 = (min(max(x, 0.0), float(self._base.width)) for x in box[::2])
        y0, y1 = (min(max(y, 0.0), float(self._base.height)) for y in box[1::2])
        if x0 == x1 or y0 == y1:
            raise ValueError(f"the box {box} lies outside the image of {self._base.width} x {self._base.height}")
        if min(x1 - x0, y1 - y0) < _SMALLEST / 2 or (x1 - x0) * (y1 - y0) < _SMALLEST**2:
            raise TooLittleStructure(f"the box {box} has too few pixels to be matched")
        self._home = Pose((x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0)
        self._frames: dict[tuple[int, int], _TemplateGrid] = {}
        self._kernels: dict[tuple[int, int, bool], tuple[tuple[Plane, ...], float]] = {}
        self._excess: float | None = None
        frame = self._frame(1.0, _FINE)
        if frame.energy < _PLAIN * float(frame.weight.sum()):
            raise TooLittleStructure(f"the box {box} has too few edges to be matched")
        if frame.hold < _STRAIGHT:
            raise TooLittleStructure(f"the box {box} has edges in one direction only, which match anywhere along them")
        self._straight = 1.5 * max(0.0, 0.1 - frame.hold)

    def find(self, edited: Pyramid | Pixels, *, min_score: float = 0.05, max_results: int = 20) -> list[ObjectMatch]:
        """Instances of the object in an edited image, best first, overlaps suppressed. edited: uint8 RGB, H x W x 3, of
        any size. Scores below `min_score` are left out, and all but the `max_results` best."""
        target = edited if isinstance(edited, Pyramid) else Pyramid(edited)
        scored = [(self._score(target, match), match.pose) for match in self._matches(target, max_results)]
        kept: list[tuple[float, Pose]] = []
        for score, pose in sorted(scored, key=lambda s: -s[0]):
            if score < max(min_score, 1e-6) or len(kept) >= max_results:
                break
            overlaps = [pose.overlap(other) for _, other in kept]
            # Smaller parts of an instance may resemble it.
            if all(union <= 0.5 and smaller <= 0.6 for union, smaller in overlaps):
                kept.append((score, pose))
        return [ObjectMatch(p.x - p.w / 2, p.y - p.h / 2, p.x + p.w / 2, p.y + p.h / 2, score) for score, p in kept]

    def _score(self, target: Pyramid, match: _PoseMatch) -> float:
        """The score of a match, from its similarity and the similarity reached by chance."""
        x, y = self._ratio(target)
        home = 0.0 if match.pose.mirrored else match.pose.overlap(self._home.scaled(x, y))[0]
        t = min(max((home - 0.75) / 0.25, 0.0), 1.0)
        t = t * t * (3 - 2 * t)
        turned = 0.03 if match.pose.mirrored else 0.0
        chance = _chance_similarity(match.side) + self._plainness() + self._straight + turned
        # At the old position a single pose is tested; elsewhere the best of very many.
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
        """How far look-alikes in the photograph itself exceed the usual chance similarity."""
        if self._excess is None:
            others = [m for m in self._matches(self._base, 10) if m.pose.overlap(self._home)[0] < 0.4]
            self._excess = min(max((m.similarity - _chance_similarity(m.side) for m in others), default=0.0), 0.3)
        return max(self._excess, 0.0)

    def _matches(self, target: Pyramid, max_matches: int) -> list[_PoseMatch]:
        """The most probable poses, including the old one, aligned and compared at the fine level."""
        home = self._home.scaled(*self._ratio(target))
        coarse = [self._align(target, pose, _COARSE, steps=5) for pose in self._peaks(target)]
        distinct: list[_PoseMatch] = []
        for match in sorted(coarse, key=lambda m: -m.similarity):
            if match.similarity > 0.2 and _distinct(match.pose, [m.pose for m in distinct]):
                distinct.append(match)
        promising = distinct[:6] + [m for m in distinct[6:] if m.similarity > 0.6][: max(max_matches - 6, 0)]
        starts = [m.pose for m in promising] + [self._align(target, home, _COARSE, steps=5).pose]
        fine = [self._align(target, pose, _FINE, steps=6) for pose in starts]
        # The old pose without alignment too: alignment fails if little of the object is left.
        return [self._without_blur(target, m) for m in (self._align(target, home, _FINE, steps=0), *fine)]

    def _without_blur(self, target: Pyramid, match: _PoseMatch) -> _PoseMatch:
        """The match with reduced similarity if details are blurred."""
        frame = self._frame(self._scale(target, match.pose), _FINE)
        sharpness_ratio = target.sharpness(match.pose, frame.weight) / frame.sharpness
        lost, similarity = 1 - min(max((sharpness_ratio - 0.1) / 0.25, 0.0), 1.0), min(max(match.similarity, 0.0), 1.0)
        return match._replace(similarity=similarity * (1 - lost * (1 - similarity**2)))

    def _peaks(self, target: Pyramid) -> list[Pose]:
        """Poses (position, scale, mirrored) with outstanding correlation in a small image, best first."""
        home, longest = self._home.scaled(*self._ratio(target)), max(target.width, target.height)
        changes = target.changes_from(self._base)
        if changes.around is None:
            return []
        peaks: list[tuple[float, Pose]] = []
        for scale in _SCALES:
            w, h = home.w * scale, home.h * scale
            side = math.sqrt(w * h)
            if side < _SMALLEST or w > 1.25 * target.width or h > 1.25 * target.height:
                continue
            overview = _OVERVIEW if side * _OVERVIEW >= _SMALLEST * longest else _CLOSER
            k = max(target.nearest(_COARSE / side), target.nearest(overview / longest))
            level, planes = target.level(k), target.planes(k)
            tw, th = max(3, round(w * level.x)), max(3, round(h * level.y))
            if tw > planes[0].shape[1] or th > planes[0].shape[0]:
                continue
            # The part of the planes in which the template overlaps what has changed.
            (x0, y0, x1, y1), (rows, columns) = changes.around, planes[0].shape
            left = min(max(math.floor(x0 * level.x) + MARGIN - tw, 0), columns - tw)
            top = min(max(math.floor(y0 * level.y) + MARGIN - th, 0), rows - th)
            right = max(min(math.ceil(x1 * level.x) + MARGIN + tw, columns), tw)
            bottom = max(min(math.ceil(y1 * level.y) + MARGIN + th, rows), th)
            *fields, power = (plane[top:bottom, left:right] for plane in planes)
            energies = np.maximum(cv2.matchTemplate(power, _weight(tw, th), cv2.TM_CCORR), 0)
            for mirrored in (False, True):
                kernels, energy = self._kernel(tw, th, mirrored)
                products = [cv2.matchTemplate(p, t, cv2.TM_CCORR) for p, t in zip(fields, kernels, strict=True)]
                dice = 2 * np.sum(products, axis=0) / (energy + energies + 1e-6)
                ys, xs = np.nonzero((dice >= cv2.dilate(dice, np.ones((5, 5), np.uint8))) & (dice > 0.25))
                # Chance similarity depends on the size: use standard deviations of the map.
                outstanding = (dice[ys, xs] - dice.mean()) / (dice.std() + 1e-6)
                for i in np.argsort(-outstanding, kind="stable")[: _PEAKS // 2]:
                    x = float(left + xs[i] - MARGIN + tw / 2) / level.x
                    y = float(top + ys[i] - MARGIN + th / 2) / level.y
                    peaks.append((float(outstanding[i]), Pose(x, y, w, h, mirrored)))
        kept: list[Pose] = []
        for _, pose in sorted(peaks, key=lambda p: -p[0]):
            if changes.touch(pose) and _distinct(pose, kept):
                kept.append(pose)
            if len(kept) == (_PEAKS if changes.wide else _PEAKS // 3):
                break
        return kept

    def _align(self, target: Pyramid, start: Pose, side: int, steps: int) -> _PoseMatch:
        """The best pose of a Gauss-Newton alignment from `start`."""
        frame = self._frame(self._scale(target, start), side)
        home = self._home.scaled(*self._ratio(target))
        pose, best, last = start, _PoseMatch(start, -1.0, math.sqrt(frame.w * frame.h)), -1.0
        for step in range(steps + 1):
            fields = target.sample(pose, frame.w, frame.h)
            similarity = frame.similarity(fields)
            if similarity > best.similarity:
                best = best._replace(pose=pose, similarity=similarity)
            if step == steps or similarity < last - 0.02:
                break
            last = max(last, similarity)
            right, down, wider, taller = frame.step(fields)
            x = pose.x + (-right if pose.mirrored else right) * pose.w
            pose = Pose(x, pose.y + down * pose.h, pose.w * (1 + wider), pose.h * (1 + taller), pose.mirrored)
            # A pose with strong stretching is another object.
            stretched, grown = pose.w * home.h / (pose.h * home.w), pose.w * pose.h / (start.w * start.h)
            if not (0.8 < stretched < 1.25 and 0.6 < grown < 1.7):
                break
        return best

    def _ratio(self, target: Pyramid) -> tuple[float, float]:
        return target.width / self._base.width, target.height / self._base.height

    def _scale(self, target: Pyramid, pose: Pose) -> float:
        """Scale of the object at `pose` relative to a merely resized image."""
        x, y = self._ratio(target)
        return math.sqrt(pose.w * pose.h / (self._home.w * self._home.h * x * y))

    def _frame(self, scale: float, side: int) -> _TemplateGrid:
        """The template at `side`, or at the resolution of a copy of this scale if that is lower."""
        w, h = self._home.w * min(1.0, scale), self._home.h * min(1.0, scale)
        ratio = min(1.0, side / math.sqrt(w * h), 2.5 * side / max(w, h))
        w, h = max(4, round(w * ratio)), max(4, round(h * ratio))
        if (w, h) not in self._frames:
            weight = _weight(w, h)
            fields, sharpness = self._base.sample(self._home, w, h), self._base.sharpness(self._home, weight)
            self._frames[w, h] = _TemplateGrid(fields, weight, sharpness)
        return self._frames[w, h]

    def _kernel(self, w: int, h: int, mirrored: bool) -> tuple[tuple[Plane, ...], float]:
        """Correlation kernels for the planes of a level, and the template's energy."""
        if (w, h, mirrored) not in self._kernels:
            fields, weight = self._base.sample(self._home, w, h), _weight(w, h)
            if mirrored:
                fields = fields[:, ::-1] * MIRROR
            kernels = tuple(np.ascontiguousarray(fields[..., c] * weight) for c in range(4))
            self._kernels[w, h, mirrored] = kernels, float((field_product(fields, fields) * weight).sum())
        return self._kernels[w, h, mirrored]


def _chance_similarity(side: float) -> float:
    """95th percentile of the best similarity at a wrong pose, on a grid of side x side pixels."""
    return 0.74 - 0.0075 * side


def _distinct(pose: Pose, others: list[Pose]) -> bool:
    return all(pose.mirrored != other.mirrored or pose.overlap(other)[0] < 0.6 for other in others)


def _pool(plane: Plane) -> Plane:
    """Means over cells."""
    h, w = plane.shape
    return np.asarray(cv2.resize(plane, (min(_CELLS, w), min(_CELLS, h)), interpolation=cv2.INTER_AREA), np.float32)


def _weight(w: int, h: int) -> Plane:
    """The middle of a box is object; its corners are background."""
    x, y = (np.arange(w) + 0.5) / w * 2 - 1, (np.arange(h) + 0.5) / h * 2 - 1
    return np.exp(-(x[None, :] ** 2) - y[:, None] ** 2).astype(np.float32)
