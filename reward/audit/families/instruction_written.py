"""The source with the instruction written on it."""

from __future__ import annotations

import textwrap

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..labels import labelled, strip
from ..requested_changes import TEXT

_LETTERS = 160


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    words = textwrap.shorten(edit.sample.instruction, _LETTERS)
    # The letters at hand have no others; and where text is asked for, the caption may have it.
    if edit.changed_area is None or not words or not words.isascii():
        return None
    return edit.picture(labelled(edit.before, words, strip(edit.before, amount, top=False)))


FAMILY = Family(
    "instruction-written",
    "lower",
    "A caption that names the change is not the change.",
    (Severity(0.1, "10 % of the height"), Severity(0.18, "18 % of the height"), Severity(0.3, "30 % of the height")),
    _vary,
    damages="following",
    needs_good_edit=True,
    unless_requested=(TEXT,),
)
