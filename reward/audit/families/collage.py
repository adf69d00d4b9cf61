"""Source and edit side by side, one above the other, or in three panels, squeezed into the picture."""

from __future__ import annotations

import cv2
import numpy as np

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..regions import VISIBLE, visible_difference
from ..requested_changes import PANELS


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    before, after = edit.before, edit.after
    axis, panels = ((1, (before, after)), (0, (before, after)), (1, (before, after, before)))[round(amount)]
    length = after.shape[axis]
    if length < len(panels):
        return None
    ends = np.rint(np.linspace(0, length, len(panels) + 1)).astype(int)
    sizes = [(int(size), after.shape[0]) if axis else (after.shape[1], int(size)) for size in np.diff(ends)]
    squeezed = [
        cv2.resize(panel, size, interpolation=cv2.INTER_AREA) for panel, size in zip(panels, sizes, strict=True)
    ]
    pixels = np.asarray(np.concatenate(squeezed, axis=axis), np.uint8)
    return edit.picture(pixels) if visible_difference(after, pixels) >= VISIBLE else None


FAMILY = Family(
    "collage",
    "lower",
    "An edited picture is one picture, not the source beside it.",
    (Severity(0, "side by side"), Severity(1, "one above the other"), Severity(2, "three panels")),
    _vary,
    damages="preservation",
    unless_requested=(PANELS,),
)
