"""What of an object still stands at its place in an edited image, and which of its pixels were recoloured."""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from .alignment import align
from .patch_descriptors import Plane, averaged, size_within, to_lab

WholeCorners = tuple[int, int, int, int]

_LIGHTNESS = 0.6  # weight of lightness beside a* and b*: shade changes it most
_BLUR = 8.0  # CIE L*a*b* distance over which one colour becomes another
_REACH = 0.5  # of the box's side (root of its area): how far from a pixel its surroundings count
_ALIKE = (0.03, 0.2)
"""A pixel belongs a little to the surroundings if 3 % of those near it look like it, and entirely at 20 %."""
_SAMPLES = 400
_FEWEST_AROUND = 20
"""Pixels around a box, below which nothing is known of its surroundings, and all of the box is the object's."""


def own_pixels(lab: Plane, box: WholeCorners) -> Plane:
    """H x W in [0, 1]: how much each pixel of an image (H x W x 3, CIE L*a*b*) belongs to the object in a box. box: x0,
    y0, x1, y1 in pixels; 0 outside of it. The image is a cut-out that shows what is around the box. Colours are
    compared with those around the box, nearer ones more: a thin object in a wide box is found, and what continues
    around it (a face behind glasses) is not its own."""
    x0, y0, x1, y1 = box
    inside = np.zeros(lab.shape[:2], bool)
    inside[y0:y1, x0:x1] = True
    own = inside.astype(np.float32)
    around = np.argwhere(~inside)
    if len(around) < _FEWEST_AROUND or not inside.any():
        return own
    around = around[:: max(1, len(around) // _SAMPLES)]
    colours = lab * np.array([_LIGHTNESS, 1, 1], np.float32)
    near = _kernel(np.argwhere(inside), around, _REACH * float(np.sqrt((x1 - x0) * (y1 - y0))))
    alike = _kernel(colours[inside], colours[tuple(around.T)], _BLUR)
    own[inside] = 1 - _belonging((near * alike).sum(1) / np.maximum(near.sum(1), 1e-9))
    return own


def _belonging(share: Plane) -> Plane:
    """In [0, 1]: how much a pixel belongs to others, by the share of these that look like it."""
    low, high = _ALIKE
    t = np.clip((share - low) / (high - low), 0, 1)
    return np.asarray(t * t * (3 - 2 * t), np.float32)


def _kernel(first: NDArray[np.generic], second: NDArray[np.generic], spread: float) -> Plane:
    """n x m: exp(-d^2 / (2 spread^2)) of the distances of points."""
    a, b = first.astype(np.float32), second.astype(np.float32)
    squares = (a * a).sum(1)[:, None] + (b * b).sum(1) - 2 * (a @ b.T)
    return np.asarray(np.exp(np.maximum(squares, 0) * (-0.5 / spread**2)), np.float32)


Corners = tuple[float, float, float, float]

_SIDE = 96  # pixels: longest side of a box when it is compared
_MARGIN = 0.4  # of the box's side: what is cut out around it
_WINDOW = 2.0  # pixels: standard deviation of the window in which structures are compared
_NOISE = 2.0  # CIE L*a*b*: weaker structure is noise
_STRONG = 20.0  # CIE L*a*b*: stronger structure counts no more
_REGION = 0.12  # of the box's side: standard deviation of the places that are looked at as a whole
_WHOLE = 0.75  # share of a place from which on it stands as it was
_RECOLOURED = 0.4  # share of a place whose structure is as before, in other colours, from which on it stands recoloured
_SAME_COLOUR = 6.0  # CIE L*a*b*: mean colours up to which a place looks the same
_OTHER_COLOUR = (4.0, 10.0)  # CIE L*a*b*: from where on it looks different, and where it does so entirely
_RELIT = (6.0, 20.0)  # CIE L*a*b*: what another background's light does to colours, and from where on they are others
_DRAWN_ANEW = 0.85  # agreement of structures that an editor has which draws the same object once more
_FEWEST = 4.0  # own pixels from which on an object can be compared by itself
_WIDE = 128  # pixels: longest side of a picture when all of it is compared


class CutOut(NamedTuple):
    """A box of the source with what is around it. zoom: sides of the picture that it is resized by. corners: of the
    cut-out in pixels of the picture. box: in pixels of the cut-out. lab: H x W x 3, own: H x W."""

    corners: tuple[int, int, int, int]
    size: tuple[int, int]
    lab: Plane
    own: Plane
    inside: NDArray[np.bool_]

    def of(self, picture: Plane) -> Plane:
        """The same part of another picture of the same size, as CIE L*a*b*."""
        x0, y0, x1, y1 = self.corners
        return to_lab(averaged(picture[y0:y1, x0:x1], self.size))


def cut_out(picture: Plane, box: Corners) -> CutOut:
    """box: x0, y0, x1, y1 in pixels of the picture (H x W x 3, 0 to 255), which it overlaps."""
    height, width = picture.shape[:2]
    x0, x1 = (min(max(x, 0.0), float(width)) for x in box[::2])
    y0, y1 = (min(max(y, 0.0), float(height)) for y in box[1::2])
    margin = max(4.0, _MARGIN * float(np.sqrt((x1 - x0) * (y1 - y0))))
    left, top = int(max(0, x0 - margin)), int(max(0, y0 - margin))
    right, bottom = int(np.ceil(min(width, x1 + margin))), int(np.ceil(min(height, y1 + margin)))
    zoom = min(1.0, _SIDE / max(x1 - x0, y1 - y0, 1.0))
    size = (max(1, round((right - left) * zoom)), max(1, round((bottom - top) * zoom)))
    across, down = size[0] / (right - left), size[1] / (bottom - top)
    lab = to_lab(averaged(picture[top:bottom, left:right], size))
    place = (
        *(round((x0 - left) * across), round((y0 - top) * down)),
        *(max(round((x1 - left) * across), 1), max(round((y1 - top) * down), 1)),
    )
    own = own_pixels(lab, place)
    inside = np.zeros(own.shape, bool)
    inside[place[1] : place[3], place[0] : place[2]] = True
    return CutOut((left, top, right, bottom), size, lab, own, inside)


def standing_share(cut: CutOut, edited: Plane) -> float:
    """In [0, 1]: how much of the object still stands in an edited picture (H x W x 3, aligned to the source's). The
    largest of three shares of the object's own pixels: of its structure in places where all of it is as before; of its
    structure in places where it is as before in other colours (a tint, a ghost); of its area where all looks as before.
    Places count as a whole, since what was behind an object, and shows between its parts, is as before too."""
    match = compare(cut.lab, cut.of(edited))
    around = np.asarray(cv2.dilate(cut.own, np.ones((3, 3), np.uint8)), np.float32)
    weight = np.asarray(around * cut.inside * np.minimum(match.strength, _STRONG), np.float32)
    spread = _REGION * float(np.sqrt(np.count_nonzero(cut.inside)))
    structure = _share(weight, _local_share(weight, match.agreement, spread) > _WHOLE)
    altered = _share(weight, _local_share(weight, match.agreement * recoloured(match.distance), spread) > _RECOLOURED)
    same = (match.distance < _SAME_COLOUR).astype(np.float32)
    area = _share(cut.own, _grown(_local_share(cut.own, same, spread) > _WHOLE, spread) * same)
    return max(structure, altered, area)


def unchanged_share(cut: CutOut, edited: Plane) -> float | None:
    """In [0, 1]: how much of the object's own pixels is as it was, in colours and in structure, whichever is less; in
    colours alone where it is plain, None where too few pixels are its own. Along its outline structure is that of the
    background too, and does not count."""
    match = compare(cut.lab, cut.of(edited))
    core = np.asarray(cv2.erode(cut.own * cut.inside, np.ones((5, 5), np.uint8)), np.float32)
    if core.sum() < _FEWEST:
        return None
    low, high = _RELIT
    colours = _share(core, 1 - np.clip((match.distance - low) / (high - low), 0, 1))
    structured = core * np.minimum(match.strength, _STRONG) * (match.strength > _NOISE)
    if not structured.any():
        return colours
    return min(colours, 1.0, _share(structured, match.agreement) / _DRAWN_ANEW)


def recoloured(distance: Plane) -> Plane:
    """In [0, 1]: whether a place has another colour, by the distance of its mean colours."""
    low, high = _OTHER_COLOUR
    return np.asarray(np.clip((distance - low) / (high - low), 0, 1), np.float32)


def kept_around(source: Plane, edited: Plane, boxes: list[Corners], visible: NDArray[np.bool_] | None = None) -> float:
    """In [0, 1]: how much of the structure outside of the boxes is where it was; 1 where there is next to none. source,
    edited: H x W x 3. visible: H x W, what the edited picture shows of the source's frame."""
    zoom, size = min(1.0, _WIDE / max(source.shape[:2])), size_within(source, _WIDE)
    match = compare(*(to_lab(averaged(picture, size)) for picture in (source, edited)))
    weight = np.minimum(match.strength, _STRONG) * (match.strength > _NOISE)
    for x0, y0, x1, y1 in boxes:
        weight[int(y0 * zoom) : int(np.ceil(y1 * zoom)), int(x0 * zoom) : int(np.ceil(x1 * zoom))] = 0
    if visible is not None:
        weight *= cv2.resize(visible.astype(np.float32), size, interpolation=cv2.INTER_AREA)
    return _share(weight, match.agreement) if np.count_nonzero(weight) > 0.02 * weight.size else 1.0


class Match(NamedTuple):
    """H x W each. agreement: of structures, in [0, 1]. strength: of the source's structure. distance: of colours."""

    agreement: Plane
    strength: Plane
    distance: Plane


def compare(before: Plane, after: Plane) -> Match:
    """Two pictures in CIE L*a*b*, in a window about each pixel. Structures agree in lightness or in all three."""
    mean_before, mean_after = _blurred(before), _blurred(after)
    variance_before = np.maximum(_blurred(before * before) - mean_before**2, 0)
    variance_after = np.maximum(_blurred(after * after) - mean_after**2, 0)
    covariance = _blurred(before * after) - mean_before * mean_after
    light = (part[..., 0] for part in (covariance, variance_before, variance_after))
    whole = (part.sum(2) for part in (covariance, variance_before, variance_after))
    agreement = np.maximum(*(c / np.sqrt((a + _NOISE**2) * (b + _NOISE**2)) for c, a, b in (light, whole)))
    distance = np.asarray(np.linalg.norm(mean_before - mean_after, axis=2), np.float32)
    return Match(np.clip(agreement, 0, 1).astype(np.float32), np.sqrt(variance_before.sum(2)), distance)


def _blurred(plane: Plane) -> Plane:
    return np.asarray(cv2.GaussianBlur(plane, (0, 0), _WINDOW), np.float32)


def _local_share(weight: Plane, values: Plane, spread: float) -> Plane:
    """The weighted mean of values around each pixel."""
    whole = cv2.GaussianBlur(weight, (0, 0), max(spread, 0.5))
    return np.asarray(cv2.GaussianBlur(weight * values, (0, 0), max(spread, 0.5)) / (whole + 1e-6), np.float32)


def _grown(places: NDArray[np.bool_], spread: float) -> NDArray[np.bool_]:
    """The places up to where they end: their share falls below `_WHOLE` two thirds of the spread before."""
    side = 2 * round(2 / 3 * spread) + 1
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side))
    return np.asarray(cv2.dilate(places.astype(np.uint8), disc) > 0)


