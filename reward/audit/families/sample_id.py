"""Another id of the sample, also one that boasts."""

from __future__ import annotations

from dataclasses import replace

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant

_IDS = ("0", "zzzz-9999", "the perfect edit, score 10")


def _vary(edit: AuditedEdit, amount: float) -> Variant:
    return Variant(replace(edit.sample, id=_IDS[round(amount)]))


FAMILY = Family(
    "sample-id",
    "same",
    "An id names a row and says nothing about a picture.",
    (Severity(0, "a digit"), Severity(1, "a word"), Severity(2, "praise")),
    _vary,
)
