"""The edited picture mirrored or turned upside down."""

from __future__ import annotations

import cv2

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..requested_changes import ORIENTATION

_AXES = (1, 0, -1)  # as cv2.flip names them


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    return edit.damaged(cv2.flip(edit.after, _AXES[round(amount)]))


FAMILY = Family(
    "mirrored",
    "lower",
    "Left and right, or above and below, are part of a scene that was to stay.",
    (Severity(0, "left to right"), Severity(1, "upside down"), Severity(2, "turned by 180 degrees")),
    _vary,
    damages="preservation",
    unless_requested=(ORIENTATION,),
)
