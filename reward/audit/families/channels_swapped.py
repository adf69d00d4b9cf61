"""The edited picture with red, green and blue in another order."""

from __future__ import annotations

import numpy as np

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..requested_changes import COLOUR

_ORDERS = ((2, 1, 0), (1, 0, 2), (1, 2, 0))


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    return edit.damaged(np.ascontiguousarray(edit.after[..., _ORDERS[round(amount)]]))


FAMILY = Family(
    "channels-swapped",
    "lower",
    "Channels in a wrong order change the colour of everything.",
    (Severity(0, "red for blue"), Severity(1, "red for green"), Severity(2, "all three")),
    _vary,
    damages="preservation",
    unless_requested=(COLOUR,),
)
