"""A tint over the whole edited picture."""

from __future__ import annotations

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..requested_changes import COLOUR
from ..whole_picture_changes import with_cast

_TINTS = ((1, 0, -1), (-1, 0, 1), (-1, 1, -1), (1, -1, 1))  # warm, cold, green, magenta


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    red, green, blue = _TINTS[edit.random("colour-cast").integers(len(_TINTS))]
    return edit.damaged(with_cast(edit.after, (red * amount, green * amount, blue * amount)))


FAMILY = Family(
    "colour-cast",
    "lower",
    "A tint over everything changes colours that were to stay.",
    (Severity(25, "25 grey levels"), Severity(45, "45 grey levels"), Severity(80, "80 grey levels")),
    _vary,
    damages="preservation",
    unless_requested=(COLOUR,),
)
