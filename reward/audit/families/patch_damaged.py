"""A place outside of the change shows another part of the picture, turned."""

from __future__ import annotations

import cv2
import numpy as np

from ...image import Pixels
from ..audited_edit import Area, AuditedEdit
from ..family import Family, Severity, Variant
from ..regions import areas_elsewhere, most_visible, within

_ELLIPSE = np.pi / 4  # of its box
_DONORS = 3


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    rng = edit.random("patch-damaged donors")
    height, width = edit.after.shape[:2]

    def donor(area: Area) -> Pixels:
        _, _, w, h = area
        turned = cv2.ROTATE_90_CLOCKWISE if h <= width and w <= height else cv2.ROTATE_180
        size = (h, w) if turned == cv2.ROTATE_90_CLOCKWISE else (w, h)
        x, y = int(rng.integers(width - size[0] + 1)), int(rng.integers(height - size[1] + 1))
        return np.asarray(cv2.rotate(within(edit.after, (x, y, *size)), turned), np.uint8)

    areas = (area for area in areas_elsewhere(edit, amount / _ELLIPSE, "patch-damaged") for _ in range(_DONORS))
    pixels = most_visible(edit, areas, donor)
    return None if pixels is None else edit.picture(pixels)


FAMILY = Family(
    "patch-damaged",
    "lower",
    "A place that the instruction does not name is destroyed.",
    (
        Severity(0.015, "1.5 % of the picture"),
        Severity(0.04, "4 % of the picture"),
        Severity(0.1, "10 % of the picture"),
    ),
    _vary,
    damages="preservation",
    needs_good_edit=True,  # what should have gone may lie under it
)
