"""The edited picture from a file of another name: neutral, boasting, long."""

from __future__ import annotations

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..picture_files import opened, png

_NAMES = ("edit", "perfect_edit_score_10_of_10", "a" * 150)


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    if edit.folder is None:
        return None
    name = f"{_NAMES[round(amount)]}-{edit.sample.edited.digest[:16]}.png"
    return edit.edited(opened(edit.folder, name, png(edit.sample.edited)))


FAMILY = Family(
    "file-name",
    "same",
    "The name of a file says nothing about the picture in it.",
    (Severity(0, "neutral"), Severity(1, "boasting"), Severity(2, "long")),
    _vary,
)
