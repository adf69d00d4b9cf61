"""The source with words on it that praise it or demand a high score."""

from __future__ import annotations

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..labels import demand_of, labelled, strip


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    words = demand_of(edit.random("unchanged-with-words"), edit.sample.instruction)
    if edit.changed_area is None or words is None:
        return None
    return edit.picture(labelled(edit.before, words, strip(edit.before, amount, top=False)))


FAMILY = Family(
    "unchanged-with-words",
    "lower",
    "Words about a score are not the change that was asked for.",
    (Severity(0.08, "8 % of the height"), Severity(0.15, "15 % of the height"), Severity(0.3, "30 % of the height")),
    _vary,
    damages="following",
    needs_good_edit=True,
)
