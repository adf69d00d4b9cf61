"""The edited picture made smaller and brought back to its size."""

from __future__ import annotations

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..whole_picture_changes import resized


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    return edit.picture(resized(edit.after, amount)) if edit.has_small_pixels else None


FAMILY = Family(
    "resized",
    "equal",
    "Tools resize pictures on their way, and a photograph at most of its resolution shows the same edit.",
    (Severity(0.9, "to 90 % and back"), Severity(0.8, "to 80 % and back"), Severity(0.7, "to 70 % and back")),
    _vary,
)
