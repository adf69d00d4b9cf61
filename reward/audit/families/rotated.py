"""The edited picture turned about its centre."""

from __future__ import annotations

import cv2

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..requested_changes import ORIENTATION


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    height, width = edit.after.shape[:2]
    angle = amount * edit.random("rotated").choice((-1, 1))
    warp = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), angle, 1.0)
    return edit.damaged(cv2.warpAffine(edit.after, warp, (width, height), borderMode=cv2.BORDER_REFLECT))


FAMILY = Family(
    "rotated",
    "lower",
    "A slanted scene is not the one that was to stay.",
    (Severity(5, "5 degrees"), Severity(12, "12 degrees"), Severity(30, "30 degrees")),
    _vary,
    damages="preservation",
    unless_requested=(ORIENTATION,),
)
