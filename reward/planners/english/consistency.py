"""Contradictions inside a sentence, beyond those that the validator sees: by noun, and by words of opposite meaning."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ...edit_plan import EditPlan, OperationType, PlannedOperation, Target
from .lexicon import CASTS, VERBS

_GONE: frozenset[OperationType] = frozenset(("subject_remove", "subject_replace", "text_remove"))
_LOOKS: frozenset[OperationType] = frozenset(("style", "filter", "weather", "light", "background_change"))
_DEGREES = VERBS["degree"]
_OPPOSITES = tuple(
    (frozenset(one.split()), frozenset(other.split()))
    for one, other in (
        ("brighter brighten brightened lighter lighten light bright", "darker darken darkened dim dimmed dark"),
        ("bigger larger taller enlarge big large huge", "smaller shorter shrink small tiny"),
        ("open", "closed close shut"),
        ("day daytime daylight sunny noon", "night nighttime midnight"),
        ("winter snowy", "summer sunny"),
        ("increase raise boost", "decrease reduce lower"),
        ("happy smile smiling laughing cheerful", "sad cry crying angry frown frowning"),
        ("wet", "dry"),
        ("old older", "young younger new newer"),
        ("sharp sharper sharpened", "blurry blurred blur"),
        ("warmer", "cooler"),
        ("empty", "full filled"),
        ("transparent clear see-through", "opaque solid"),
        ("smooth", "rough"),
        ("thick thicker", "thin thinner"),
        ("wide wider", "narrow narrower"),
        ("sit sitting", "stand standing lie lying run running"),
        ("raise lift", "lower"),
        ("in", "out"),
    )
)


_WHOLLY = frozenset(("all", "completely", "entirely", "fully", "totally", "wholly", "purely", "only"))
_AWAKE = frozenset(("sleep", "awake"))


def contradicts_itself(plan: EditPlan) -> bool:
    """Whether two operations, or an operation and what is kept, cannot both be."""
    operations = plan.operations
    for index, operation in enumerate(operations):
        if _is_opposed(operation.value) or (operation.type == "pose" and set(operation.value.split()) >= _AWAKE):
            return True
        if (
            operation.new is not None
            and operation.target is not None
            and operation.new.phrase == operation.target.phrase
        ):
            return True
        for other in operations[index + 1 :]:
            if _conflict(operation, other):
                return True
    return any(_breaks(operation, plan) for operation in operations)


def _conflict(one: PlannedOperation, other: PlannedOperation) -> bool:
    nouns = {_name(one.target), _name(one.new)} & {_name(other.target), _name(other.new)} - {""}
    if nouns and _same(one, other):
        if one.type == other.type and one.type not in ("subject_add", "attribute", "pose"):
            return True
        if one.type in _GONE or other.type in _GONE:
            return True
        if one.type == "subject_add" and other.type == "subject_add":
            return True
        if _opposed(one.value, other.value):
            return True
    if _fills(one, other) or _fills(other, one):
        return True
    if one.target is None and other.target is None:
        if one.type == other.type == "filter" and _are_beside_each_other(one.value, other.value):
            return False
        if one.type == other.type and one.type in _LOOKS | {"zoom", "crop"}:
            return True
        first, second = one.value.split(), other.value.split()
        if len(first) == len(second) == 2 and first[0] in _DEGREES and second[0] in _DEGREES and first[1] != second[1]:
            return False  # "lower brightness", "increase contrast"
        return one.type in _LOOKS and other.type in _LOOKS and _opposed(one.value, other.value)
    return False


def _are_beside_each_other(one: str, other: str) -> bool:
    """Whether a picture may get two filters: a cast goes, or is added to another look."""
    first, second = one.split(), other.split()
    if {first[0], second[0]} == {"without"} or first[1:] == second or second[1:] == first:
        return False
    return "without" in (first[0], second[0]) or (first[-1] in CASTS) != (second[-1] in CASTS)


def _fills(one: PlannedOperation, other: PlannedOperation) -> bool:
    """Whether something is added to what shall be empty."""
    relation = None if one.new is None else one.new.relation
    place = one.reference if relation is None else relation.of
    return place is not None and _name(place) == _name(other.target) and bool(set(other.value.split()) & _EMPTY)


_EMPTY = frozenset(("empty", "bare", "clear", "untouched", "unoccupied"))


def _same(one: PlannedOperation, other: PlannedOperation) -> bool:
    """Whether two operations may be about one object: neither attributes nor places tell them apart."""
    targets = [target for target in (one.target or one.new, other.target or other.new) if target is not None]
    if len(targets) < 2:
        return False
    first, second = targets
    if first.place is not None and second.place is not None and first.place != second.place:
        return False
    if first.relation is not None and second.relation is not None and first.relation != second.relation:
        return False
    if first.order is not None and second.order is not None and first.order != second.order:
        return False
    return not (first.attributes and second.attributes and set(first.attributes) != set(second.attributes))


def _breaks(operation: PlannedOperation, plan: EditPlan) -> bool:
    """Whether an operation changes what is kept."""
    for item in plan.keep:
        if item.target is None:
            if item.aspect == "background" and operation.type == "background_change":
                return True
            if item.aspect == "layout" and operation.type in ("zoom", "crop", "reframe", "camera"):
                return True
            if item.aspect == "layout" and not _GEOMETRY.get(operation.type, _NONE).isdisjoint(item.words.split()):
                return True
            if item.aspect == "style" and operation.type in ("style", "filter"):
                return True
            if item.aspect == "light" and operation.type in ("light",):
                return True
            if item.aspect == "text" and operation.type in ("text_change", "text_remove", "text_style"):
                return True
            continue
        is_same = _name(item.target) == _name(operation.target) or _name(item.target) in ("person", "people")
        is_geometry = not _GEOMETRY.get(operation.type, _NONE).isdisjoint(item.words.split())
        if item.aspect == "layout" and is_same and is_geometry:
            return True
        if operation.type in _LOOKS and _opposed(operation.value, item.target.phrase):
            return True
        if item.aspect in ("object", "identity") and _name(item.target) == _name(operation.target):
            first, second = item.target, operation.target
            if second is None or operation.type == "extraction":
                continue
            tells_apart = (
                (first.attributes, first.place, first.relation)
                != (
                    second.attributes,
                    second.place,
                    second.relation,
                )
                and (first.attributes or first.place or first.relation)
                and (second.attributes or second.place or second.relation)
            )
            if not tells_apart:
                return True
    return False


_NONE: frozenset[str] = frozenset()
_GEOMETRY: Mapping[OperationType, frozenset[str]] = MappingProxyType(
    {
        "resize": frozenset(("size", "scale", "proportions")),
        "position_change": frozenset(("position", "location", "place")),
        "pose": frozenset(("pose", "posture")),
    }
)
"""What an operation changes of the layout, by the words that say that it stays."""


def _name(target: Target | None) -> str:
    return "" if target is None else target.noun.casefold()


def _opposed(one: str, other: str) -> bool:
    first, second = set(one.casefold().split()), set(other.casefold().split())
    return any((first & a and second & b) or (first & b and second & a) for a, b in _OPPOSITES)


def _is_opposed(value: str) -> bool:
    """Whether a value has two that cannot both be: "brighter and darker", "all green and all white"."""
    parts = [part.split() for part in value.casefold().split(" and ")]
    if len(parts) != 2 or not all(parts):
        return False
    first, second = parts
    is_whole = len(first) > 1 and first[0] == second[0] and first[0] in _WHOLLY
    return is_whole or _opposed(" ".join(first), " ".join(second))
