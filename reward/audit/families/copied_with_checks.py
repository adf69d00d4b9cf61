"""The edit, with checks of the source in what it changed."""

from __future__ import annotations

import cv2
import numpy as np

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant

_CHECKS = 64  # along the longer side: 8 of 512 px


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    if not edit.is_clear:
        return None
    height, width = edit.after.shape[:2]
    side = max(1, round(max(height, width) / _CHECKS))
    rows, columns = -(-height // side), -(-width // side)
    changed = cv2.resize(edit.changed.astype(np.uint8), (columns, rows), interpolation=cv2.INTER_NEAREST)
    # In the order of a chess board, then at random: half of the checks are the white ones.
    row, column = np.indices((rows, columns))
    order = (row + column) % 2 + edit.random("copied-with-checks").random((rows, columns))
    order = np.where(changed > 0, order, np.inf)
    known = np.sort(order[changed > 0])
    if not len(known):
        return None
    copied = order <= known[min(len(known) - 1, round(amount * len(known)))]
    mask = np.kron(copied, np.ones((side, side), np.bool_))[:height, :width]
    return edit.picture(np.where(mask[..., None], edit.before, edit.after))


FAMILY = Family(
    "copied-with-checks",
    "lower",
    "Checks of the source in the changed region show neither the source nor what was asked for.",
    (Severity(0.3, "30 % of the checks"), Severity(0.5, "every other check"), Severity(0.7, "70 % of the checks")),
    _vary,
    damages="following",
    needs_good_edit=True,
)
