"""Families that damage what lies outside of the change: a place, an object, the background."""

from __future__ import annotations

import cv2
import numpy as np

from ...image import Pixels
from ..audited_edit import Area, AuditedEdit
from ..family import Variant, worse
from ..regions import (
    MAX_CHANGED,
    another_picture,
    areas_elsewhere,
    blended,
    grown,
    most_visible,
    objects_elsewhere,
    rectangle,
    reduced,
    softened,
    visible_variant,
    with_patch,
    within,
)
from ..requested_changes import DETAIL, NUMBER, SHAPES, SURROUNDINGS

_ELLIPSE = np.pi / 4  # of its box
_DONORS = _DIRECTIONS = 3  # that are tried at each place
_BLUR = 0.02  # of the longer side: 10 of 512 px
_SHIFTED = 0.06  # of the picture
_LARGEST_PAINTED = 64  # px, of the longer side
_AROUND = 0.3  # of the longer side of a place: what it is painted from
_COLOURS = np.array(
    [(220, 30, 40), (30, 60, 210), (240, 210, 20), (20, 160, 60), (230, 90, 200), (250, 250, 250), (15, 15, 15)]
)
_FOREIGN = 300  # grey levels, of the three channels together
_FILLED = 0.4  # of its box, a shape
_SHARES = {0.015: "1.5 % of the picture", 0.04: "4 % of the picture", 0.1: "10 % of the picture"}


@worse(
    "All that the instruction does not name is gone.",
    {0.4: "40 % opaque", 0.7: "70 % opaque", 1.0: "opaque"},
    unless_requested=(SURROUNDINGS,),
)
def background_replaced(edit: AuditedEdit, amount: float) -> Variant | None:
    """Another picture, or a gradient, instead of all that the edit did not change."""
    if edit.changed_share > MAX_CHANGED:
        return None
    other = another_picture(edit, "background-replaced", lambda sample: sample.source)
    if other is None:
        corners = edit.random("background-replaced gradient").integers(0, 256, (2, 2, 3)).astype(np.float32)
        other = np.asarray(cv2.resize(corners, edit.sample.edited.size, interpolation=cv2.INTER_LINEAR), np.uint8)
    return visible_variant(edit, blended(edit.after, other, softened(~edit.changed) * np.float32(amount)))


@worse("What the instruction does not name is still there after a good edit.", _SHARES, needs_good_edit=True)
def object_gone(edit: AuditedEdit, amount: float) -> Variant | None:
    """An object outside of the change, or a place with detail, is painted over with what is around it."""

    def painted_over(area: Area) -> Pixels:
        around = grown(area, _AROUND, edit)
        crop = within(edit.after, around)
        small = reduced(crop, _LARGEST_PAINTED)
        hole = np.zeros(crop.shape[:2], np.uint8)
        within(hole, (area[0] - around[0], area[1] - around[1], area[2], area[3]))[...] = 1
        small_hole = cv2.resize(hole, small.shape[1::-1], interpolation=cv2.INTER_NEAREST)
        filled = cv2.resize(cv2.inpaint(small, small_hole, 2, cv2.INPAINT_TELEA), crop.shape[1::-1])
        return np.asarray(filled, np.uint8)[area[1] - around[1] :, area[0] - around[0] :][: area[3], : area[2]]

    objects, places = objects_elsewhere(edit, amount), areas_elsewhere(edit, amount, "object-gone")
    return most_visible(edit, objects, painted_over, rectangle) or most_visible(edit, places, painted_over, rectangle)


@worse(
    "A second one of what the instruction does not name was not asked for.",
    _SHARES,
    needs_good_edit=True,
    unless_requested=(NUMBER,),
)
def object_duplicated(edit: AuditedEdit, amount: float) -> Variant | None:
    """An object outside of the change, or a place with detail, is there a second time."""
    originals = [*objects_elsewhere(edit, amount)] or [*areas_elsewhere(edit, amount, "object-duplicated originals")]
    if not originals:
        return None
    original = max(originals, key=lambda area: float(within(edit.after, area).mean(axis=2, dtype=np.float32).std()))

    def second(area: Area) -> Pixels | None:
        overlap = all(abs(area[axis] - original[axis]) < original[axis + 2] for axis in (0, 1))
        return None if overlap else within(edit.after, original)

    places = areas_elsewhere(edit, amount, "object-duplicated", size=(original[2], original[3]))
    return most_visible(edit, places, second, rectangle)


