"""Whether objects have a colour now, at their places in the source."""

from __future__ import annotations

from collections.abc import Sequence

from ...boxes import Box
from ...engine.program import Program
from ...image import Image
from ...sample import Task
from ..edival import paper_protocol
from ..edival.conditions import Condition, all_hold
from ..edival.inspector import EditInspector, crop_box
from .target_location import THRESHOLD

_OPTIONS = paper_protocol.PaperOptions()
_ROOM = 1.3
"""Sides of the crops relative to the box: what is around an object tells which pixels are its own."""


def check_colour(inspector: EditInspector, task: Task, boxes: Sequence[Box]) -> Program[Condition]:
    """EdiVal's algorithm 8 with the crops of equation 2: each object, before and after, with what is around it.

    A judge sees what changed: a thin object fills little of its box, and a tint covers more than the object. A single
    object has to be detected still; of several, each is looked at where it was.
    """
    conditions: list[Condition] = []
    if len(boxes) == 1:
        (after,) = yield from inspector.detect(
            ("edited", task.object or ""), threshold=THRESHOLD, max_box_size=_OPTIONS.max_box_size
        )
        conditions.append(after.present())
        if after.best is None:
            return all_hold(conditions, total=2)
    for box in boxes:
        crops, place = _crops(inspector.source, inspector.edited, box)
        slots = {"object": task.object or "", "value": task.value or "", "box": place}
        reply = yield from inspector.ask_yes_no("color_pair", crops, slots)
        conditions.append(paper_protocol.judge_verdict("color", reply))
    return all_hold(conditions)


def _crops(source: Image, edited: Image, box: Box) -> tuple[tuple[Image, Image], str]:
    """The crops around a box, and its corners in shares of their sides."""
    w, h = (_ROOM * max(side, _OPTIONS.min_crop_size) for side in (box.w, box.h))
    x0, y0, x1, y1 = (
        max(0.0, box.cx - w / 2),
        max(0.0, box.cy - h / 2),
        min(1.0, box.cx + w / 2),
        min(1.0, box.cy + h / 2),
    )
    around = Box((x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0)
    corners = (
        *((box.x0 - x0) / around.w, (box.y0 - y0) / around.h),
        *((box.x1 - x0) / around.w, (box.y1 - y0) / around.h),
    )
    place = " ".join(f"{min(max(share, 0.0), 1.0):.3f}" for share in corners)
    return (crop_box(source, around), crop_box(edited, around)), place
