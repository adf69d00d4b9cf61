"""What would give a score to an operation that has none: boxes where boxes decide it, else a model that looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ...edit_plan import OperationType, PlannedOperation, Target
from ...missing_inputs import (
    needs_boxes,
    needs_models,
    needs_more_boxes,
    needs_readable_text,
    says_no_box,
    says_no_judge,
    unknown_colour,
)
from ...sample import EditSample
from .plan_conversion import task_of_operation
from .plan_questions import describe_change
from .target_location import LocatedTarget

_BY_BOXES: Mapping[OperationType, tuple[str, ...]] = MappingProxyType(
    {
        "subject_remove": ("target",),
        "position_change": ("target", "reference"),
        "count_change": ("target",),
        "color_alter": ("target",),
        "text_change": ("target", "reference"),
        "text_remove": ("target",),
    }
)
"""Types that are decided without a model that looks where these objects have boxes in the source."""
_BY_DETECTOR: tuple[OperationType, ...] = ("subject_add", "subject_replace")
"""Types that are about something new, which no box in the source shows, and a detector finds."""


def advice(
    sample: EditSample, operation: PlannedOperation, located: LocatedTarget | None, reasons: Sequence[str]
) -> str:
    """What is missing for an operation on which experts abstained, and what to type.

    located: its target in the source, if that is known. reasons: of the experts. Boxes are named only where they would
    decide the operation, and are not there yet. Other reasons than a missing box or judge stay as they are.
    """
    if not all(says_no_box(reason) or says_no_judge(reason) for reason in reasons):
        return "; ".join(dict.fromkeys(reasons))
    if operation.old_text and operation.type == "text_remove":
        return needs_readable_text(operation.old_text)
    objects = _deciding_objects(operation)
    if objects and operation.type == "color_alter" and (unknown := _unknown_colour(operation.value)):
        return unknown
    if located is not None and not located.boxes and (count := _missing(located)):
        return needs_more_boxes(located.target.phrase, count, len(located.others))
    lacking = _without_boxes(objects, reasons)
    related = _without_boxes([other for one in objects for other in _related(one)], reasons)
    if lacking or related:
        is_misnamed = list(lacking) == [one.phrase for one in objects]
        return needs_boxes(lacking or related, tuple(sample.boxes) if is_misnamed else ())
    if operation.type == "text_remove":
        return needs_readable_text("")
    unboxed = operation.type in _BY_DETECTOR and any(says_no_box(reason) for reason in reasons)
    return needs_models(describe_change(operation), detector=unboxed)


def _deciding_objects(operation: PlannedOperation) -> list[Target]:
    """The objects whose boxes decide an operation; none where boxes do not."""
    if operation.type != "text_remove" and task_of_operation(operation) is None:
        return []
    slots = (getattr(operation, slot) for slot in _BY_BOXES.get(operation.type, ()))
    return [target for target in slots if target is not None]


def _without_boxes(targets: Sequence[Target], reasons: Sequence[str]) -> dict[str, int]:
    """The names without a box, with how many are meant."""
    counts = {target.phrase: _count(target) or 1 for target in targets}
    return {name: count for name, count in counts.items() if any(says_no_box(reason, name) for reason in reasons)}


def _related(target: Target) -> list[Target]:
    """The objects that a target relates to, one through the other."""
    return [] if target.relation is None else [target.relation.of, *_related(target.relation.of)]


def _missing(located: LocatedTarget) -> int:
    """How many objects a target means, if it means more than have boxes; else 0."""
    wanted = _count(located.target)
    return wanted if wanted > len(located.others) > 0 else 0


def _count(target: Target) -> int:
    """How many objects a target means; 0 if that is open."""
    return {"both": 2, "all": 0}[target.quantity] if isinstance(target.quantity, str) else target.quantity


def _unknown_colour(value: str) -> str:
    """Why the judge of colours cannot tell a colour; empty where it can."""
    from ...experts.colour import COLOURS, basic_colour

    return "" if basic_colour(value) else unknown_colour(value, COLOURS)
