"""Another shape: editors answer in sizes of their own, to which they stretch the source, or cut it about its middle.

That is drift, charged the more the further the shapes are apart, and the edit is brought back to the source's shape.
What shows another part of the scene, or the source between bars, is another composition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...boxes import Box
from ...edit_plan import EditPlan, OperationType
from ...engine.program import Program, ask_many
from ...image import Image
from ...queries.change_map import ChangeMap
from ...queries.kinds import MapChanges
from ...sample import EditSample
from ..guards import SameAspect
from .preservation import LOST_EXCESS, preservation
from .regions import is_whole

NEW_ASPECT_TYPES: frozenset[OperationType] = frozenset(("crop", "reframe", "extraction"))
"""Types of operations that may give the picture another shape."""

SAME_SHAPE = SameAspect(0.015)
"""Up to here another shape is what rounding to multiples of 8 to 64 pixels makes: no composition is refused for it."""
_EQUAL_SHAPE = SameAspect(0.003)

SHAPE_COST = ((0.0, math.log(1.3), math.log(2.0)), (1.0, 0.96, 0.0))
"""Ratio of two shapes (a logarithm), and what it leaves of an edit: the sizes that editors prefer are at most 1.3 from
any source; twice as wide, everybody is squashed, or half of the picture is cut off. Linear in between: a square leaves
0.90 of an edit of a picture of 4:3, 0.64 of 3:2 and 0.26 of 16:9."""

SAME_COMPOSITION = (0.45, 0.65)
"""Share of the structure that is at its place (`_agreement`), and whether that is the same composition. The right one
of the three ways has 0.9 and more, other photographs 0.3 and less, other parts of the same scene up to 0.5."""

PADDED, PADDED_LAYOUT = 0.02, 0.1
"""Agreement by which a picture between bars explains an edit better than the others do, to be one: of structure, and of
layouts where every pixel may change. The wrong way to bring a narrow strip back is aligned, and loses `_MOVED`."""
_MOVED = 3.0
"""What an alignment costs in agreement, in units of its zoom and shift: the right way needs none."""


@dataclass(frozen=True, slots=True)
class Reshaped:
    """edited: in the source's shape, with the source itself where nothing is shown of it. remaining: what the other
    shape leaves, in [0, 1]; 0 for another composition. reason: what was done.
    """

    edited: Image
    remaining: float
    reason: str


def in_source_shape(sample: EditSample, plan: EditPlan) -> Program[Reshaped | None]:
    """An edit of another shape, back in that of the source; None where it has the source's, or may have any.

    Of three ways (stretched, cut about the middle, put between bars) the one that leaves most of the structure outside
    of the annotated boxes at its place; where the plan may change every pixel, most of the layout. As stretched counts,
    as it is, what rounding alone has stretched.
    """
    source, edited = sample.source, sample.edited
    if any(operation.type in NEW_ASPECT_TYPES for operation in plan.operations):
        return None
    if (yield from _EQUAL_SHAPE(sample)).value:
        return None
    is_rounded = (yield from SAME_SHAPE(sample)).value == 1.0
    x0, y0, x1, y1 = middle_of_shape(source.size, edited.width / edited.height)
    shown = Box.from_corners(x0, y0, x1, y1, source.size)
    fine = max(1.0, math.sqrt(edited.width * edited.height / ((x1 - x0) * (y1 - y0))))  # it may have a finer resolution
    left, top, right, bottom = (round(fine * side) for side in (x0, y0, x1, y1))
    size = round(fine * source.width), round(fine * source.height)
    ways = {
        "stretched": edited.resized(*size),
        "cut": source.resized(*size).pasted(edited.resized(right - left, bottom - top), left, top),
        "padded": edited.crop(*middle_of_shape(edited.size, source.width / source.height)).resized(*size),
    }
    maps = yield from ask_many([MapChanges(source, picture) for picture in ways.values()])
    changes = dict(zip(ways, maps, strict=True))
    is_everywhere = any(is_whole(operation) for operation in plan.operations)
    boxes = tuple(box for known in sample.boxes.values() for box in known)
    fit = {
        way: found.structure if is_everywhere else _agreement(found, boxes, None if way == "padded" else shown)
        for way, found in changes.items()
    }
    way = "cut" if fit["cut"] > fit["stretched"] else "stretched"
    sizes = f"{source.width} x {source.height} to {edited.width} x {edited.height}"
    if is_rounded and way == "stretched":
        return None
    if fit["padded"] > fit[way] + (PADDED_LAYOUT if is_everywhere else PADDED) and not is_rounded:
        return Reshaped(ways["stretched"], 0.0, f"the picture stands between bars, from {sizes}")
    ratio = edited.width / edited.height / (source.width / source.height)
    remaining = float(np.interp(abs(math.log(ratio)), *SHAPE_COST))
    if not is_everywhere and not is_rounded:
        remaining *= float(np.interp(fit[way], SAME_COMPOSITION, (0.0, 1.0)))
    reason = f"{way} from {sizes}"
    if not remaining:
        reason = f"another composition, or shape: neither stretched nor cut a little from {sizes}"
    return Reshaped(ways[way], remaining, reason)


def middle_of_shape(size: tuple[int, int], aspect: float) -> tuple[int, int, int, int]:
    """Corners of the largest part about the middle with this width over height, in pixels."""
    width, height = size
    w, h = max(1, min(width, round(height * aspect))), max(1, min(height, round(width / aspect)))
    x, y = (width - w) // 2, (height - h) // 2
    return x, y, x + w, y + h


def _agreement(changes: ChangeMap, exempt: tuple[Box, ...], shown: Box | None) -> float:
    """At most 1: share of the structure outside of some boxes, and inside of what is shown, that is at its place, less
    what the alignment of all of it costs.
    """
    measured = preservation(changes, exempt, within=None if shown is None else [shown])
    low, high = LOST_EXCESS
    amount = (changes.amplitude_before + changes.amplitude_after).sum(axis=2)[measured.is_compared]
    if not amount.any():  # nothing there that could be elsewhere
        return 1.0
    stays = 1 - np.clip((measured.heat[measured.is_compared] - low) / (high - low), 0, 1)
    return float((amount * stays).sum() / amount.sum()) - _MOVED * measured.drift_values["geometry"]
