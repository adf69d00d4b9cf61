"""The edited picture faded to a flat field of its mean colour."""

from __future__ import annotations

import cv2
import numpy as np

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..whole_picture_changes import clipped, mapped


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    mean = np.array(cv2.mean(edit.after)[:3])
    return edit.damaged(mapped(edit.after, clipped(mean + (np.arange(256.0)[:, None] - mean) * amount)))


FAMILY = Family(
    "blank",
    "lower",
    "A flat field shows neither the requested change nor the scene.",
    (Severity(0.06, "6 % of the contrast"), Severity(0.03, "3 % of the contrast"), Severity(0.0, "flat")),
    _vary,
    damages="both",
)
