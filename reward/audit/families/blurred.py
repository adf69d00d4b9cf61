"""A Gaussian blur of the whole edited picture."""

from __future__ import annotations

import cv2

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..requested_changes import DETAIL

_SMALL = 128  # px: single pixels are seen in smaller pictures, and little of them is too little


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    return edit.damaged(cv2.GaussianBlur(edit.after, (0, 0), amount * max(_SMALL, *edit.after.shape[:2])))


FAMILY = Family(
    "blurred",
    "lower",
    "A blurred picture has lost detail that the edit has.",
    (Severity(0.003, "1.5 of 512 px"), Severity(0.008, "4 of 512 px"), Severity(0.02, "10 of 512 px")),
    _vary,
    damages="preservation",
    unless_requested=(DETAIL,),
)
