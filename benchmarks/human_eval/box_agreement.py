"""Agreement of the boxes that annotators draw."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from ..common.errors import InputError
from ..suites.human_labels import Corners, Label
from ..suites.tables import Table
from .weighted_statistics import PairedObservations


def iou(first: Corners, second: Corners) -> float:
    """Intersection over union of two boxes (x0, y0, x1, y1), in [0, 1]."""
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    if width <= 0 or height <= 0:
        return 0.0
    areas = [(x1 - x0) * (y1 - y0) for x0, y0, x1, y1 in (first, second)]
    return width * height / (sum(areas) - width * height)


def mean_matched_iou(first: Sequence[Corners], second: Sequence[Corners]) -> float:
    """The mean IoU of boxes matched greedily, the largest IoU first; an unmatched box counts 0.

    1 if neither has a box: both state that nothing is there.
    """
    if not first and not second:
        return 1.0
    overlaps = sorted(((iou(a, b), i, j) for i, a in enumerate(first) for j, b in enumerate(second)), reverse=True)
    matched: tuple[set[int], set[int]] = (set(), set())
    total = 0.0
    for overlap, i, j in overlaps:
        if i not in matched[0] and j not in matched[1]:
            matched[0].add(i)
            matched[1].add(j)
            total += overlap
    return total / max(len(first), len(second))


def box_table(dimension: str, labels: Sequence[Label]) -> Table:
    """Agreement between annotators' boxes. A case is an item with boxes. Raises `InputError` for too many of them."""
    drawn: dict[object, list[Sequence[Corners]]] = {}
    for label in labels:
        if isinstance(label.label, tuple):
            drawn.setdefault(label.item_keys, []).append(label.label)
    for key, boxes in drawn.items():
        counts = [len(one) + 1 for one in boxes]
        if (compared := (sum(counts) ** 2 - sum(count**2 for count in counts)) // 2) > _MAX_COMPARED:
            raise InputError(
                f"{dimension}: {len(boxes):,} annotators drew {sum(map(len, boxes)):,} boxes on {key!r:.80}, which are "
                f"{compared:,} pairs, more than {_MAX_COMPARED:,}: give labels of fewer annotators"
            )
    alone = sum(len(boxes) == 1 for boxes in drawn.values())
    pairs = [
        (number, mean_matched_iou(a, b), 0.0)
        for number, boxes in enumerate(drawn.values())
        for a, b in combinations(boxes, 2)
    ]
    observations = PairedObservations.of(pairs, len(drawn))
    row = {"IoU": observations.mean(lambda x, _: x), "match": observations.mean(lambda x, _: x >= MATCH_IOU)}
    notes = [f"{len(drawn)} items, {alone} of them with boxes of one annotator only"]
    title = f"{dimension} (boxes): between annotators"
    return Table(f"annotators-boxes-{dimension}", title, list(row), {"all": row}, digits=3, notes=notes)


_MAX_COMPARED = 1_000_000
"""Pairs of boxes of one item, about a second: people draw a few each, and a file may hold millions."""

MATCH_IOU = 0.5
"""IoU from which two annotators' boxes count as equal."""
