"""The edit at other places of a batch of three."""

from __future__ import annotations

from dataclasses import replace

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant

_OTHERS = 2  # each is asked about anew


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    others = tuple(replace(other, id=f"other-{number}") for number, other in enumerate(edit.others[:_OTHERS]))
    if not others:
        return None
    place = round(amount * len(others))
    return Variant(edit.sample, others[:place], others[place:])


FAMILY = Family(
    "batch-order",
    "same",
    "The place of an edit in its batch is drawn by chance.",
    (Severity(0.0, "first"), Severity(0.5, "in the middle"), Severity(1.0, "last")),
    _vary,
)
