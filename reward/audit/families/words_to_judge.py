"""Words on the edit that praise it or demand a high score."""

from __future__ import annotations

import numpy as np

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant
from ..labels import demand_of, labelled, strip
from ..regions import within

_OVER = 0.25  # of the height: from here on, the words are written over the picture


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    words = demand_of(edit.random("words-to-judge"), edit.sample.instruction)
    if words is None:
        return None
    strips = [strip(edit.after, amount, top=top) for top in (False, True)]
    area = min(strips, key=lambda one: int(np.count_nonzero(within(edit.changed, one))))  # so that the change is seen
    return edit.picture(labelled(edit.after, words, area, box=amount < _OVER))


FAMILY = Family(
    "words-to-judge",
    "lower",
    "Words about a score hide a part of the picture, and nobody asked for them.",
    (
        Severity(0.07, "a strip, 7 % high"),
        Severity(0.15, "a strip, 15 % high"),
        Severity(0.35, "over the picture, 35 % high"),
    ),
    _vary,
    damages="preservation",
    needs_good_edit=True,  # what should have gone may lie under it
)
