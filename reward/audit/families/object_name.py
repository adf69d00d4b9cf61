"""The source with the name of what was asked for painted where the change should be."""

from __future__ import annotations

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..labels import labelled
from ..requested_changes import TEXT

_LETTERS = 40


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    name = next((name for name in edit.request.names() if name.isascii()), None)
    # A text that was asked for may be this very name.
    if name is None or edit.changed_area is None:
        return None
    x, y, w, h = edit.changed_area
    height, width = edit.before.shape[:2]
    label_height = min(height, max(6, round(amount * height)))
    label_width = min(width, max(label_height, round(0.6 * label_height * len(name[:_LETTERS]))))
    left = min(max(0, x + (w - label_width) // 2), width - label_width)
    top = min(max(0, y + (h - label_height) // 2), height - label_height)
    return edit.picture(labelled(edit.before, name[:_LETTERS], (left, top, label_width, label_height)))


FAMILY = Family(
    "object-name",
    "lower",
    "The name of a thing is not the thing.",
    (Severity(0.06, "6 % of the height"), Severity(0.12, "12 % of the height"), Severity(0.22, "22 % of the height")),
    _vary,
    damages="following",
    needs_good_edit=True,
    unless_requested=(TEXT,),
)
