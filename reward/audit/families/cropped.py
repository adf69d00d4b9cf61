"""The middle of the edited picture, enlarged to its size."""

from __future__ import annotations

import cv2

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..requested_changes import FRAMING


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    height, width = edit.after.shape[:2]
    x, y = (int(side * (1 - amount) / 2) for side in (width, height))
    inner = edit.after[y : height - y, x : width - x]
    return edit.damaged(cv2.resize(inner, (width, height), interpolation=cv2.INTER_LINEAR))


FAMILY = Family(
    "cropped",
    "lower",
    "What lies near the rim of the picture is gone, and the rest is not where it was.",
    (Severity(0.8, "80 % of the sides"), Severity(0.6, "60 % of the sides"), Severity(0.4, "40 % of the sides")),
    _vary,
    damages="preservation",
    needs_good_edit=True,  # what should have gone may lie near the rim
    unless_requested=(FRAMING,),
)
