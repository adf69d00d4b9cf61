"""The edited picture, small, several times beside and below itself."""

from __future__ import annotations

import cv2
import numpy as np

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..requested_changes import FRAMING, NUMBER


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    height, width = edit.after.shape[:2]
    copies = round(amount)
    small = cv2.resize(edit.after, (-(-width // copies), -(-height // copies)), interpolation=cv2.INTER_AREA)
    return edit.damaged(np.tile(small, (copies, copies, 1))[:height, :width])


FAMILY = Family(
    "tiled",
    "lower",
    "Copies of a scene are another picture than the scene.",
    (Severity(2, "2 x 2 copies"), Severity(3, "3 x 3 copies"), Severity(4, "4 x 4 copies")),
    _vary,
    damages="both",
    unless_requested=(FRAMING, NUMBER),
)
