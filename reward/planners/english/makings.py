"""What something is made ("make the cup blue", "make the donut a cupcake"), or shall do, wear, be or look like."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from ...edit_plan import Target
from ...metrics.any_edit.instruction_words import word_set
from . import lexicon as lex
from .additions import add, added_to, may_precede_object
from .moves import remove
from .noun_phrases import Operations, Phrase, Request, joined
from .properties import each_made, is_prominence, multiple_start, open_or_close, property_made, scene_made, value_start
from .replacements import changed, changed_object
from .sentences import Token, Tokens, text_of, words_in
from .texts import text_said
from .values import (
    Change,
    color_value,
    head_of,
    is_adjective,
    is_description,
    is_filter,
    is_weather,
    material_value,
    plain_text,
    state_value,
)

_MADE_FOR_SOMEBODY = lex.CLOTHES | word_set(
    "coffee tea sandwich cake pizza dinner breakfast lunch drink cocktail meal snack salad soup card gift present bed "
    "list offer deal promise bracelet necklace ring house toy chair table website playlist video picture drawing"
)
"""What is made for a person rather than of one: "make her a cake"."""
_STATE_STARTS = word_set("covered filled wrapped decorated wearing holding")
_NOUNS = word_set(
    "open close face play point stick drive drink rest cross bow wave fly drop bark swing smile fold lie shake roll "
    "ride dance kiss hug catch kick throw walk run float pose tilt swim jump"
)
"""Actions that are names of objects as well."""
_WHERE_TO = word_set(
    "to at away up down toward towards straight over into out slightly left right forward forwards back backwards "
    "sideways directly"
)


def color(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`paint the door (in) blue`."""
    if verb in ("colorize", "colourise", "colorise") and (not tokens or tokens[-1].word in lex.SCENES):
        return request.operation("restoration")
    words = words_in(tokens)
    if verb in ("paint", "repaint") and words and words[0] in ("a", "an", "some"):
        return add("add", tokens, request) if verb == "paint" and "on" in words else None
    several = _each_its_own(color, verb, tokens, request)
    if several is not None:
        return several
    boundary = value_start(tokens)
    if boundary is None:
        return None
    end = boundary
    while end and tokens[end - 1].word in ("in", "to", "into", "with", "a", "the"):
        end -= 1
    if end and tokens[end - 1].word == "color" and verb != "color":
        return None
    value = color_value(tokens[boundary:])
    if value is None:
        return None
    if request.is_scene(tokens[:end]):
        return request.operation("filter", value=value) if is_filter(tokens[boundary:]) else None
    return each_made(tokens[:end], request, "color_alter", value)


def _each_its_own(
    frame: Callable[[str, Tokens, Request], Operations | None], verb: str, tokens: Tokens, request: Request
) -> Operations | None:
    """`the sky blue and the grass green`: the verb is said once; None for anything else."""
    for index in range(2, len(tokens) - 2):
        if tokens[index].word not in ("and", ",") or tokens[index + 1].word not in lex.DETERMINERS | {"and"}:
            continue
        first = tokens[:index]
        start = value_start(first)
        if start is None or start == len(first):
            continue
        rest = tokens[index + (2 if tokens[index + 1].word == "and" else 1) :]
        return joined(frame(verb, part, request) for part in (first, rest))  # once, so that the time stays linear
    return None


