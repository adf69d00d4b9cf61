"""The new colour of what the edit changed over the whole picture."""

from __future__ import annotations

import cv2
import numpy as np

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..regions import MAX_CHANGED, VISIBLE, blended, visible_difference


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    if not edit.is_clear or edit.changed_share > MAX_CHANGED:
        return None
    new = edit.after[edit.changed]
    difference = cv2.absdiff(new, edit.before[edit.changed]).max(axis=1)
    flood = np.empty_like(edit.after)
    flood[...] = np.median(new[difference >= np.quantile(difference, 0.75)], axis=0)
    flooded = blended(edit.after, flood, amount)
    return edit.picture(flooded) if visible_difference(edit.after, flooded) >= VISIBLE else None


FAMILY = Family(
    "flooded",
    "lower",
    "A colour that was asked for at one place is wrong everywhere else.",
    (Severity(0.35, "35 % opaque"), Severity(0.6, "60 % opaque"), Severity(0.85, "85 % opaque")),
    _vary,
    damages="both",
)
