"""The edited picture in coarse squares."""

from __future__ import annotations

import cv2

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..requested_changes import DETAIL

_SMALL = 128  # px: single pixels are seen in smaller pictures, and little of them is too little


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    height, width = edit.after.shape[:2]
    side = max(2.0, amount * max(_SMALL, width, height))
    size = (max(1, round(width / side)), max(1, round(height / side)))
    small = cv2.resize(edit.after, size, interpolation=cv2.INTER_AREA)
    return edit.damaged(cv2.resize(small, (width, height), interpolation=cv2.INTER_NEAREST))


FAMILY = Family(
    "pixelated",
    "lower",
    "Coarse squares have replaced the detail of the source.",
    (
        Severity(6 / 512, "squares of 6 of 512 px"),
        Severity(12 / 512, "squares of 12 of 512 px"),
        Severity(24 / 512, "squares of 24 of 512 px"),
    ),
    _vary,
    damages="preservation",
    unless_requested=(DETAIL,),
)
