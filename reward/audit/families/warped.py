"""The edited picture with its shapes bent, smoothly and by chance."""

from __future__ import annotations

import cv2
import numpy as np

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..requested_changes import ORIENTATION

_KNOTS = 9  # of random displacement, along the longer side


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    height, width = edit.after.shape[:2]
    longer = max(width, height)
    rng = edit.random("warped")
    knots = [max(2, round(_KNOTS * side / longer)) for side in (height, width)]
    bends = [rng.standard_normal(knots, np.float32) * np.float32(amount * longer) for _ in "xy"]
    x, y = (np.asarray(cv2.resize(bend, (width, height), interpolation=cv2.INTER_CUBIC), np.float32) for bend in bends)
    x += np.arange(width, dtype=np.float32)
    y += np.arange(height, dtype=np.float32)[:, None]
    return edit.damaged(cv2.remap(edit.after, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT))


FAMILY = Family(
    "warped",
    "lower",
    "Bent shapes are not those of the source.",
    (Severity(9 / 512, "by 9 of 512 px"), Severity(16 / 512, "by 16 of 512 px"), Severity(28 / 512, "by 28 of 512 px")),
    _vary,
    damages="preservation",
    unless_requested=(ORIENTATION,),
)
