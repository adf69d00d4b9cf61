"""Only a part of each changed region is changed; the rest of it is as in the source."""

from __future__ import annotations

import cv2
import numpy as np

from ..audited_edit import AuditedEdit, Mask
from ..family import Family, Severity, Variant
from ..regions import blended, softened
from ..requested_changes import DEGREE

_SMALLEST = 0.02  # of what changed: smaller regions are restored as a whole


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    # Half of the snow is snow, and two of four birds are "some birds". A cut through each region leaves halves of
    # single things.
    if not edit.is_clear:
        return None
    restored = edit.changed & ~_kept(edit, amount)
    return edit.picture(blended(edit.after, edit.before, softened(restored, width=0.004)))


def _kept(edit: AuditedEdit, share: float) -> Mask:
    """This share of the area of each region that changed, on one side of a straight line."""
    count, labels, stats, _ = cv2.connectedComponentsWithStats(edit.changed.astype(np.uint8))
    angle = float(edit.random("partly-done").uniform(0, 2 * np.pi))
    smallest = _SMALLEST * edit.changed.sum()
    kept = np.zeros_like(edit.changed)
    for label in range(1, count):
        x, y, w, h, area = (int(value) for value in stats[label])
        if area < smallest:
            continue
        rows, columns = np.nonzero(labels[y : y + h, x : x + w] == label)
        along = (columns * np.cos(angle) + rows * np.sin(angle)).astype(np.float32)
        first = along < np.quantile(along, share)
        kept[y + rows[first], x + columns[first]] = True
    return kept


FAMILY = Family(
    "partly-done",
    "lower",
    "A change of a part of what was to be changed leaves the rest undone.",
    (Severity(0.5, "50 % of each region"), Severity(0.25, "25 % of each region"), Severity(0.1, "10 % of each region")),
    _vary,
    damages="following",
    needs_good_edit=True,
    unless_requested=(DEGREE,),
)
