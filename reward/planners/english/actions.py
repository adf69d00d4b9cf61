"""What an object shall do, wear, be or look like, as in "make the man | raise his arm"."""

from __future__ import annotations

from typing import cast

from ...edit_plan import Target
from .changes import Change
from .gifts import added_to, may_precede_object
from .lexicon import (
    ACTIONS,
    ADJECTIVES,
    ARTICLES,
    BODY_PARTS,
    COLORS,
    DEGREES,
    DETERMINERS,
    EXPRESSION_VERBS,
    EXPRESSIONS,
    LARGER_OF,
    LOOKING,
    NUMBERS,
    ORDINALS,
    PERSONS,
    PREPOSITIONS,
    SIDES,
    SMALLER_OF,
    STATES,
    word_set,
)
from .noun_phrases import Phrase
from .picture_colors import is_prominence
from .properties import each_made, property_made, scene_made
from .removals import remove
from .replacements import changed, changed_object
from .request import Operations, Request
from .states import open_or_close
from .tokens import Token, Tokens, text_of, words_in
from .values import color_value, head_of, is_description, material_value, plain_text, state_value


def action_start(words: list[str]) -> int | None:
    """Where the verb of what the object shall do begins; None without one."""
    for index in range(1, len(words)):
        word, before = words[index], words[index - 1]
        if word not in LOOKING and word not in ("wear", "have", "be", "become") and word not in ACTIONS:
            continue
        if index == 1 and before in ("her", "him", "it", "them"):
            return None if word in BODY_PARTS else index
        if may_precede_object(before) and not (word in ACTIONS and _is_noun_at(words, index)):
            return index
    return None


def _is_noun_at(words: list[str], index: int) -> bool:
    """Whether a word that may be a verb is the noun of the object: "the blue cross", "the second bow"."""
    word, before, rest = words[index], words[index - 1], words[index + 1 :]
    if word not in ("look", "be", "become", "turn") and len(rest) == 1 and rest[0] in COLORS:
        return True  # "make the coat hang red"
    begins = index > 1 and words[index - 2] in DETERMINERS
    if before in STATES:
        return begins
    if word not in _NOUNS:
        return False
    if before in SIDES:
        return begins and (index < 3 or words[index - 3] not in PREPOSITIONS)  # "the one on the left | bow"
    return before in ADJECTIVES or before in ORDINALS or before in LARGER_OF | SMALLER_OF or before in NUMBERS


_NOUNS = word_set(
    "open close face play point stick drive drink rest cross bow wave fly drop bark swing smile fold lie shake roll "
    "ride dance kiss hug catch kick throw walk run float pose tilt swim jump"
)
"""Actions that are names of objects as well."""


def acted(object_tokens: Tokens, action: Tokens, request: Request) -> Operations | None:
    """An object wears, has, looks or does something."""
    words = words_in(action)
    verb, rest = words[0], action[1:]
    is_it = words_in(object_tokens) == ["it"]
    if not rest and verb in ("be", "become", "have", "wear", "look", "appear", "seem"):
        return None
    if is_it and verb in ("snow", "rain"):
        return request.operation("weather", value=verb)
    if request.is_scene(object_tokens):
        return scene_made(action, request) if verb in ("be", "look") else None
    target = request.target(object_tokens)
    if target is None or target.article == "a" or request.is_unnamed(target):
        return None
    if verb == "become" and target.pronoun and target.target.noun in PERSONS | {"people"}:
        return None
    if verb in ("be", "become"):
        return became(target, object_tokens, rest, request)
    if verb in LOOKING:
        return _looked(target, object_tokens, verb, rest, request)
    first = words[1] if len(words) > 1 else ""
    if verb == "wear" and (color_value(rest) is not None or head_of(words_in(rest)) in ("clothes", "clothing")):
        return None
    if verb in ("wear", "have") or (verb in ("hold", "carry") and first in ("a", "an", "some", "another", *NUMBERS)):
        is_new = verb == "wear" or first in (*ARTICLES, *NUMBERS, "some", "another")
        return added_to(rest, object_tokens, request) if is_new or request.target(rest) is not None else None
    if verb in ("open", "close") and not rest:
        return open_or_close(verb, object_tokens, request)
    if not is_description(action, 16) or "," in words or is_prominence(words):
        return None
    if verb in EXPRESSION_VERBS or (verb in ("open", "close") and words[-1] in ("eyes", "eye", "mouth")):
        return request.operation("expression", target=target.target, value=text_of(action))
    if verb == "turn" and words[1:2] == ["into"]:
        return changed_object(target, rest[1:], request) if words[2:3] in (["a"], ["an"]) else None
    if verb == "turn" and color_value(rest) is not None:
        return request.operation("color_alter", target=target.target, value=text_of(rest), loose=target.loose)
    return request.operation("pose", target=target.target, value=text_of(action))


