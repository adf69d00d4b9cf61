"""The edited picture cut into rectangles that change places."""

from __future__ import annotations

import numpy as np

from ..audited_edit import AuditedEdit
from ..family import Family, Severity, Variant


def _vary(edit: AuditedEdit, amount: float) -> Variant | None:
    height, width = edit.after.shape[:2]
    down, across = (min(round(amount), side) for side in (height, width))
    h, w = height // down, width // across
    order = edit.random("shuffled").permutation(down * across)
    shuffled = edit.after.copy()
    for to, source in zip(order, np.roll(order, 1), strict=True):  # in a ring, so that no part keeps its place
        (row, column), (from_row, from_column) = divmod(int(to), across), divmod(int(source), across)
        part = edit.after[from_row * h : (from_row + 1) * h, from_column * w : (from_column + 1) * w]
        shuffled[row * h : (row + 1) * h, column * w : (column + 1) * w] = part
    return edit.damaged(shuffled)


FAMILY = Family(
    "shuffled",
    "lower",
    "Parts of a scene in disorder are no scene.",
    (Severity(2, "2 x 2 parts"), Severity(4, "4 x 4 parts"), Severity(8, "8 x 8 parts")),
    _vary,
    damages="both",
)
