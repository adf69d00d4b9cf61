"""Parts of a picture: places outside of what an edit changed, soft edges, and how visible a difference is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

from ..image import Image, Pixels
from ..sample import EditSample
from .audited_edit import Area, AuditedEdit, Mask
from .family import Variant

Alpha = NDArray[np.float32]
"""H x W, in [0, 1]: how much of another picture shows."""
_Item = TypeVar("_Item", bound=np.generic)
VISIBLE = 9.0
"""Grey levels: a mean difference over a region, finest grain left out, that a person notices."""
MAX_CHANGED = 0.6
"""Share of the picture: an edit that changed more leaves no room for damage elsewhere."""
_UNLIKE = 24.0  # grey levels: of another picture
_ATTEMPTS = 60
_PLACES = 6
_ALIKE = 1.5  # times: severities of a family do not share objects
_SMALLEST = 4  # px: sides of an area
_LARGEST = 96  # px: sides at which differences are looked at


def areas_elsewhere(
    edit: AuditedEdit, share: float, name: str, count: int = _PLACES, *, size: tuple[int, int] | None = None
) -> Iterator[Area]:
    """Boxes of this share of the picture outside of what the edit changed, at random, at most `count`. size: instead
    of the share, width and height.
    """
    height, width = edit.after.shape[:2]
    rng = edit.random(name)
    changed = cv2.integral(edit.changed.astype(np.uint8))
    for _ in range(_ATTEMPTS):
        ratio = float(np.exp(rng.uniform(-0.3, 0.3)))
        w, h = size or (max(_SMALLEST, round(np.sqrt(share * width * height) * side)) for side in (ratio, 1 / ratio))
        if w >= width or h >= height:
            continue
        x, y = int(rng.integers(width - w + 1)), int(rng.integers(height - h + 1))
        if changed[y + h, x + w] - changed[y, x + w] - changed[y + h, x] + changed[y, x]:
            continue
        yield x, y, w, h
        count -= 1
        if not count:
            return


def annotated_areas(edit: AuditedEdit) -> list[tuple[str, Area]]:
    """Names and boxes of the annotated objects, in the edited picture. Boxes are of the picture before any edit: none
    count after an earlier turn, which may have moved them.
    """
    height, width = edit.after.shape[:2]
    if edit.sample.history:
        return []
    areas: list[tuple[str, Area]] = []
    for name, boxes in edit.sample.boxes.items():
        for x0, y0, x1, y1 in (box.corners((width, height)) for box in boxes):
            left, top, right, bottom = max(0, x0), max(0, y0), min(width, x1), min(height, y1)
            if left < right and top < bottom:
                areas.append((name, (left, top, right - left, bottom - top)))
    return areas


def objects_elsewhere(edit: AuditedEdit, share: float) -> Iterator[Area]:
    """Boxes of annotated objects of about this share of the picture, outside of what the edit changed."""
    wanted = share * edit.changed.size
    for _, area in annotated_areas(edit):
        is_alike = wanted / _ALIKE <= area[2] * area[3] <= wanted * _ALIKE and min(area[2:]) >= _SMALLEST
        if is_alike and not within(edit.changed, area).any():
            yield area


def within(pixels: NDArray[_Item], area: Area) -> NDArray[_Item]:
    """A view of the part of a picture or mask."""
    x, y, w, h = area
    return pixels[y : y + h, x : x + w]


def most_visible(
    edit: AuditedEdit,
    areas: Iterator[Area],
    patch: Callable[[Area], Pixels | None],
    shape: Callable[[int, int], Alpha] | None = None,
) -> Variant | None:
    """The edit with a patch blended into the area where that is most visible; None where it is visible nowhere. patch:
    of an area, pixels of its size. shape: of a width and height, how much of the patch shows; by default, the inscribed
    ellipse.
    """
    best: tuple[float, Area, Pixels] | None = None
    for area in areas:
        pixels = patch(area)
        if pixels is None:
            continue
        seen = visible_difference(within(edit.after, area), pixels)
        if best is None or seen > best[0]:
            best = seen, area, pixels
    if best is None or best[0] < VISIBLE:
        return None
    _, area, pixels = best
    return edit.picture(with_patch(edit.after, pixels, area, (shape or ellipse)(area[2], area[3])))


def visible_variant(edit: AuditedEdit, pixels: Pixels) -> Variant | None:
    """The edit with another picture; None where that is hardly another one."""
    return edit.picture(pixels) if visible_difference(edit.after, pixels) >= VISIBLE else None


def visible_difference(first: Pixels, second: Pixels) -> float:
    """Mean over the pixels of the largest channel's difference, in grey levels, looked at from some distance."""
    a, b = (reduced(pixels, _LARGEST) for pixels in (first, second))
    return float(cv2.absdiff(a, b).max(axis=2).mean())


