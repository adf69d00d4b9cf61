"""Boxes that people draw: how far two drawings of one thing agree."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from ..suites.tables import Table
from .labels import Corners, Label
from .weighted import Observed


def overlap(one: Corners, other: Corners) -> float:
    """Intersection over union of two boxes (x0, y0, x1, y1), in [0, 1]."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    if width <= 0 or height <= 0:
        return 0.0
    areas = [(x1 - x0) * (y1 - y0) for x0, y0, x1, y1 in (one, other)]
    return width * height / (sum(areas) - width * height)


def drawn_alike(one: Sequence[Corners], other: Sequence[Corners]) -> float:
    """The mean overlap of boxes matched greedily, the largest overlap first; a box without a partner counts 0.

    1 where neither has a box: both say that there is nothing.
    """
    if not one and not other:
        return 1.0
    found = sorted(((overlap(a, b), i, j) for i, a in enumerate(one) for j, b in enumerate(other)), reverse=True)
    taken: tuple[set[int], set[int]] = (set(), set())
    total = 0.0
    for shared, i, j in found:
        if i not in taken[0] and j not in taken[1]:
            taken[0].add(i)
            taken[1].add(j)
            total += shared
    return total / max(len(one), len(other))


def box_table(dimension: str, labels: Sequence[Label]) -> Table:
    """Annotators' boxes with each other's. A case is a thing that was drawn on."""
    drawn: dict[object, list[Sequence[Corners]]] = {}
    for label in labels:
        if isinstance(label.label, tuple):
            drawn.setdefault(label.on, []).append(label.label)
    alone = sum(len(given) == 1 for given in drawn.values())
    pairs = [
        (number, drawn_alike(a, b), 0.0)
        for number, given in enumerate(drawn.values())
        for a, b in combinations(given, 2)
    ]
    seen = Observed.of(pairs, len(drawn))
    row = {"IoU": seen.mean(lambda x, _: x), "alike": seen.mean(lambda x, _: x >= ALIKE)}
    notes = [f"{len(drawn)} things, {alone} of them drawn on by one annotator only"]
    title = f"{dimension} (boxes): annotators with each other"
    return Table(f"annotators-boxes-{dimension}", title, list(row), {"all": row}, digits=3, notes=notes)


ALIKE = 0.5
"""Drawings that overlap so far are of the same thing."""
