"""A Gaussian blur of the whole edited picture."""

from __future__ import annotations

import cv2

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant


def _vary(edit: AuditedEdit, amount: float) -> Variant:
    return edit.picture(cv2.GaussianBlur(edit.after, (0, 0), amount * max(edit.after.shape[:2])))


FAMILY = Family(
    "blurred",
    "lower",
    "A blurred picture has lost detail that the edit has.",
    (Severity(0.003, "1.5 of 512 px"), Severity(0.008, "4 of 512 px"), Severity(0.02, "10 of 512 px")),
    _vary,
    damages="preservation",
)
