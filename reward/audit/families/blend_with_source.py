"""A mixture of the edit and its source: half-way back, and further."""

from __future__ import annotations

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..regions import blended
from ..request import Request
from ..requested_changes import DEGREE, TEXT


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    if not edit.is_clear or _adds_text(edit.request):
        return None
    return edit.picture(blended(edit.after, edit.before, amount))


def _adds_text(request: Request) -> bool:
    """Words half transparent are still these words, where nobody said how opaque; where others stood, these show."""
    if request.plan is None:
        return TEXT.may_be_in(request)
    return any(one.type == "text_change" and one.target is None and not one.old_text for one in request.plan.operations)


FAMILY = Family(
    "blend-with-source",
    "lower",
    "A change that is half transparent is not carried out.",
    (Severity(0.5, "50 % source"), Severity(0.65, "65 % source"), Severity(0.8, "80 % source")),
    _vary,
    damages="following",
    needs_good_edit=True,
    unless_requested=(DEGREE,),
)
