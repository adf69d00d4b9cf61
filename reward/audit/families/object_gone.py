"""An object outside of the change, or a place with detail, is painted over with what is around it."""

from __future__ import annotations

import cv2
import numpy as np

from ...image import Pixels
from ..audited_edit import Area, AuditedEdit
from ..family import Family, Severity, Variant
from ..regions import areas_elsewhere, grown, most_visible, objects_elsewhere, rectangle, reduced, within

_LARGEST = 64  # px: longer side of what is painted
_AROUND = 0.3  # of the longer side of the place: what it is painted from


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    def painted_over(area: Area) -> Pixels:
        around = grown(area, _AROUND, edit)
        crop = within(edit.after, around)
        small = reduced(crop, _LARGEST)
        hole = np.zeros(crop.shape[:2], np.uint8)
        within(hole, (area[0] - around[0], area[1] - around[1], area[2], area[3]))[...] = 1
        small_hole = cv2.resize(hole, small.shape[1::-1], interpolation=cv2.INTER_NEAREST)
        filled = cv2.resize(cv2.inpaint(small, small_hole, 2, cv2.INPAINT_TELEA), crop.shape[1::-1])
        return np.asarray(filled, np.uint8)[area[1] - around[1] :, area[0] - around[0] :][: area[3], : area[2]]

    for areas in (objects_elsewhere(edit, amount), areas_elsewhere(edit, amount, "object-gone")):
        pixels = most_visible(edit, areas, painted_over, rectangle)
        if pixels is not None:
            return edit.picture(pixels)
    return None


FAMILY = Family(
    "object-gone",
    "lower",
    "What the instruction does not name is still there after a good edit.",
    (
        Severity(0.015, "1.5 % of the picture"),
        Severity(0.04, "4 % of the picture"),
        Severity(0.1, "10 % of the picture"),
    ),
    _vary,
    damages="preservation",
    needs_good_edit=True,
)
