"""What must stay ("keep the table", "without changing the background"), and what cannot both be in one plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from types import MappingProxyType

from ...edit_plan import EditPlan, Kept, KeptAspect, OperationType, PlannedOperation, Target
from ...metrics.any_edit.instruction_words import word_set
from . import lexicon as lex
from .lexicon import by_word, phrases
from .noun_phrases import Phrase, phrase_at, with_pronoun_resolved
from .sentences import Tokens, is_scene, scene_end, word_at, words_in

_ASPECTS: Mapping[str, KeptAspect] = by_word(
    {
        "background": "background backdrop",
        "light": "lighting light",
        "style": "style look atmosphere ambiance mood theme colors",
        "text": "text words",
        "layout": "layout composition structure framing",
    }
)
_OF_OBJECT: Mapping[str, KeptAspect] = by_word(
    {
        "identity": "identity face likeness features",
        "layout": "pose position posture shape size proportions structure composition layout",
    }
)
_REST = phrases(
    "everything else, all else, the rest, all other elements, all other objects, everything else in place, "
    "the other elements, other elements, anything else, nothing else, any other elements"
)
_STAYING = word_set("should must stays remains stay remain be exactly completely entirely fully")
_AS_IT_IS = phrases(
    "the same, as is, as it is, as they are, as before, in place, as it was, visible, visible in the foreground, "
    "in focus, the way it is, for context"
)
_BEFORE = word_set("original existing current overall same surrounding")
_DETAILS = word_set("detail details")
_GONE: frozenset[OperationType] = frozenset(("subject_remove", "subject_replace", "text_remove"))
_LOOKS: frozenset[OperationType] = frozenset(("style", "filter", "weather", "light", "background_change"))
_DEGREES = lex.VERBS["degree"]
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
_EMPTY = frozenset(("empty", "bare", "clear", "untouched", "unoccupied"))
_CHANGING: Mapping[KeptAspect, tuple[OperationType, ...]] = MappingProxyType(
    {
        "background": ("background_change",),
        "layout": ("zoom", "crop", "reframe", "camera"),
        "style": ("style", "filter"),
        "light": ("light",),
        "text": ("text_change", "text_remove", "text_style"),
    }
)
"""What changes an aspect of the whole picture."""
_NONE: frozenset[str] = frozenset()
_GEOMETRY: Mapping[OperationType, frozenset[str]] = MappingProxyType(
    {
        "resize": frozenset(("size", "scale", "proportions")),
        "position_change": frozenset(("position", "location", "place")),
        "pose": frozenset(("pose", "posture")),
    }
)
"""What an operation changes of the layout, by the words that say that it stays."""


def kept_of(tokens: Tokens, words: str, antecedent: Target | None) -> list[Kept] | None:
    """What is kept, as the tokens after "keep" say; None where they say anything else as well."""
    tokens = tokens[: _end_of_objects(tokens)]
    if not tokens:
        return None
    low = tuple(words_in(tokens))
    for rest in _REST:
        if low == rest or (low[: len(rest)] == rest and scene_end(tokens, len(rest)) == len(tokens)):
            return [Kept("layout", None, words)]
    if is_scene(tokens):
        return None  # nothing may change, or it says nothing
    kept: list[Kept] = []
    owner: Target | None = None
    start = 0
    while start < len(tokens):
        is_shared = bool(kept) and tokens[start].word not in lex.DETERMINERS  # "her pose and face"
        one = _one_kept(tokens, start, words, (owner if is_shared else None) or antecedent)
        if one is None:
            return None
        kept.append(one[0])
        owner = one[0].target
        start = one[1]
        before = start
        while start < len(tokens) and tokens[start].word in (",", "and", "or"):
            start += 1
        if start < len(tokens) and start == before:
            return None
    return kept


def _end_of_objects(tokens: Tokens) -> int:
    """The index after the objects, before the words that they stay."""
    words = words_in(tokens)
    for index in range(1, len(words)):
        rest = [word for word in words[index:] if word not in _STAYING]
        if rest and ((rest[0] in lex.UNCHANGED and len(rest) == 1) or tuple(rest) in _AS_IT_IS):
            return index
    return len(words)


def _without_value(tokens: Tokens, start: int) -> Phrase | None:
    """The object that is kept, without what it is kept as: "the walls white"."""
    phrase = phrase_at(tokens, start)
    if phrase is None:
        return None
    *nouns, last = phrase.target.noun.split()
    if nouns and last in ("bare", "empty", "clear"):
        return None  # "leaving his head bare": what nothing shall be put on
    if nouns and (last in lex.COLORS or last in lex.STATES or last in lex.ADJECTIVES) and last not in lex.OBJECT_COLORS:
        return replace(phrase, target=replace(phrase.target, noun=" ".join(nouns)))
    return phrase


def _one_kept(tokens: Tokens, start: int, words: str, antecedent: Target | None) -> tuple[Kept, int] | None:
    low = words_in(tokens[start:])
    offset = 1 if low and low[0] in lex.ARTICLES else 0
    while word_at(low, offset) in _BEFORE:
        offset += 1
    head = word_at(low, offset)
    after = low[offset + 1 : offset + 2]
    if head in _ASPECTS and (not after or after[0] in (",", "and", "or") or scene_end(tokens, start + offset + 1)):
        end = scene_end(tokens, start + offset + 1) if after and after[0] not in (",", "and", "or") else None
        return Kept(_ASPECTS[head], None, words), end if end is not None else start + offset + 1
    if head in {"elements", "environment"}:
        return None
    if low[:1] in (["him"], ["her"], ["it"], ["them"]) and (len(low) == 1 or low[1] in (",", "and")):
        target = antecedent
        if target is None and low[0] in lex.PERSON_PRONOUNS:
            target = Target(lex.PERSON_PRONOUNS[low[0]])
        return None if target is None else (Kept("object", target, words), start + 1)
    phrase = _without_value(tokens, start)
    if phrase is None:
        return None
    resolved = with_pronoun_resolved(phrase, antecedent)
    if resolved is None:
        return None
    target = resolved.target
    last = target.noun.split()[-1]
    if target.noun in lex.SCENES and target.relation is None and target.place is None:
        return None  # "remaining a realistic photo"
    if target.relation is not None and target.relation.of.noun in ("color", "colour"):
        return None  # "keeping the umbrella in color"
    if not _DETAILS.isdisjoint(target.noun.split()):
        return None  # how sharp they are, not what is there
    if last in ("color", "colour", "material", "texture", "expression", "orientation", "angle", "direction"):
        return None
    if last in _OF_OBJECT and target.relation is not None and target.relation.kind == "part":
        owner = None if target.relation.of.noun in lex.SCENES else target.relation.of
        return Kept(_OF_OBJECT[last], owner, words), phrase.end
    if last in _OF_OBJECT and target.relation is None:
        is_person = antecedent is not None and antecedent.noun.split()[-1] in lex.PERSONS | {"people"}
        owner = antecedent if _OF_OBJECT[last] == "identity" and is_person else None
        is_clear = owner is not None or _OF_OBJECT[last] != "identity"
        return (Kept(_OF_OBJECT[last], owner, words), phrase.end) if is_clear else None
    if last in lex.BACKGROUND_NOUNS and target.place == "background":
        return Kept("background", None, words), phrase.end
    if last in _ASPECTS and (target.relation is None or target.relation.kind == "with"):
        return Kept(_ASPECTS[last], None, words), phrase.end
    return Kept("object", target, words), phrase.end


def contradicts_itself(plan: EditPlan) -> bool:
    """Whether two operations, or an operation and what is kept, cannot both be."""
    operations = plan.operations
    for one in operations:
        if _is_opposed(one.value) or (one.type == "pose" and set(one.value.split()) >= _AWAKE):
            return True
        if one.new is not None and one.target is not None and one.new.phrase == one.target.phrase:
            return True
    pairs = combinations(operations, 2)
    return any(_conflict(*pair) for pair in pairs) or any(_breaks(one, plan) for one in operations)


def _conflict(one: PlannedOperation, other: PlannedOperation) -> bool:
    nouns = {_name(one.target), _name(one.new)} & {_name(other.target), _name(other.new)} - {""}
    if nouns and _same(one, other):
        if one.type in _GONE or other.type in _GONE or _opposed(one.value, other.value):
            return True
        if one.type == other.type and one.type not in ("attribute", "pose"):
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
    return "without" in (first[0], second[0]) or (first[-1] in lex.CASTS) != (second[-1] in lex.CASTS)


def _fills(one: PlannedOperation, other: PlannedOperation) -> bool:
    """Whether something is added to what shall be empty."""
    relation = None if one.new is None else one.new.relation
    place = one.reference if relation is None else relation.of
    return place is not None and _name(place) == _name(other.target) and bool(set(other.value.split()) & _EMPTY)


def _same(one: PlannedOperation, other: PlannedOperation) -> bool:
    """Whether two operations may be about one object: neither attributes nor places tell them apart."""
    targets = [target for target in (one.target or one.new, other.target or other.new) if target is not None]
    if len(targets) < 2:
        return False
    first, second = targets
    slots = ((first.place, second.place), (first.relation, second.relation), (first.order, second.order))
    if any(None not in pair and pair[0] != pair[1] for pair in slots):
        return False
    return not (first.attributes and second.attributes and set(first.attributes) != set(second.attributes))


def _breaks(operation: PlannedOperation, plan: EditPlan) -> bool:
    """Whether an operation changes what is kept."""
    for item in plan.keep:
        is_geometry = not _GEOMETRY.get(operation.type, _NONE).isdisjoint(item.words.split())
        if item.target is None:
            if operation.type in _CHANGING.get(item.aspect, ()) or (item.aspect == "layout" and is_geometry):
                return True
            continue
        is_same = _name(item.target) == _name(operation.target) or _name(item.target) in ("person", "people")
        if item.aspect == "layout" and is_same and is_geometry:
            return True
        if operation.type in _LOOKS and _opposed(operation.value, item.target.phrase):
            return True
        if item.aspect in ("object", "identity") and _name(item.target) == _name(operation.target):
            first, second = item.target, operation.target
            if second is None or operation.type == "extraction":
                continue
            tells_apart = (
                (first.attributes, first.place, first.relation) != (second.attributes, second.place, second.relation)
                and (first.attributes or first.place or first.relation)
                and (second.attributes or second.place or second.relation)
            )
            if not tells_apart:
                return True
    return False


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