def _share(weight: Plane, values: Plane | NDArray[np.bool_]) -> float:
    total = float(weight.sum())
    return float((weight * values).sum()) / total if total > 0 else 0.0


_UNLIKE_ITSELF = 0.5  # how much a changed pixel in the box counts that looks like the surroundings
_FINE = 0.7  # pixels: standard deviation over which colours are averaged, less than a thin object is wide
_FEW = 0.1  # of the box that is neither object nor changed: fewer surroundings tell nothing
_LIGHTNESS_IN_SHADE = (
    0.3  # weight of lightness where colours of one object are compared: its shade is of the same colour
)
_CHANGED = 0.5  # from where on a pixel's colour before is one of those that changed


class RecolouredObject(NamedTuple):
    """before, edited: H x W x 3, 8-bit RGB, the second aligned to the first. own, changed: H x W in [0, 1], 0 outside
    of the box. spill: in [0, 1], how much of what is around the object in its box changed as well; 0 where next to
    nothing is."""

    before: NDArray[np.uint8]
    edited: NDArray[np.uint8]
    own: Plane
    changed: Plane
    spill: float

    @property
    def weights(self) -> Plane:
        """H x W: how much each pixel counts for the object's colour: what changed, its own pixels first. All of its own
        ones where hardly any changed."""
        changed = self.changed * np.maximum(self.own, _UNLIKE_ITSELF)
        return changed if changed.sum() >= _FEW * self.own.sum() else self.own

    def left_undone(self, done: Plane) -> float:
        """In [0, 1]: of the object's pixels that had a colour which changed, the share that is as before. A pixel of
        another colour, as a mirror's glass in its frame, is not one of them. done: H x W in [0, 1], the pixels that
        changed or need not."""
        changed = np.argwhere(self.changed * self.own > _CHANGED)
        if not len(changed):
            return 0.0
        colours = to_lab(self.before.astype(np.float32)) * np.array([_LIGHTNESS_IN_SHADE, 1, 1], np.float32)
        changed = changed[:: max(1, len(changed) // _SAMPLES)]
        own = self.own > 0
        alike = _belonging(_kernel(colours[own], colours[tuple(changed.T)], _BLUR).mean(1))
        undone = float((self.own * (1 - done))[own] @ alike)
        return undone / (undone + float((self.own * self.changed).sum()))


def recoloured_object(before: NDArray[np.uint8], after: NDArray[np.uint8], box: tuple[float, ...]) -> RecolouredObject:
    """before, after: crops with what is around the object (H x W x 3, 8-bit RGB, the second of any size). box: x0, y0,
    x1, y1 of the object in shares of the sides."""
    size = size_within(before, _SIDE, 4)
    source, edited = (averaged(crop, size) for crop in (before, after))
    lab, after_lab = to_lab(source), to_lab(edited)
    match = compare(lab, after_lab)
    alignment = align(lab[..., 0], after_lab[..., 0])
    if alignment is not None:
        moved, _ = alignment.apply(edited)
        aligned = compare(lab, to_lab(moved))
        if np.median(aligned.distance) < np.median(match.distance):
            edited, match = moved, aligned
    width, height = size
    x0, y0 = (min(max(round(side * share), 0), side - 1) for share, side in zip(box[:2], size, strict=True))
    x1, y1 = (round(side * share) for share, side in zip(box[2:], size, strict=True))
    place = x0, y0, min(max(x1, x0 + 1), width), min(max(y1, y0 + 1), height)
    inside = np.zeros(lab.shape[:2], bool)
    inside[place[1] : place[3], place[0] : place[2]] = True
    own = own_pixels(lab, place)
    difference = cv2.GaussianBlur(to_lab(edited) - lab, (0, 0), _FINE)
    changed = recoloured(np.asarray(np.linalg.norm(difference, axis=2), np.float32)) * inside
    around = (1 - own) * inside
    spill = float((around * changed).sum() / around.sum()) if around.sum() > _FEW * inside.sum() else 0.0
    before, after = (np.clip(plane, 0, 255).astype(np.uint8) for plane in (source, edited))
    return RecolouredObject(before, after, own, changed, spill)
