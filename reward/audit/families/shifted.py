"""The edited picture moved by one pixel."""

from __future__ import annotations

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..whole_picture_changes import moved

_SHIFTS = ((1, 0), (0, 1), (1, 1))


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    return edit.picture(moved(edit.after, 1, *_SHIFTS[round(amount)])) if edit.has_small_pixels else None


FAMILY = Family(
    "shifted",
    "equal",
    "Resizing and padding in an editor move a picture by a pixel, which nobody sees.",
    (Severity(0, "1 px right"), Severity(1, "1 px down"), Severity(2, "1 px right and down")),
    _vary,
)
