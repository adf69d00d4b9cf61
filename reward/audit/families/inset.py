"""The source, reduced, in a corner of the edit."""

from __future__ import annotations

import cv2
import numpy as np

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..regions import VISIBLE, visible_difference, within
from ..requested_changes import PANELS


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    height, width = edit.after.shape[:2]
    w, h = max(1, round(width * amount)), max(1, round(height * amount))
    small = np.asarray(cv2.resize(edit.before, (w, h), interpolation=cv2.INTER_AREA), np.uint8)
    corners = [(x, y, w, h) for x in (width - w, 0) for y in (height - h, 0)]
    corner = min(corners, key=lambda one: int(np.count_nonzero(within(edit.changed, one))))
    if visible_difference(within(edit.after, corner), small) < VISIBLE:
        return None  # a flat picture
    pixels = edit.after.copy()
    within(pixels, corner)[...] = small
    return edit.picture(pixels)


FAMILY = Family(
    "inset",
    "lower",
    "A small picture of the source hides a part of the edit, and nobody asked for it.",
    (Severity(0.2, "20 % of the sides"), Severity(0.3, "30 % of the sides"), Severity(0.45, "45 % of the sides")),
    _vary,
    damages="preservation",
    needs_good_edit=True,  # what should have gone may lie under it
    unless_requested=(PANELS,),
)