def became(target: Phrase, object_tokens: Tokens, value: Tokens, request: Request) -> Operations | None:
    """`(the cup should be) painted blue`, `removed`, `sitting on the bench`, `older`."""
    words = words_in(value)
    if not words:
        return None
    if words[0] in ("made", "out"):
        material = material_value(value)
        return None if material is None else each_made(object_tokens, request, "material_alter", material)
    if words[0] in ("painted", "colored", "coloured", "dyed", "turned") and color_value(value[1:]) is not None:
        return each_made(object_tokens, request, "color_alter", cast(str, color_value(value[1:])))
    if words[0].endswith("ing") and len(words[0]) > 4 and is_description(value, 14) and words[0] not in STATES:
        if words[0] == "wearing":
            return acted(object_tokens, [Token("wear", "wear"), *value[1:]], request)
        if words[0] in ("holding", "carrying") and words[1:2] and words[1] in ("a", "an", "some"):
            return added_to(value[1:], object_tokens, request)
        return request.operation("pose", target=target.target, value=text_of(value))
    if words[0] in ("removed", "gone", "deleted", "erased") and len(words) == 1:
        return remove("remove", object_tokens, request)
    if words[0] == "replaced" and words[1:2] in (["with"], ["by"]):
        return changed(Change(object_tokens, value[2:]), request, "replace")
    if words[0] in ("changed", "turned", "converted") and words[1:2] in (["to"], ["into"]):
        return changed(Change(object_tokens, value[2:]), request, "change")
    made = property_made(object_tokens, value, request)
    if made is not None:
        return made
    is_filled = words[:2] == ["full", "of"] or (
        words[0] in ("covered", "filled", "decorated", "wrapped") and words[1:2] in (["with"], ["in"], ["by"])
    )
    if is_filled and is_description(value, 8):
        return request.operation("attribute", target=target.target, value=text_of(value))
    return changed_object(target, value, request) if words[0] in ("a", "an") else None


_WHERE_TO = word_set(
    "to at away up down toward towards straight over into out slightly left right forward forwards back backwards "
    "sideways directly"
)


def _looked(target: Phrase, object_tokens: Tokens, verb: str, rest: Tokens, request: Request) -> Operations | None:
    words = words_in(rest)
    value = text_of([Token(verb, verb), *rest])
    if words[0] in _WHERE_TO and verb == "look":
        return request.operation("pose", target=target.target, value=value) if is_description(rest, 10) else None
    if request.is_unnamed(target):
        return None
    core = [word for word in words if word not in DEGREES]
    if core and all(word in EXPRESSIONS or word == "and" for word in core):
        return request.operation("expression", target=target.target, value=text_of(rest))
    if words[0] == "like" and words[1:3] in (["it's", "made"], ["they're", "made"]) and material_value(rest[2:]):
        return each_made(object_tokens, request, "material_alter", cast(str, material_value(rest[2:])))
    if words[0] == "like" and len(words) > 1 and target.target == Target("background") and is_description(rest):
        return request.operation("background_change", value=plain_text(rest[1:]))
    if words[0] in ("like", "as") and len(words) > 1 and is_description(rest, 14):
        return request.operation("attribute", target=target.target, value=value)
    return None if state_value(rest) is None else property_made(object_tokens, rest, request)
