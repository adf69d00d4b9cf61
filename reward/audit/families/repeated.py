"""The same sample asked again, three times: a reward's own noise."""

from __future__ import annotations

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant


def _vary(edit: AuditedEdit, amount: float) -> Variant:
    return Variant(edit.sample)


FAMILY = Family(
    "repeated",
    "same",
    "A reward that answers the same question differently adds noise to every advantage.",
    (Severity(1, "the second time"), Severity(2, "the third time"), Severity(3, "the fourth time")),
    _vary,
)
