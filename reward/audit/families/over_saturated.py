"""The edited picture in glaring colours."""

from __future__ import annotations

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..requested_changes import COLOUR
from ..whole_picture_changes import saturated


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    return edit.damaged(saturated(edit.after, amount))


FAMILY = Family(
    "over-saturated",
    "lower",
    "Glaring colours are not those of the source.",
    (
        Severity(2, "2 times the saturation"),
        Severity(3, "3 times the saturation"),
        Severity(5, "5 times the saturation"),
    ),
    _vary,
    damages="preservation",
    unless_requested=(COLOUR,),
)