def make(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`make the cup blue`, `make the man smile`, `make the donut a cupcake`."""
    words = words_in(tokens)
    said = text_said(tokens, request)
    if said is not None or not words or any(token.is_quote for token in tokens):
        return said
    if words[0] == "it" and len(words) > 1 and is_weather(tokens[1:]) and not is_adjective(words[-1]):
        return request.operation("weather", value=plain_text(tokens[1:]))  # "make it night"
    if words[0] == "sure" or words[:2] == ["it", "so"] or "instead" in words:
        return None
    several = _each_its_own(make, verb, tokens, request)
    if several is not None:
        return several
    multiple = multiple_start(words)
    if multiple is not None:
        return request.on(request.known(tokens[:multiple]), "resize", value=text_of(tokens[multiple:]))
    action = action_start(words)
    if action is not None:
        return acted(tokens[:action], tokens[action:], request)
    for index, word in enumerate(words):
        if word == "into" and index:
            return changed(Change(tokens[:index], tokens[index + 1 :]), request, verb)
        if index and word in ("made", "out") and words[index + 1 : index + 2] == ["of"]:
            value = material_value(tokens[index:]) or _open_material(tokens[index + 2 :])
            return each_made(tokens[:index], request, "material_alter", value) if value is not None else None
        if index and word == "of" and words[index - 1] in ("be", "made"):
            return None
    scene = _scene_prefix(tokens, request)
    if scene is not None:
        return scene_made(tokens[scene:], request)
    boundary = _new_start(words)
    if boundary is not None:
        target = request.known(tokens[:boundary])
        if target is None:
            return None
        new = tokens[boundary:]
        if target.pronoun in ("him", "her") and head_of(words[boundary:]) in _MADE_FOR_SOMEBODY:
            return None
        is_property = head_of(words[boundary:]) in ("color", "colour", "shade", "look", "bit", "little", "lot")
        return None if is_property and color_value(new) is None else changed_object(target, new, request)
    start = value_start(tokens)
    if start is not None:
        return property_made(tokens[:start], tokens[start:], request)
    state = next((index for index, word in enumerate(words) if index > 1 and word in _STATE_STARTS), len(words))
    target = request.target(tokens[:state])
    return None if target is None or state == len(words) else became(target, tokens[:state], tokens[state:], request)


def _open_material(tokens: Tokens) -> str | None:
    """What something is made of that is no listed material: "gingerbread"."""
    words = words_in(tokens)
    is_plain = 0 < len(words) <= 3 and not set(words) & (lex.STOPS | {"some", "any", "another"})
    return text_of(tokens) if is_plain and is_description(tokens) else None


def _scene_prefix(tokens: Tokens, request: Request) -> int | None:
    """The index after a name of the whole picture that the tokens begin with; None without one."""
    for size in (3, 2, 1):
        if len(tokens) <= size or not request.is_scene(tokens[:size]):
            continue
        if words_in(tokens[:size]) == ["this"] and not _may_follow_this(words_in(tokens[1:])):
            continue
        if words_in(tokens[:size]) == ["it"] or tokens[size].word not in ("of", "'s", "frame", "frames"):
            return size
    return None


def _may_follow_this(words: list[str]) -> bool:
    """Whether "this" before the words is a pronoun, and not the determiner of a name: "this | look old"."""
    is_value = words[0] in lex.ARTICLES | lex.DEGREES | lex.LOOKING or words[0] == "be" or is_adjective(words[0])
    return is_value or (len(words) == 1 and words[0] in lex.WEATHER_WORDS)


def _new_start(words: list[str]) -> int | None:
    """Where the new object begins, as in "make the donut | a cupcake"."""
    for index in range(1, len(words)):
        if words[index] in ("a", "an") and (may_precede_object(words[index - 1]) or words[:index] == ["her"]):
            rest = words[index + 1 : index + 2]
            return index if rest and rest[0] not in ("bit", "little", "lot") else None
    return None


def action_start(words: list[str]) -> int | None:
    """Where the verb of what the object shall do begins; None without one."""
    for index in range(1, len(words)):
        word, before = words[index], words[index - 1]
        if word not in lex.LOOKING and word not in ("wear", "have", "be", "become") and word not in lex.ACTIONS:
            continue
        if index == 1 and before in ("her", "him", "it", "them"):
            return None if word in lex.BODY_PARTS else index
        if may_precede_object(before) and not (word in lex.ACTIONS and _is_noun_at(words, index)):
            return index
    return None


def _is_noun_at(words: list[str], index: int) -> bool:
    """Whether a word that may be a verb is the noun of the object: "the blue cross", "the second bow"."""
    word, before, rest = words[index], words[index - 1], words[index + 1 :]
    if word not in ("look", "be", "become", "turn") and len(rest) == 1 and rest[0] in lex.COLORS:
        return True  # "make the coat hang red"
    begins = index > 1 and words[index - 2] in lex.DETERMINERS
    if before in lex.STATES:
        return begins
    if word not in _NOUNS:
        return False
    if before in lex.SIDES:
        return begins and (index < 3 or words[index - 3] not in lex.PREPOSITIONS)  # "the one on the left | bow"
    return before in lex.ADJECTIVES | lex.ORDINALS.keys() | lex.LARGER_OF | lex.SMALLER_OF | lex.NUMBERS.keys()


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
    target = request.known(object_tokens)
    if target is None:
        return None
    if verb == "become" and target.pronoun and target.target.noun in lex.PERSONS | {"people"}:
        return None
    if verb in ("be", "become"):
        return became(target, object_tokens, rest, request)
    if verb in lex.LOOKING:
        return _looked(target, object_tokens, verb, rest, request)
    first = words[1] if len(words) > 1 else ""
    if verb == "wear" and (color_value(rest) is not None or head_of(words_in(rest)) in ("clothes", "clothing")):
        return None
    is_counted = first in ("a", "an", "some", "another", *lex.NUMBERS)
    if verb in ("wear", "have") or (verb in ("hold", "carry") and is_counted):
        is_new = verb == "wear" or is_counted or first in lex.ARTICLES
        return added_to(rest, object_tokens, request) if is_new or request.target(rest) is not None else None
    if verb in ("open", "close") and not rest:
        return open_or_close(verb, object_tokens, request)
    if not is_description(action, 16) or "," in words or is_prominence(words):
        return None
    if verb in lex.EXPRESSION_VERBS or (verb in ("open", "close") and words[-1] in ("eyes", "eye", "mouth")):
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
    if words[0].endswith("ing") and len(words[0]) > 4 and is_description(value, 14) and words[0] not in lex.STATES:
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


def _looked(target: Phrase, object_tokens: Tokens, verb: str, rest: Tokens, request: Request) -> Operations | None:
    words = words_in(rest)
    value = text_of([Token(verb, verb), *rest])
    if words[0] in _WHERE_TO and verb == "look":
        return request.operation("pose", target=target.target, value=value) if is_description(rest, 10) else None
    if request.is_unnamed(target):
        return None
    core = [word for word in words if word not in lex.DEGREES]
    if core and all(word in lex.EXPRESSIONS or word == "and" for word in core):
        return request.operation("expression", target=target.target, value=text_of(rest))
    if words[0] == "like" and words[1:3] in (["it's", "made"], ["they're", "made"]) and material_value(rest[2:]):
        return each_made(object_tokens, request, "material_alter", cast(str, material_value(rest[2:])))
    if words[0] == "like" and len(words) > 1 and target.target == Target("background") and is_description(rest):
        return request.operation("background_change", value=plain_text(rest[1:]))
    if words[0] in ("like", "as") and len(words) > 1 and is_description(rest, 14):
        return request.operation("attribute", target=target.target, value=value)
    return None if state_value(rest) is None else property_made(object_tokens, rest, request)
