"""The edit overdone: the editor's output for its own output, or the change exaggerated."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from ...image import Pixels
from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..regions import softened, within
from ..requested_changes import DEGREE, SHADE
from ..whole_picture_changes import clipped

_MORE_OF_IT = 0.25  # of the first change: a second one in its direction that counts as overdone
_OVERDONE = 22.0  # of the colours' distance (CIE 1976), mean over what changed
_MILDEST = 1.5


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    area = edit.changed_area
    if area is None or not edit.is_clear:
        return None
    mask, before, after = within(edit.changed, area), within(edit.before, area), within(edit.after, area)
    change = (after.astype(np.float32) - before) * softened(mask)[..., None]
    if edit.edited_again is None:
        overdone = edit.after.copy()
        within(overdone, area)[...] = clipped(after + change * np.float32(amount))
    else:
        more = edit.edited_again.pixels.astype(np.float32) - edit.after
        # An editor that finds its work done, or makes another version of it, has not overdone it.
        if float((within(more, area) * change).sum()) < _MORE_OF_IT * float((change * change).sum()):
            return None
        overdone = clipped(edit.after + more * np.float32(amount / _MILDEST))
    # New text in white cannot become whiter: there is nothing to see where the change ends at black or white already.
    distance = _lab(within(overdone, area)) - _lab(after)
    seen = float(np.sqrt((distance * distance).sum(axis=2))[mask].mean())
    return edit.picture(overdone) if seen >= _OVERDONE else None


def _lab(pixels: Pixels) -> NDArray[np.float32]:
    """H x W x 3, CIE L*a*b*: distances are as large as they look."""
    return np.asarray(cv2.cvtColor(pixels.astype(np.float32) / np.float32(255), cv2.COLOR_RGB2LAB), np.float32)


FAMILY = Family(
    "applied-twice",
    "lower",
    "A change that is made twice is overdone: what was there shows as a ghost, in colours at the end of their range.",
    (Severity(_MILDEST, "twice, or 1.5 times more"), Severity(2.5, "2.5 times more"), Severity(4.0, "4 times more")),
    _vary,
    damages="following",
    needs_good_edit=True,
    unless_requested=(DEGREE, SHADE),
)
