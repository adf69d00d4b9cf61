"""The edited picture dark towards its corners."""

from __future__ import annotations

import cv2
import numpy as np

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..requested_changes import FRAMING, LIGHT


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    height, width = edit.after.shape[:2]
    y, x = (np.linspace(-1, 1, side, dtype=np.float32) ** 2 for side in (height, width))
    light = np.clip(1 - amount * (y[:, None] + x) / 2, 0, 1)
    return edit.damaged(cv2.multiply(edit.after, cv2.merge([light] * 3), dtype=cv2.CV_8U))


FAMILY = Family(
    "vignette",
    "lower",
    "Shadow that was not asked for hides what lies near the rim.",
    (Severity(0.85, "corners at 15 %"), Severity(1.3, "black corners"), Severity(2.0, "black rim")),
    _vary,
    damages="preservation",
    needs_good_edit=True,  # what should have gone may lie near the rim
    unless_requested=(FRAMING, LIGHT),
)
