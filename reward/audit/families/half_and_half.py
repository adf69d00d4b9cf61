"""One side of the picture is the source's, and the other one the edit's."""

from __future__ import annotations

import cv2
import numpy as np

from ..audited_edit import AuditedEdit, Mask
from ..family import Family, Severity, Variant
from ..requested_changes import DEGREE


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    if not edit.is_clear:
        return None
    difference = np.where(_largest_region(edit.changed), cv2.absdiff(edit.before, edit.after).max(axis=2), 0)
    upright = bool(edit.random("half-and-half").integers(2))
    along = np.cumsum(difference.sum(axis=0 if upright else 1))
    end = 1 + int(np.searchsorted(along, amount * along[-1]))
    if end >= len(along):
        return None  # a region of a pixel or two
    half = np.s_[:, :end] if upright else np.s_[:end]
    pixels = edit.after.copy()
    pixels[half] = edit.before[half]
    return edit.picture(pixels)


def _largest_region(mask: Mask) -> Mask:
    """The line goes through it, so that none of what was asked for is left whole on the edit's side by chance."""
    _, labels, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8))
    return np.asarray(labels == 1 + np.argmax(stats[1:, cv2.CC_STAT_AREA]), np.bool_)


FAMILY = Family(
    "half-and-half",
    "lower",
    "Half of a change leaves the other half undone.",
    (
        Severity(0.35, "35 % undone"),
        Severity(0.5, "50 % undone"),
        Severity(0.7, "70 % undone"),
    ),
    _vary,
    damages="following",
    needs_good_edit=True,
    unless_requested=(DEGREE,),
)
