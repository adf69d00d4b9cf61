"""Checks of operations on the look of the pixels: brighter, more contrast, warmer, sharper, grey, and their opposites.

A change counts if it can be seen, goes the right way and outweighs what else changed in the look; another operation, a
copy and the opposite do not count. All is measured on the pixels, so that no judge is needed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import get_args

import numpy as np

from ...boxes import Box
from ...edit_plan import EditPlan
from ...engine.program import Abstained, Program, ask, ask_many
from ...image import Image
from ...queries.change_map import ChangeMap
from ...queries.kinds import LookQuantity, Measure
from ...sample import EditSample
from ...score import Evidence
from ..edival.conditions import Condition, all_hold, make_condition
from ..edival.inspector import crop_box
from .pixel_edits import LookEdit, look_edit
from .target_location import locate_targets

_QUANTITIES: tuple[LookQuantity, ...] = get_args(LookQuantity)
_SIDE, _DETAIL_SIDE = 256, 1024
"""Pixels of the longer side at which looks are compared, and fine gradients."""
_VISIBLE: Mapping[str, tuple[float, float]] = MappingProxyType(
    {"lightness": (1.0, 3.0), "contrast": (0.4, 1.4), "saturation": (0.7, 2.7), "warmth": (0.8, 3.0)}
)
"""Change up to which nothing is seen, and from which on it is plain, in units of CIE L*a*b*."""
_VISIBLE_DETAIL = {True: (0.05, 0.2), False: (0.2, 0.5)}
"""Likewise of detail, for more and for less of it: encoding alone takes some away."""
_WEIGHTS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "lightness": {"contrast": 1.5, "saturation": 0.7, "warmth": 1.5, "tint": 1.0},
        # Contrast about the middle grey darkens a dark picture, and stretches colours.
        "contrast": {"lightness": 0.4, "saturation": 0.6, "warmth": 0.6, "tint": 0.6},
        "saturation": {"lightness": 1.0, "contrast": 2.5, "warmth": 1.5, "tint": 1.0},
        # A cast takes colour from a picture of the opposite hue.
        "warmth": {"lightness": 1.0, "contrast": 1.5, "saturation": 1.5, "less saturation": 0.5, "tint": 0.7},
        "detail": {"lightness": 0.5, "contrast": 0.5, "saturation": 0.5, "warmth": 0.5, "tint": 0.5},
    }
)
"""Requested quantity -> how much of each other one outweighs it."""
_OUTWEIGHED = (1.0, 1.8)
"""Weighted change of another quantity, in shares of the requested one, up to which nothing is lost, and all is."""
_DETAIL_UNIT, _ENCODING = 10.0, 0.4
"""CIE L*a*b* units that a change of detail by a factor of e is worth; change of it that encoding may cause."""
_GREY, _COLOURED = 0.1, 0.3
"""Share of the chroma up to which a picture is grey, and from which on it is not."""
_COLOUR_STAYS = (0.4, 0.8)
"""Share of the chroma of what is to stay up to which it has become grey, and from which on it has not."""
_NO_COLOUR, _JUST_GREY = 3.0, 1.5
"""Chroma in CIE L*a*b* up to which nothing can be seen to lose colour, and up to which none is seen."""
_ALIKE_INSIDE = (0.4, 0.8)
"""Change of what is to stay, in shares of that of the background, up to which it has stayed, and from which on not."""
_CORE, _RIM = 0.6, 1.1
"""Sides of the part of a box that shows its object only, and of what may show some of it, in those of the box."""
_MAX_OBJECTS = 4


def look_in_question(edit: LookEdit, sample: EditSample) -> Program[str]:
    """Why the source leaves a request nothing to do; empty where it can be followed."""
    if edit.quantity not in ("grey", "saturation"):
        return ""
    chroma = yield from ask(Measure("chroma", (_fitted(sample.source, sample.source.size, _SIDE),)))
    is_grey = (chroma.value or 0.0) <= _NO_COLOUR
    return "the source has no colour" if is_grey else ""


def check_look(
    sample: EditSample,
    edit: LookEdit,
    boxes: Sequence[Box],
    also: Collection[str],
    evidence: list[Evidence],
    *,
    may_be_grey: bool = False,
) -> Program[Condition]:
    """Whether the edited picture has the look that was asked for.

    boxes: of the objects that are meant, or for the background, of those that stay; in the source. also: other
    quantities that the plan changes. may_be_grey: whether no colour at all is a lower saturation.
    """
    if edit.place == "object":
        crops = [
            tuple(crop_box(image, box) for image in (sample.source, sample.edited)) for box in boxes[:_MAX_OBJECTS]
        ]
        verdicts = []
        for source, edited in crops:
            values = yield from _changes(source, edited)
            verdicts.append((yield from _verdict(edit, values, also, (source, edited), (), may_be_grey)))
            evidence.append(Evidence("change of the look", sample.edited.digest, tuple(boxes), numbers=values))
        return all_hold(verdicts)
    exclude = tuple(replace(box, w=_RIM * box.w, h=_RIM * box.h) for box in boxes)
    values = yield from _changes(sample.source, sample.edited, exclude)
    evidence.append(Evidence("change of the look", sample.edited.digest, numbers=values))
    pictures = (sample.source, sample.edited)
    verdict = yield from _verdict(edit, values, also, pictures, exclude, may_be_grey)
    if edit.place == "whole" or not verdict.holds:
        return verdict
    stayed = []
    for box in boxes[:_MAX_OBJECTS]:
        source, edited = (crop_box(image, core_of(box)) for image in pictures)
        if edit.quantity == "grey":
            left = yield from _colour_left((source, edited), ())
            stayed.append(
                _graded(float(np.interp(left, _COLOUR_STAYS, (0.0, 1.0))), f"it has {left:.0%} of its colour")
            )
            continue
        inside = yield from _changes(source, edited)
        stayed.append(_stayed(edit, values, inside))
    return all_hold([verdict, *stayed])


def core_of(box: Box) -> Box:
    """The middle of a box, which shows its object and not what is around."""
    return replace(box, w=_CORE * box.w, h=_CORE * box.h)


def staying_boxes(sample: EditSample, plan: EditPlan) -> Program[tuple[Box, ...]]:
    """Boxes in the source of what stands before the background: what the plan keeps, and annotated objects."""
    kept = [item.target for item in plan.keep if item.target is not None and item.aspect in ("object", "identity")]
    boxes: list[Box] = []
    for target in kept:
        try:
            located = yield from locate_targets(sample.source, [target])
        except Abstained:  # about the source alone: the same for every edit of the group
            continue
        boxes += located[target].boxes
    if not boxes and not sample.history:
        boxes = [box for name, items in sample.boxes.items() if name.casefold() != "background" for box in items]
    return tuple(boxes)


def requested_looks(plan: EditPlan) -> list[LookEdit]:
    """All changes of the look that a plan asks for and pixels decide."""
    return [edit for operation in plan.operations if (edit := look_edit(operation)) is not None]


def detail_left(changes: ChangeMap) -> float:
    """How much of the coarse structure of the source is left after a change of tone, in [0, 1]: black and burnt out
    areas have lost it. Half the amplitude is no loss."""
    before, after = changes.amplitude_before[:, :, -1], changes.amplitude_after[:, :, -1]
    weight = np.maximum(before - _INVISIBLE, 0)
    if not weight.any():
        return 1.0
    share = np.interp(after / np.maximum(before, _INVISIBLE), (0.1, 0.35), (0.0, 1.0))
    return float((share * weight).sum() / weight.sum())


_INVISIBLE = 0.3
"""L* per pixel of gradients that are no structure."""


def _changes(source: Image, edited: Image, exclude: Sequence[Box] = ()) -> Program[dict[str, float]]:
    """Each quantity of the look; 0 where no pixel is left to measure. At the smaller size of the two."""
    size = min(source.size, edited.size)
    queries = []
    for quantity in _QUANTITIES:
        side = _DETAIL_SIDE if quantity == "detail" else _SIDE
        queries.append(Measure(quantity, (_fitted(source, size, side), _fitted(edited, size, side)), tuple(exclude)))
    answers = yield from ask_many(queries)
    return {quantity: answer.value or 0.0 for quantity, answer in zip(_QUANTITIES, answers, strict=True)}


def _fitted(image: Image, size: tuple[int, int], side: int) -> Image:
    ratio = min(1.0, side / max(size))
    return image.resized(max(1, round(size[0] * ratio)), max(1, round(size[1] * ratio)), "area")


def _verdict(
    edit: LookEdit,
    values: Mapping[str, float],
    also: Collection[str],
    pictures: tuple[Image, ...],
    exclude: tuple[Box, ...],
    may_be_grey: bool,
) -> Program[Condition]:
    left = 1.0
    if edit.quantity == "grey" or (edit.quantity == "saturation" and not edit.more):
        chromas = yield from ask_many(
            [Measure("chroma", (_fitted(one, one.size, _SIDE),), exclude) for one in pictures]
        )
        before, after = (answer.value or 0.0 for answer in chromas)
        left = after / max(before, 1e-6)
        if edit.quantity == "grey":
            fit = 1.0 if after <= _NO_COLOUR else float(np.interp(left, (_GREY, _COLOURED), (1.0, 0.0)))
            return _graded(fit, f"{left:.0%} of the colour is left")
    change = values[edit.quantity] if edit.more else -values[edit.quantity]
    limits = _VISIBLE_DETAIL[edit.more] if edit.quantity == "detail" else _VISIBLE[edit.quantity]
    seen = float(np.interp(change, limits, (0.0, 1.0)))
    reason = f"{edit.quantity} changed by {values[edit.quantity]:+.1f}"
    if change <= 0:
        return _graded(0.0, reason)
    unit = _DETAIL_UNIT if edit.quantity == "detail" else 1.0
    others = {
        name: _weight(edit.quantity, name, values) * abs(values[name]) / (unit * change)
        for name in _WEIGHTS[edit.quantity]
        if name in values and name not in also
    }
    if edit.quantity != "detail" and "detail" not in also:
        others["detail"] = _DETAIL_UNIT * max(0.0, abs(values["detail"]) - _ENCODING) / change
    strongest = max(others, key=lambda name: others[name], default="")
    fit = seen * float(np.interp(others.get(strongest, 0.0), _OUTWEIGHED, (1.0, 0.0)))
    if strongest and others[strongest] > _OUTWEIGHED[0]:
        reason += f", and {strongest} by {values[strongest]:+.1f}"
    if edit.quantity == "saturation" and not edit.more and not may_be_grey and left <= _GREY:
        return _graded(min(fit, 0.4), "no colour is left")
    return _graded(fit, reason)


def _colour_left(pictures: Sequence[Image], exclude: tuple[Box, ...]) -> Program[float]:
    """Share of the chroma of the first picture that the second one has; 0 for a grey one."""
    chromas = yield from ask_many([Measure("chroma", (_fitted(one, one.size, _SIDE),), exclude) for one in pictures])
    before, after = (answer.value or 0.0 for answer in chromas)
    return 0.0 if after <= _JUST_GREY else after / max(before, 1e-6)


def _weight(quantity: str, name: str, values: Mapping[str, float]) -> float:
    weights = _WEIGHTS[quantity]
    return weights.get(f"less {name}", weights[name]) if values[name] < 0 else weights[name]


def _graded(fit: float, reason: str) -> Condition:
    return make_condition(fit >= 0.5, 2 * fit - 1, fit, reason)


def _stayed(edit: LookEdit, outside: Mapping[str, float], inside: Mapping[str, float]) -> Condition:
    """Whether what stands before the background has changed less than it."""
    share = inside[edit.quantity] / outside[edit.quantity] if outside[edit.quantity] else 0.0
    fit = float(np.interp(share, _ALIKE_INSIDE, (1.0, 0.0)))
    return _graded(fit, f"what stands before the background has {share:.0%} of its change")
