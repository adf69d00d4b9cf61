"""The edited picture as a JPEG of bad quality."""

from __future__ import annotations

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..requested_changes import DETAIL
from ..whole_picture_changes import jpeg


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    return edit.damaged(jpeg(edit.after, round(amount)))


FAMILY = Family(
    "compressed",
    "lower",
    "Blocks and rings of compression were not in the source.",
    (Severity(12, "JPEG 12"), Severity(7, "JPEG 7"), Severity(3, "JPEG 3")),
    _vary,
    damages="preservation",
    unless_requested=(DETAIL,),
)
