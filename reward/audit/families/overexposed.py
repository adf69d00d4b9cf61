"""The edited picture too bright, with light parts burnt out."""

from __future__ import annotations

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..requested_changes import LIGHT
from ..whole_picture_changes import scaled


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    return edit.damaged(scaled(edit.after, amount))


FAMILY = Family(
    "overexposed",
    "lower",
    "Light that was not asked for burns out what was to stay.",
    (Severity(1.5, "1.5 times as bright"), Severity(2.0, "2 times as bright"), Severity(3.0, "3 times as bright")),
    _vary,
    damages="preservation",
    unless_requested=(LIGHT,),
)
