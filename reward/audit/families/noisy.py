"""Visible noise over the whole edited picture."""

from __future__ import annotations

import cv2
import numpy as np

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..requested_changes import DETAIL


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    noise = edit.random("noisy").standard_normal(edit.after.shape, np.float32)  # float32: half the time of float64
    return edit.damaged(cv2.addWeighted(edit.after, 1.0, noise, amount, 0.0, dtype=cv2.CV_8U))


FAMILY = Family(
    "noisy",
    "lower",
    "Noise that a person sees at once was neither in the source nor asked for.",
    (Severity(20, "20 grey levels"), Severity(35, "35 grey levels"), Severity(60, "60 grey levels")),
    _vary,
    damages="preservation",
    unless_requested=(DETAIL,),
)
