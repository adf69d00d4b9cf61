"""Whether two plans ask for the same: as far as checks can tell, whatever the words around it."""

from __future__ import annotations

from collections.abc import Mapping

from editcritic.benchmarks.sceneedit.vocabulary import SHAPES
from editcritic.reward.edit_plan import EditPlan, OperationType, PlannedOperation, Target

from .twin_scenes import plural

_SINGULAR: Mapping[str, str] = {plural(shape): shape for shape in SHAPES}
_PICTURE = frozenset(("image", "picture", "photo", "photograph", "scene", "blur"))
"""Nouns that are no object: a plan may name them as what is changed, or nothing."""
_LOOKS: frozenset[OperationType] = frozenset(
    ("style", "weather", "light", "filter", "restoration", "effect_add", "effect_remove", "particles_add", "rotate")
)
"""Types of changes of the whole picture: several may be said of one change, in several words."""


def same_plan(one: EditPlan, other: EditPlan) -> bool:
    """Whether operations, targets, values and what is kept agree.

    Number of nouns, where an attribute ends and a noun begins, articles and the words of operations do not matter; nor
    type and value of changes of the whole picture, which `any-edit` checks by their words.
    """
    return _meaning(one) == _meaning(other)


def _meaning(plan: EditPlan) -> object:
    keep = frozenset((item.aspect, _of_target(item.target)) for item in plan.keep)
    return tuple(map(_of_operation, plan.operations)), keep


def _of_operation(operation: PlannedOperation) -> object:
    target = None if operation.target is None else _of_target(operation.target)
    if operation.type in _LOOKS and (operation.target is None or operation.target.noun in _PICTURE):
        return "look"
    if operation.type in ("crop", "zoom"):
        half = operation.target is not None and operation.target.noun == "half"
        return ("crop", None if half else target)
    return (
        operation.type,
        target,
        _of_target(operation.new),
        _value(operation.value),
        operation.text,
        operation.count,
        operation.position,
        _of_target(operation.reference),
    )


def _of_target(target: Target | None) -> object:
    if target is None:
        return None
    *before, last = target.phrase.casefold().split()
    relation = None if target.relation is None else (target.relation.kind, _of_target(target.relation.of))
    quantity = "all" if target.quantity in ("all", "both") else target.quantity
    return (
        (*before, _SINGULAR.get(last, last)),
        target.place,
        target.order,
        target.order_from,
        target.size,
        quantity,
        relation,
    )


def _value(value: str) -> str:
    words = [word for word in value.casefold().split() if word not in ("a", "an", "the")]
    return " ".join({"wooden": "wood", "metallic": "metal"}.get(word, word) for word in words)
