"""The edited picture after many turns of scaling, tinting and saving, as a chain of editors leaves it."""

from __future__ import annotations

import cv2
import numpy as np

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..requested_changes import COLOUR, DETAIL
from ..whole_picture_changes import contrasted, jpeg, with_cast

_SCALE, _QUALITY = 0.5, 50
_CAST, _GAIN = (2.5, 0.5, -2.5), 1.04


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    height, width = edit.after.shape[:2]
    small = (max(1, round(_SCALE * width)), max(1, round(_SCALE * height)))
    drifted = edit.after
    for _ in range(round(amount)):
        half = cv2.resize(drifted, small, interpolation=cv2.INTER_LINEAR)
        saved = jpeg(np.asarray(half, np.uint8), _QUALITY)  # at half the size: in a quarter of the time
        tinted = contrasted(with_cast(saved, _CAST), _GAIN)
        drifted = np.asarray(cv2.resize(tinted, (width, height), interpolation=cv2.INTER_LINEAR), np.uint8)
    return edit.damaged(drifted)


FAMILY = Family(
    "round-trips",
    "lower",
    "Every turn loses detail and shifts colours, until a person sees it.",
    (Severity(5, "5 turns"), Severity(7, "7 turns"), Severity(10, "10 turns")),
    _vary,
    damages="preservation",
    unless_requested=(COLOUR, DETAIL),
)
