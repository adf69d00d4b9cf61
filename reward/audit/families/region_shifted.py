"""What is at a place outside of the change is shifted."""

from __future__ import annotations

import numpy as np

from ...image import Pixels
from ..audited_edit import Area, AuditedEdit
from ..family import Family, Severity, Variant
from ..regions import areas_elsewhere, most_visible, within

_SHARE = 0.06  # of the picture
_DIRECTIONS = 3


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    height, width = edit.after.shape[:2]
    distance = max(1.0, amount * max(height, width))
    rng = edit.random("region-shifted directions")

    def shifted(area: Area) -> Pixels | None:
        x, y, w, h = area
        angle = float(rng.uniform(0, 2 * np.pi))
        x1, y1 = x + round(distance * np.cos(angle)), y + round(distance * np.sin(angle))
        if not (0 <= x1 <= width - w and 0 <= y1 <= height - h):
            return None
        return within(edit.after, (x1, y1, w, h))

    areas = (area for area in areas_elsewhere(edit, _SHARE, "region-shifted") for _ in range(_DIRECTIONS))
    pixels = most_visible(edit, areas, shifted)
    return None if pixels is None else edit.picture(pixels)


FAMILY = Family(
    "region-shifted",
    "lower",
    "What the instruction does not name stays where it is.",
    (Severity(0.03, "15 of 512 px"), Severity(0.06, "31 of 512 px"), Severity(0.12, "61 of 512 px")),
    _vary,
    damages="preservation",
)
