"""The edit of another sample."""

from __future__ import annotations

import cv2
import numpy as np

from ...image import Pixels
from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..regions import VISIBLE, another_picture, blended, visible_difference
from ..whole_picture_changes import clipped, mapped

_SOURCE = 0.25  # share of the source in the mildest


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    other = another_picture(edit, "other-edit", lambda sample: sample.edited)
    if other is None:
        return None
    if amount < 1.5:
        other = _in_colours_of(other, edit.before)
    pixels = blended(other, edit.before, _SOURCE if amount < 0.5 else 0.0)
    return edit.picture(pixels) if visible_difference(edit.after, pixels) >= VISIBLE else None


def _in_colours_of(pixels: Pixels, model: Pixels) -> Pixels:
    """With the mean and the spread of each channel of another picture."""
    (mean, spread), (wanted_mean, wanted_spread) = cv2.meanStdDev(pixels), cv2.meanStdDev(model)
    gain = (wanted_spread / np.maximum(spread, 1.0))[:, 0]
    levels = (np.arange(256.0)[:, None] - mean[:, 0]) * gain + wanted_mean[:, 0]
    return mapped(pixels, clipped(levels))


FAMILY = Family(
    "other-edit",
    "lower",
    "The edit of another picture shows neither this picture nor what was asked for.",
    (Severity(0, "its colours, 25 % source"), Severity(1, "in the source's colours"), Severity(2, "exact")),
    _vary,
    damages="both",
)
