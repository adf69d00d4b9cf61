"""The edited picture with little colour, or none."""

from __future__ import annotations

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..requested_changes import COLOUR
from ..whole_picture_changes import saturated


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    return edit.damaged(saturated(edit.after, amount))


FAMILY = Family(
    "desaturated",
    "lower",
    "A picture that has lost its colours has not kept those of the source.",
    (Severity(0.4, "40 % of the saturation"), Severity(0.2, "20 % of the saturation"), Severity(0.0, "grey")),
    _vary,
    damages="preservation",
    unless_requested=(COLOUR,),
)
