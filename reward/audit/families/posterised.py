"""The edited picture in few grey levels a channel."""

from __future__ import annotations

import numpy as np

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..requested_changes import COLOUR, DETAIL
from ..whole_picture_changes import clipped, mapped


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    steps = round(amount) - 1
    return edit.damaged(mapped(edit.after, clipped(np.rint(np.arange(256) * steps / 255) * 255 / steps)))


FAMILY = Family(
    "posterised",
    "lower",
    "Flat bands have replaced the shades of the source.",
    (Severity(5, "5 levels a channel"), Severity(3, "3 levels a channel"), Severity(2, "2 levels a channel")),
    _vary,
    damages="preservation",
    unless_requested=(COLOUR, DETAIL),
)
