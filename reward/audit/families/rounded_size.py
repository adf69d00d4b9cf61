"""The edited picture at the sizes that editors make: sides are multiples of 8, 16 or 32 px."""

from __future__ import annotations

import cv2
import numpy as np

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant

_SMALLEST = 11 / 12
"""Of a side: less would be seen as a lower resolution."""

_DISTORTION = 1.025
"""Of the aspect ratio: more would be seen as a stretched picture."""


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    step = round(amount)
    old = edit.sample.edited.size
    width, height = (_rounded(side, step) for side in old)
    shares = sorted((width / old[0], height / old[1]))
    if shares[0] < _SMALLEST or shares[1] > shares[0] * _DISTORTION:
        return None
    return edit.picture(np.asarray(cv2.resize(edit.after, (width, height), interpolation=cv2.INTER_AREA)))


def _rounded(side: int, step: int) -> int:
    """The next smaller multiple, so that something changes also where the side is one."""
    return (side - 1) // step * step


FAMILY = Family(
    "rounded-size",
    "equal",
    "Editors round the sides of a picture to what their model takes, and the edit is the same.",
    (Severity(8, "multiples of 8 px"), Severity(16, "multiples of 16 px"), Severity(32, "multiples of 32 px")),
    _vary,
)
