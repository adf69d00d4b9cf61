"""Which pixels of an object an edit has recoloured, and whether it recoloured what is around the object too."""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from .alignment import align
from .own_pixels import Corners, own_pixels
from .patch_descriptors import to_lab
from .remains import compare, recoloured

Plane = NDArray[np.float32]

_SIDE = 96  # pixels: longest side at which crops are compared
_UNLIKE_ITSELF = 0.5  # how much a changed pixel in the box counts that looks like the surroundings
_FINE = 0.7  # pixels: standard deviation over which colours are averaged, less than a thin object is wide
_FEW = 0.1  # of the box that is neither object nor changed: fewer surroundings tell nothing


class RecolouredObject(NamedTuple):
    """before, edited: H x W x 3, 8-bit RGB, the second aligned to the first.

    own, changed: H x W in [0, 1], 0 outside of the box.
    spill: in [0, 1], how much of what is around the object in its box changed as well; 0 where next to nothing is.
    """

    before: NDArray[np.uint8]
    edited: NDArray[np.uint8]
    own: Plane
    changed: Plane
    spill: float

    @property
    def weights(self) -> Plane:
        """H x W: how much each pixel counts for the object's colour: what changed, its own pixels first. All of its own
        ones where hardly any changed.
        """
        changed = self.changed * np.maximum(self.own, _UNLIKE_ITSELF)
        return changed if changed.sum() >= _FEW * self.own.sum() else self.own


def recoloured_object(before: NDArray[np.uint8], after: NDArray[np.uint8], box: tuple[float, ...]) -> RecolouredObject:
    """before, after: crops with what is around the object (H x W x 3, 8-bit RGB, the second of any size). box: x0, y0,
    x1, y1 of the object in shares of the sides.
    """
    height, width = before.shape[:2]
    zoom = min(1.0, _SIDE / max(height, width))
    size = (max(4, round(width * zoom)), max(4, round(height * zoom)))
    source, edited = (
        np.asarray(cv2.resize(crop, size, interpolation=cv2.INTER_AREA), np.float32) for crop in (before, after)
    )
    lab, after_lab = to_lab(source), to_lab(edited)
    match = compare(lab, after_lab)
    alignment = align(lab[..., 0], after_lab[..., 0])
    if alignment is not None:
        moved, _ = alignment.apply(edited)
        aligned = compare(lab, to_lab(moved))
        if np.median(aligned.distance) < np.median(match.distance):
            edited, match = moved, aligned
    place = _corners(box, size)
    inside = np.zeros(lab.shape[:2], bool)
    inside[place[1] : place[3], place[0] : place[2]] = True
    own = own_pixels(lab, place)
    difference = cv2.GaussianBlur(to_lab(edited) - lab, (0, 0), _FINE)
    changed = recoloured(np.asarray(np.linalg.norm(difference, axis=2), np.float32)) * inside
    around = (1 - own) * inside
    spill = float((around * changed).sum() / around.sum()) if around.sum() > _FEW * inside.sum() else 0.0
    return RecolouredObject(_to_pixels(source), _to_pixels(edited), own, changed, spill)


def _to_pixels(plane: Plane) -> NDArray[np.uint8]:
    return np.clip(plane, 0, 255).astype(np.uint8)


def _corners(box: tuple[float, ...], size: tuple[int, int]) -> Corners:
    width, height = size
    x0, y0 = (min(max(round(side * share), 0), side - 1) for share, side in zip(box[:2], size, strict=True))
    x1, y1 = (round(side * share) for share, side in zip(box[2:], size, strict=True))
    return x0, y0, min(max(x1, x0 + 1), width), min(max(y1, y0 + 1), height)
