"""A flat shape in a colour foreign to its place, outside of the change."""

from __future__ import annotations

import cv2
import numpy as np

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..regions import areas_elsewhere, with_patch, within
from ..requested_changes import SHAPES

_COLOURS = np.array(
    [(220, 30, 40), (30, 60, 210), (240, 210, 20), (20, 160, 60), (230, 90, 200), (250, 250, 250), (15, 15, 15)],
)
_FOREIGN = 300  # grey levels, of the three channels together
_FILLED = 0.4  # of its box, a shape


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
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


FAMILY = Family(
    "stray-object",
    "lower",
    "A shape that nobody asked for does not belong into the picture.",
    (
        Severity(0.008, "0.8 % of the picture"),
        Severity(0.025, "2.5 % of the picture"),
        Severity(0.07, "7 % of the picture"),
    ),
    _vary,
    damages="preservation",
    needs_good_edit=True,  # what should have gone may lie under it
    unless_requested=(SHAPES,),
)
