"""A mixture of the edit and its source: half-way back, and further."""

from __future__ import annotations

from ..asked_changes import DEGREE
from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..regions import blended


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    # Half of "slightly brighter" may be what was asked for, and so may half of a new light or of fog.
    if not edit.is_clear:
        return None
    return edit.picture(blended(edit.after, edit.before, amount))


FAMILY = Family(
    "blend-with-source",
    "lower",
    "A change that is half transparent is not carried out.",
    (Severity(0.5, "50 % source"), Severity(0.65, "65 % source"), Severity(0.8, "80 % source")),
    _vary,
    damages="following",
    needs_good_edit=True,
    unless_asked=(DEGREE,),
)
