"""The edited picture too dark."""

from __future__ import annotations

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..requested_changes import LIGHT
from ..whole_picture_changes import scaled


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    return edit.damaged(scaled(edit.after, amount))


FAMILY = Family(
    "underexposed",
    "lower",
    "Darkness that was not asked for hides what was to stay.",
    (Severity(0.5, "50 % as bright"), Severity(0.3, "30 % as bright"), Severity(0.15, "15 % as bright")),
    _vary,
    damages="preservation",
    unless_requested=(LIGHT,),
)
