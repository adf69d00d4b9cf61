"""An object outside of the change, or a place with detail, is there a second time."""

from __future__ import annotations

from ...image import Pixels
from ..audited_edit import Area, AuditedEdit
from ..family import Family, Severity, Variant
from ..regions import areas_elsewhere, detail, most_visible, objects_elsewhere, rectangle, within
from ..requested_changes import NUMBER


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    originals = [*objects_elsewhere(edit, amount)] or [*areas_elsewhere(edit, amount, "object-duplicated originals")]
    if not originals:
        return None
    original = max(originals, key=lambda area: detail(within(edit.after, area)))

    def second(area: Area) -> Pixels | None:
        overlap = all(abs(area[axis] - original[axis]) < original[axis + 2] for axis in (0, 1))
        return None if overlap else within(edit.after, original)

    places = areas_elsewhere(edit, amount, "object-duplicated", size=(original[2], original[3]))
    pixels = most_visible(edit, places, second, rectangle)
    return None if pixels is None else edit.picture(pixels)


FAMILY = Family(
    "object-duplicated",
    "lower",
    "A second one of what the instruction does not name was not asked for.",
    (
        Severity(0.015, "1.5 % of the picture"),
        Severity(0.04, "4 % of the picture"),
        Severity(0.1, "10 % of the picture"),
    ),
    _vary,
    damages="preservation",
    needs_good_edit=True,
    unless_requested=(NUMBER,),
)
