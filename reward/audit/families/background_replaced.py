"""Another picture, or a gradient, instead of all that the edit did not change."""

from __future__ import annotations

import cv2
import numpy as np

from ...image import Pixels
from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..regions import MAX_CHANGED, VISIBLE, another_picture, blended, softened, visible_difference
from ..requested_changes import SURROUNDINGS


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    if edit.changed_share > MAX_CHANGED:
        return None
    other = another_picture(edit, "background-replaced", lambda sample: sample.source)
    pixels = _gradient(edit) if other is None else other
    replaced = blended(edit.after, pixels, softened(~edit.changed) * np.float32(amount))
    return edit.picture(replaced) if visible_difference(edit.after, replaced) >= VISIBLE else None


def _gradient(edit: AuditedEdit) -> Pixels:
    """From one colour to another, along a slope."""
    height, width = edit.after.shape[:2]
    corners = edit.random("background-replaced gradient").integers(0, 256, (2, 2, 3)).astype(np.float32)
    return np.asarray(cv2.resize(corners, (width, height), interpolation=cv2.INTER_LINEAR), np.uint8)


FAMILY = Family(
    "background-replaced",
    "lower",
    "All that the instruction does not name is gone.",
    (Severity(0.4, "40 % opaque"), Severity(0.7, "70 % opaque"), Severity(1.0, "opaque")),
    _vary,
    damages="preservation",
    unless_requested=(SURROUNDINGS,),
)
