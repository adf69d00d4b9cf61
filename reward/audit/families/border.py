"""A frame over the rim of the edited picture."""

from __future__ import annotations

import numpy as np

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..requested_changes import FRAMING

_COLOURS = ((0, 0, 0), (255, 255, 255), (200, 30, 30), (30, 60, 160))


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    height, width = edit.after.shape[:2]
    x, y = (min(max(1, round(amount * max(width, height))), side // 4) for side in (width, height))
    framed = np.empty_like(edit.after)
    framed[:] = _COLOURS[edit.random("border").integers(len(_COLOURS))]
    framed[y : height - y, x : width - x] = edit.after[y : height - y, x : width - x]
    return edit.damaged(framed)


FAMILY = Family(
    "border",
    "lower",
    "A frame that was not asked for covers what lies near the rim.",
    (
        Severity(0.04, "4 % of the longer side"),
        Severity(0.08, "8 % of the longer side"),
        Severity(0.16, "16 % of the longer side"),
    ),
    _vary,
    damages="preservation",
    needs_good_edit=True,  # what should have gone may lie near the rim
    unless_requested=(FRAMING,),
)
