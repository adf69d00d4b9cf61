"""The edited picture's file is damaged between its opening and its scoring."""

from __future__ import annotations

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..picture_files import png, unreadable


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    kind = round(amount)
    file = b"" if kind == 1 else png(edit.sample.edited)
    data = (file[: len(file) // 2], b"", edit.random("broken-file").bytes(len(file)))[kind]
    image = unreadable(edit, f"broken-file-{kind}", data)
    return None if image is None else edit.edited(image)


FAMILY = Family(
    "broken-file",
    "no_number",
    "A picture that cannot be read has no quality, and a number for it would be trained on.",
    (Severity(0, "half of the file"), Severity(1, "an empty file"), Severity(2, "random bytes")),
    _vary,
)
