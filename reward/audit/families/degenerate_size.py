"""An edited picture of one pixel, one column or one row."""

from __future__ import annotations

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    height, width = edit.after.shape[:2]
    if min(height, width) < _LEAST:
        return None
    rows, columns = ((1, 1), (height, 1), (1, width))[round(amount)]
    return edit.picture(edit.after[:rows, :columns])


_LEAST = 16
"""Pixels of a side: a smaller picture is nearly one row itself."""

FAMILY = Family(
    "degenerate-size",
    "no_number",
    "One pixel, row or column shows no edit: the editor has failed.",
    (Severity(0, "1 x 1 px"), Severity(1, "one column"), Severity(2, "one row")),
    _vary,
)