@worse(
    "A place that the instruction does not name is destroyed.",
    _SHARES,
    needs_good_edit=True,  # what should have gone may lie under it
)
def patch_damaged(edit: AuditedEdit, amount: float) -> Variant | None:
    """A place outside of the change shows another part of the picture, turned."""
    rng = edit.random("patch-damaged donors")
    height, width = edit.after.shape[:2]

    def donor(area: Area) -> Pixels:
        _, _, w, h = area
        turned = cv2.ROTATE_90_CLOCKWISE if h <= width and w <= height else cv2.ROTATE_180
        size = (h, w) if turned == cv2.ROTATE_90_CLOCKWISE else (w, h)
        x, y = int(rng.integers(width - size[0] + 1)), int(rng.integers(height - size[1] + 1))
        return np.asarray(cv2.rotate(within(edit.after, (x, y, *size)), turned), np.uint8)

    areas = (area for area in areas_elsewhere(edit, amount / _ELLIPSE, "patch-damaged") for _ in range(_DONORS))
    return most_visible(edit, areas, donor)


@worse(
    "A place that the instruction does not name loses its detail.",
    {0.03: "3 % of the picture", 0.06: "6 % of the picture", 0.12: "12 % of the picture"},
    unless_requested=(DETAIL,),
)
def region_blurred(edit: AuditedEdit, amount: float) -> Variant | None:
    """A place outside of the change is blurred."""
    sigma = max(1.0, _BLUR * max(edit.after.shape[:2]))

    def blurred(area: Area) -> Pixels:
        _, _, w, h = area
        size = (max(1, round(w / sigma)), max(1, round(h / sigma)))
        small = cv2.GaussianBlur(cv2.resize(within(edit.after, area), size, interpolation=cv2.INTER_AREA), (0, 0), 1)
        return np.asarray(cv2.resize(small, (w, h), interpolation=cv2.INTER_CUBIC), np.uint8)

    return most_visible(edit, areas_elsewhere(edit, amount, "region-blurred"), blurred)


@worse(
    "What the instruction does not name stays where it is.",
    {0.03: "15 of 512 px", 0.06: "31 of 512 px", 0.12: "61 of 512 px"},
)
def region_shifted(edit: AuditedEdit, amount: float) -> Variant | None:
    """What is at a place outside of the change is shifted."""
    height, width = edit.after.shape[:2]
    distance = max(1.0, amount * max(height, width))
    rng = edit.random("region-shifted directions")

    def shifted(area: Area) -> Pixels | None:
        x, y, w, h = area
        angle = float(rng.uniform(0, 2 * np.pi))
        x1, y1 = x + round(distance * np.cos(angle)), y + round(distance * np.sin(angle))
        is_inside = 0 <= x1 <= width - w and 0 <= y1 <= height - h
        return within(edit.after, (x1, y1, w, h)) if is_inside else None

    areas = (area for area in areas_elsewhere(edit, _SHIFTED, "region-shifted") for _ in range(_DIRECTIONS))
    return most_visible(edit, areas, shifted)


@worse(
    "A shape that nobody asked for does not belong into the picture.",
    {0.008: "0.8 % of the picture", 0.025: "2.5 % of the picture", 0.07: "7 % of the picture"},
    needs_good_edit=True,  # what should have gone may lie under it
    unless_requested=(SHAPES,),
)
def stray_object(edit: AuditedEdit, amount: float) -> Variant | None:
    """A flat shape in a colour foreign to its place, outside of the change."""
    rng = edit.random("stray-object shape")
    corners, turn = int(rng.integers(3, 6)), float(rng.uniform(0, 2 * np.pi))
    area = next(areas_elsewhere(edit, amount / _FILLED, "stray-object", 1), None)
    if area is None:
        return None
    _, _, w, h = area
    angles = turn + np.arange(2 * corners) * np.pi / corners
    radii = np.where(np.arange(2 * corners) % 2, 0.45, 0.98)
    points = np.stack([(1 + radii * np.cos(angles)) * w / 2, (1 + radii * np.sin(angles)) * h / 2], axis=1)
    alpha = np.zeros((h, w), np.uint8)
    cv2.fillPoly(alpha, [np.rint(points * 16).astype(np.int32)], 255, cv2.LINE_AA, shift=4)
    place = within(edit.after, area).reshape(-1, 3).mean(axis=0)
    distances = np.abs(_COLOURS - place).sum(axis=1)
    foreign = np.flatnonzero(distances >= min(_FOREIGN, distances.max()))
    patch = np.empty((h, w, 3), np.uint8)
    patch[...] = _COLOURS[rng.choice(foreign)]
    return edit.picture(with_patch(edit.after, patch, area, alpha.astype(np.float32) / np.float32(255)))
