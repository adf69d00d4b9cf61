"""The edited picture squeezed between two black bars."""

from __future__ import annotations

import cv2
import numpy as np

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..requested_changes import FRAMING


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    height, width = edit.after.shape[:2]
    inner = max(1, round(amount * height))
    y = (height - inner) // 2
    boxed = np.zeros_like(edit.after)
    boxed[y : y + inner] = cv2.resize(edit.after, (width, inner), interpolation=cv2.INTER_AREA)
    return edit.damaged(boxed)


FAMILY = Family(
    "letterboxed",
    "lower",
    "Bars that were not asked for squeeze the scene out of shape.",
    (Severity(0.8, "80 % of the height"), Severity(0.6, "60 % of the height"), Severity(0.4, "40 % of the height")),
    _vary,
    damages="preservation",
    unless_requested=(FRAMING,),
)