def reduced(pixels: Pixels, longest: int) -> Pixels:
    """At a size of at most `longest` px on the longer side, and at least one on the other; smaller ones as they are."""
    height, width = pixels.shape[:2]
    scale = min(1.0, longest / max(height, width))
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)


def ellipse(width: int, height: int) -> Alpha:
    """1 inside the inscribed ellipse, with a soft edge, 0 on and outside of it."""
    y, x = np.ogrid[0:height, 0:width]
    radius = np.hypot((x + 0.5) * 2 / width - 1, (y + 0.5) * 2 / height - 1)
    return np.asarray(np.clip((1 - radius) / 0.15, 0, 1), np.float32)


def rectangle(width: int, height: int) -> Alpha:
    """1 in the middle, falling to 0 at the rim."""
    return softened(np.pad(np.ones((height - 2, width - 2), np.bool_), 1))


def softened(mask: Mask, width: float = 0.006) -> Alpha:
    """1 inside a mask, falling to 0 at its edge, never outside. width: of the edge, as a share of the longer side."""
    inside = cv2.distanceTransform(mask.astype(np.uint8), cv2.DIST_L2, 3)
    return np.asarray(np.clip(inside / max(1.0, width * max(mask.shape)), 0, 1), np.float32)


def blended(below: Pixels, above: Pixels, alpha: Alpha | float) -> Pixels:
    """The picture below with `alpha` of that above; where alpha is 0, the same to the bit."""
    if isinstance(alpha, float):
        return np.asarray(cv2.addWeighted(below, 1 - alpha, above, alpha, 0), np.uint8)
    return np.asarray(cv2.blendLinear(below, above, 1 - alpha, alpha), np.uint8)


def with_patch(pixels: Pixels, patch: Pixels, area: Area, alpha: Alpha) -> Pixels:
    """A copy with a patch blended into an area. patch, alpha: of the area's size."""
    changed = pixels.copy()
    within(changed, area)[...] = blended(within(pixels, area), patch, alpha)
    return changed


def grown(area: Area, by: float, edit: AuditedEdit) -> Area:
    """The area, wider on each side by a share of its longer side, as far as the picture goes."""
    height, width = edit.after.shape[:2]
    x, y, w, h = area
    margin = max(1, round(by * max(w, h)))
    x0, y0, x1, y1 = max(0, x - margin), max(0, y - margin), min(width, x + w + margin), min(height, y + h + margin)
    return x0, y0, x1 - x0, y1 - y0


def another_picture(edit: AuditedEdit, name: str, picture: Callable[[EditSample], Image]) -> Pixels | None:
    """A picture of another sample, at random, at the size of the edited one; None where all look like its source."""
    size = edit.sample.edited.size
    for number in edit.random(name).permutation(len(edit.others)):
        pixels = picture(edit.others[number]).resized(*size, resample="area").pixels
        if visible_difference(edit.before, pixels) >= _UNLIKE:
            return pixels
    return None
