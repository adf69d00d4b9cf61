"""A place outside of the change is blurred."""

from __future__ import annotations

import cv2
import numpy as np

from ...image import Pixels
from ..audited_edit import Area, AuditedEdit
from ..family import Family, Severity, Variant
from ..regions import areas_elsewhere, most_visible, within
from ..requested_changes import DETAIL

_SIGMA = 0.02  # of the longer side: 10 of 512 px


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    sigma = max(1.0, _SIGMA * max(edit.after.shape[:2]))

    def blurred(area: Area) -> Pixels:
        _, _, w, h = area
        size = (max(1, round(w / sigma)), max(1, round(h / sigma)))
        small = cv2.GaussianBlur(cv2.resize(within(edit.after, area), size, interpolation=cv2.INTER_AREA), (0, 0), 1)
        return np.asarray(cv2.resize(small, (w, h), interpolation=cv2.INTER_CUBIC), np.uint8)

    pixels = most_visible(edit, areas_elsewhere(edit, amount, "region-blurred"), blurred)
    return None if pixels is None else edit.picture(pixels)


FAMILY = Family(
    "region-blurred",
    "lower",
    "A place that the instruction does not name loses its detail.",
    (Severity(0.03, "3 % of the picture"), Severity(0.06, "6 % of the picture"), Severity(0.12, "12 % of the picture")),
    _vary,
    damages="preservation",
    unless_requested=(DETAIL,),
)
