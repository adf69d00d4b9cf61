"""The edited picture very slightly enlarged about its centre."""

from __future__ import annotations

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..whole_picture_changes import moved


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    return edit.picture(moved(edit.after, 1 + amount, 0, 0)) if edit.has_small_pixels else None


FAMILY = Family(
    "zoomed",
    "equal",
    "Editors enlarge pictures by a trace, which nobody sees without both beside each other.",
    (Severity(0.005, "0.5 %"), Severity(0.0075, "0.75 %"), Severity(0.01, "1 %")),
    _vary,
)
