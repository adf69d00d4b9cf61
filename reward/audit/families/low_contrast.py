"""The edited picture as through a veil of grey."""

from __future__ import annotations

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..requested_changes import LIGHT
from ..whole_picture_changes import contrasted


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    return edit.damaged(contrasted(edit.after, amount))


FAMILY = Family(
    "low-contrast",
    "lower",
    "A veil over everything dulls what was to stay.",
    (
        Severity(0.5, "50 % of the contrast"),
        Severity(0.3, "30 % of the contrast"),
        Severity(0.15, "15 % of the contrast"),
    ),
    _vary,
    damages="preservation",
    unless_requested=(LIGHT,),
)
