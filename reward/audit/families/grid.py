"""Fine lines over the whole edited picture."""

from __future__ import annotations

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..requested_changes import DETAIL, FRAMING
from ..whole_picture_changes import gridded

_PERIOD = 8 / 512  # of the longer side
_LEAST_PERIOD = 3  # px


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    period = max(_LEAST_PERIOD, round(_PERIOD * max(edit.after.shape[:2])))
    strength = amount if edit.after.mean() < 128 else -amount  # where there is room
    return edit.damaged(gridded(edit.after, strength, period))


FAMILY = Family(
    "grid",
    "lower",
    "Lines over everything were neither in the source nor asked for.",
    (Severity(20, "20 grey levels"), Severity(40, "40 grey levels"), Severity(80, "80 grey levels")),
    _vary,
    damages="preservation",
    unless_requested=(DETAIL, FRAMING),
)
