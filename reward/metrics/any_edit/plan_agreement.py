"""Whether two plans of one instruction ask for the same: a check of one planner by another."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ...edit_plan import EditPlan, OperationType, PlannedOperation, Target
from .english_words import CATCH_ALL_TYPES
from .instruction_words import stem, stems, words_of

_SENSES: Mapping[OperationType, str] = MappingProxyType(
    {
        "subject_add": "add state",
        "duplicate": "add number",
        "count_change": "number",
        "effect_add": "add look",
        "particles_add": "add look",
        "subject_remove": "remove",
        "text_remove": "remove text",
        "effect_remove": "remove look",
        "particles_remove": "remove look",
        "subject_replace": "replace",
        "background_change": "background",
        "extraction": "background cut",
        "color_alter": "surface",
        "material_alter": "surface",
        "attribute": "surface state look",
        "pose": "state turn",
        "expression": "state",
        "text_change": "text",
        "text_style": "text surface",
        "position_change": "place",
        "rotate": "turn",
        "resize": "size",
        "crop": "frame",
        "reframe": "frame",
        "zoom": "frame size",
        "camera": "frame turn",
        "filter": "look",
        "light": "look",
        "style": "look",
        "weather": "look",
        "restoration": "look",
    }
)
"""What a type asks for, in senses that careful readers may share: types with a sense in common do not contradict."""

_VALUED: frozenset[OperationType] = frozenset(("color_alter", "material_alter", "background_change"))


def plans_agree(one: EditPlan, other: EditPlan) -> bool:
    """Whether each operation of one plan has a counterpart in the other: of a type of the same sense, about the same
    objects, and with the same place, colour or material where both give one. What is kept is not compared.
    """
    return _covers(one, other) and _covers(other, one)


def _covers(one: EditPlan, other: EditPlan) -> bool:
    return all(any(_alike(operation, each) for each in other.operations) for operation in one.operations)


def _alike(one: PlannedOperation, other: PlannedOperation) -> bool:
    if not {one.type, other.type} & CATCH_ALL_TYPES and not _senses(one) & _senses(other):
        return False
    valued = one.value and other.value and {one.type, other.type} <= _VALUED
    if valued and not stems(one.value) & stems(other.value):
        return False
    return _same(one.target, other.target) and _same(one.new, other.new)


def _senses(operation: PlannedOperation) -> set[str]:
    return set(_SENSES[operation.type].split())


def _same(one: Target | None, other: Target | None) -> bool:
    """Whether two targets can be one; a plan may leave one out."""
    if one is None or other is None:
        return True
    if one.place and other.place and one.place != other.place:
        return False
    return _head(one) in stems(other.phrase) or _head(other) in stems(one.phrase)


def _head(target: Target) -> str:
    return stem((words_of(target.noun) or [target.noun.casefold()])[-1])
