"""The source, with what the edit changed pasted at another place."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from ..audited_edit import Area, AuditedEdit
from ..family import Family, Severity, Variant
from ..regions import VISIBLE, blended, softened, visible_difference, with_patch, within
from ..requested_changes import ADDITION

_ATTEMPTS = 40
_PLACES = 5
_OVERLAP = 0.1  # of what changed


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    # What is added may stand anywhere, where the instruction does not say where: such places are not read here.
    if not edit.is_clear:
        return None
    area = edit.changed_area
    assert area is not None
    content, alpha = within(edit.after, area), softened(within(edit.changed, area)) * np.float32(amount)
    best: tuple[float, Area] | None = None
    for place in islice(_places(edit, area), _PLACES):
        there = within(edit.before, place)
        seen = visible_difference(there, blended(there, content, alpha))
        if best is None or seen > best[0]:
            best = seen, place
    if best is None or best[0] < VISIBLE / 2:  # over the box of the change, which it fills in part
        return None
    return edit.picture(with_patch(edit.before, content, best[1], alpha))


def _places(edit: AuditedEdit, area: Area) -> Iterator[Area]:
    """Of the same size, where hardly anything changed."""
    _, _, w, h = area
    height, width = edit.after.shape[:2]
    rng = edit.random("misplaced")
    mask = within(edit.changed, area)
    for _ in range(_ATTEMPTS):
        place = (int(rng.integers(width - w + 1)), int(rng.integers(height - h + 1)), w, h)
        if (within(edit.changed, place) & mask).sum() <= _OVERLAP * mask.sum():
            yield place


FAMILY = Family(
    "misplaced",
    "lower",
    "A change at another place leaves undone what was asked for, and damages what was not.",
    (Severity(0.6, "60 % opaque"), Severity(0.8, "80 % opaque"), Severity(1.0, "opaque")),
    _vary,
    damages="both",
    needs_good_edit=True,
    unless_requested=(ADDITION,),
)
