"""The source instead of the edit: exact, saved again, or with faint noise."""

from __future__ import annotations

import numpy as np

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    if edit.changed_area is None:
        return None  # the edit is a copy itself
    if amount == 0:
        return edit.picture(edit.before)
    noise = edit.random("unchanged-source").standard_normal(edit.before.shape, np.float32)
    return edit.picture(edit.before + np.float32(amount) * noise)


FAMILY = Family(
    "unchanged-source",
    "lower",
    "The source does not show what the instruction asks for; an edit that does is worth more.",
    (Severity(0.0, "exact"), Severity(1.0, "noise of 1 grey level"), Severity(3.0, "noise of 3 grey levels")),
    _vary,
    damages="following",
    needs_good_edit=True,
)
