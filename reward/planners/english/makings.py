"""What something is made: coloured, older, smiling, like something else."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from ...edit_plan import OperationType, Target
from .additions import add, added_to, may_precede_object
from .changes import Change
from .lexicon import (
    ACTIONS,
    ARTICLES,
    BODY_PARTS,
    COLOR_MODIFIERS,
    COLORS,
    DEGREES,
    DETERMINERS,
    EXPRESSION_VERBS,
    EXPRESSIONS,
    LARGER,
    LOOKING,
    MATERIALS,
    NUMBERS,
    OBJECT_COLORS,
    OTHER_PREPOSITIONS,
    PREPOSITIONS,
    SCENES,
    SMALLER,
    STATES,
    WEATHER_WORDS,
)
from .noun_phrases import Phrase
from .removals import remove
from .replacements import changed, changed_object
from .request import Operations, Request, objects_of
from .tokens import Token, Tokens, text_of, words_in
from .values import (
    color_value,
    head_of,
    is_adjective,
    is_description,
    is_filter,
    is_style,
    is_weather,
    material_value,
    plain_text,
    state_value,
)


def color(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`paint the door (in) blue`."""
    if verb in ("colorize", "colourise", "colorise") and (not tokens or tokens[-1].word in SCENES):
        return request.operation("restoration")
    words = words_in(tokens)
    if verb == "set":
        return None
    if verb in ("paint", "draw", "repaint") and words and words[0] in ("a", "an", "some"):
        return add("add", tokens, request) if verb == "paint" and " on " in f" {' '.join(words)} " else None
    boundary = _value_start(tokens)
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
    return _each(tokens[:end], request, "color_alter", value)


def _each(tokens: Tokens, request: Request, kind: OperationType, value: str) -> Operations | None:
    """The same change of each of the objects."""
    objects = objects_of(tokens, request)
    if objects is None:
        return None
    operations: Operations = []
    for number, phrase in enumerate(objects):
        *nouns, last = phrase.target.noun.split()
        if number + 1 < len(objects) and nouns and last in COLORS:  # "the sky blue and the grass green"
            if kind != "color_alter" or last in OBJECT_COLORS:
                return None
            plain = replace(phrase.target, noun=" ".join(nouns))
            operations += request.operation(kind, target=plain, value=last, loose=phrase.loose) or []
            continue
        if phrase.article == "a" or phrase.target.noun in SCENES:
            return None
        if kind in ("color_alter", "material_alter") and phrase.target == Target("background"):
            operations += request.operation("background_change", value=value) or []
            continue
        if phrase.pronoun in ("it", "them") and request.antecedent is None:
            return None
        aspect = phrase.target.noun.split()[-1]
        if aspect in ("color", "colour") and kind == "color_alter":
            return None
        made = request.operation(kind, target=phrase.target, value=value, loose=phrase.loose)
        if made is None:
            return None
        operations += made
    return operations


def _value_start(tokens: Tokens) -> int | None:
    """Where the colour or property at the end begins; None without one, or where nothing is left before it."""
    index = len(tokens)
    while index and _is_value_word(tokens[index - 1].word):
        index -= 1
    while index < len(tokens) and tokens[index].word in ("and", ",", "of"):
        index += 1
    if index == len(tokens):
        return None
    words = words_in(tokens)
    # A noun must be left: "make the orange blue".
    while index < len(tokens) and (index == 0 or not _may_end_object(words[:index])):
        index += 1
    return index if index < len(tokens) and words[index] not in ("and", ",", "of") else None


def _is_value_word(word: str) -> bool:
    return is_adjective(word) or word in _VALUE_WORDS or ("-" in word and word.rsplit("-", maxsplit=1)[-1] in COLORS)


_VALUE_WORDS = (
    COLORS | COLOR_MODIFIERS | STATES | MATERIALS | DEGREES | LARGER | SMALLER | EXPRESSIONS | WEATHER_WORDS
) | {"and", "shade"}


def _may_end_object(words: list[str]) -> bool:
    last = words[-1]
    if last in ("in", "to", "into", "with"):
        return len(words) > 1 and _may_end_object(words[:-1])
    return last not in DETERMINERS | {"'s", "and", ",", "of", "all", "both"} and (
        last not in PREPOSITIONS and last not in OTHER_PREPOSITIONS
    )


def make(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`make the cup blue`, `make the man smile`, `make the donut a cupcake`."""
    words = words_in(tokens)
    if not words or any(token.is_quote for token in tokens):
        return _text_said(tokens, request)
    if words[0] == "sure" or words[:2] == ["it", "so"]:
        return None
    action = _action_start(words)
    if action is not None:
        return _acted(tokens[:action], tokens[action:], request)
    for index, word in enumerate(words):
        if word == "into" and index:
            return changed(Change(tokens[:index], tokens[index + 1 :]), request, verb)
        if index and word in ("made", "out") and words[index + 1 : index + 2] == ["of"]:
            value = material_value(tokens[index:])
            return _each(tokens[:index], request, "material_alter", value) if value is not None else None
        if index and word == "of" and words[index - 1] in ("be", "made"):
            return None
    scene = _scene_prefix(tokens, request)
    if scene is not None:
        return _scene_made(tokens[scene:], request)
    boundary = _new_start(words)
    if boundary is not None:
        target = request.target(tokens[:boundary])
        if target is None or target.article == "a" or (target.pronoun and request.antecedent is None):
            return None
        new = tokens[boundary:]
        if "instead" in words:
            return None
        if head_of(words[boundary:]) in ("color", "colour", "shade", "look", "bit", "little", "lot"):
            color = color_value(new)
            if color is None:
                return None
        return changed_object(target, new, request)
    start = _value_start(tokens)
    if start is None:
        return None
    return _property(tokens[:start], tokens[start:], request)


def _scene_prefix(tokens: Tokens, request: Request) -> int | None:
    """The index after a name of the whole picture that the tokens begin with; None without one."""
    for size in (3, 2, 1):
        if len(tokens) <= size or not request.is_scene(tokens[:size]):
            continue
        if words_in(tokens[:size]) == ["it"] or tokens[size].word not in ("of", "'s", "frame", "frames"):
            return size
    return None


def _scene_made(value: Tokens, request: Request) -> Operations | None:
    words = words_in(value)
    if words[0] == "be":
        value, words = value[1:], words[1:]
    if not words:
        return None
    if words[0] == "look" and words[1:2] == ["like"] and len(words) > 2:
        if is_style(value[2:]) or is_filter(value[2:]):
            return request.operation("style", value=plain_text(value[2:]))
        return request.operation("weather", value=plain_text(value[2:])) if is_weather(value[2:]) else None
    if is_filter(value):
        return request.operation("filter", value=plain_text(value))
    core = [word for word in words if word not in DEGREES]
    if core in (["brighter"], ["darker"], ["lighter"]):
        return request.operation("light", value=text_of(value))
    if core in (["warmer"], ["cooler"], ["colorful"], ["colourful"], ["vibrant"], ["saturated"]):
        return request.operation("filter", value=text_of(value))
    if core in (["sharper"], ["clearer"]):
        return request.operation("restoration", value=text_of(value))
    if core in (["blurry"], ["blurrier"]):
        return request.operation("filter", value=text_of(value))
    if is_weather(value):
        return request.operation("weather", value=plain_text(value))
    if words[0] in ("a", "an") and is_style(value):
        return request.operation("style", value=plain_text(value))
    return None


def _action_start(words: list[str]) -> int | None:
    """Where the verb of what the object shall do begins, as in "make the man | raise his arm"."""
    for index in range(1, len(words)):
        word, before = words[index], words[index - 1]
        if word in LOOKING or word in ("wear", "have", "be") or word in ACTIONS:
            if index == 1 and before in ("her", "him", "it", "them"):
                return None if word in BODY_PARTS else index
            if not may_precede_object(before) or (before in STATES and index > 1 and words[index - 2] in DETERMINERS):
                continue
            if (
                word in ACTIONS
                and word not in ("look", "be")
                and (index + 1 < len(words))
                and (words[index + 1] in COLORS and index + 2 == len(words))
            ):
                continue  # "make the picture hang red": a noun
            if word in (
                "open",
                "close",
                "face",
                "play",
                "point",
                "light",
                "stick",
                "drive",
                "drink",
                "rest",
                "cross",
                "bow",
                "wave",
                "fly",
                "drop",
                "bark",
                "swing",
                "smile",
                "fold",
                "lie",
                "shake",
                "roll",
            ) and (index + 1 == len(words) and before in DETERMINERS):
                continue
            return index
    return None


def _acted(object_tokens: Tokens, action: Tokens, request: Request) -> Operations | None:
    words = words_in(action)
    verb, rest = words[0], action[1:]
    if not rest and verb in ("be", "have", "wear", "look", "appear", "seem"):
        return None
    if (request.is_scene(object_tokens) and words_in(object_tokens) != ["it"]) or (
        words_in(object_tokens) == ["it"] and request.antecedent is None
    ):
        if verb in ("rain", "snow"):
            return request.operation("weather", value=verb)
        return _scene_made(action, request) if verb in ("be", "look") else None
    if words_in(object_tokens) == ["it"] and verb in ("snow", "rain"):
        return request.operation("weather", value=verb)
    target = request.target(object_tokens)
    if target is None or target.article == "a" or (target.pronoun in ("them", "they") and request.antecedent is None):
        return None
    if verb == "be":
        return _became(target, object_tokens, rest, request)
    if verb in LOOKING:
        return _looked(target, object_tokens, verb, rest, request)
    if verb in ("wear", "have") or (verb in ("hold", "carry") and words_in(rest)[:1][0:1] in (["a"], ["an"], ["some"])):
        if (words_in(rest)[:1] and words_in(rest)[0] in (*ARTICLES, *NUMBERS, "some", "another")) or verb == "wear":
            if verb == "wear" and (color_value(rest) is not None or head_of(words_in(rest)) in ("clothes", "clothing")):
                return None
            return added_to(rest, object_tokens, request)
        if verb == "have":
            phrase = request.target(rest)
            if phrase is None:
                return None
            return added_to(rest, object_tokens, request)
        return None
    if not is_description(action, 16):
        return None
    if verb in EXPRESSION_VERBS:
        return request.operation("expression", target=target.target, value=text_of(action))
    if verb in ("turn",) and words_in(rest) and (color_value(rest) is not None):
        return request.operation("color_alter", target=target.target, value=text_of(rest), loose=target.loose)
    return request.operation("pose", target=target.target, value=text_of(action))


def _became(target: Phrase, object_tokens: Tokens, value: Tokens, request: Request) -> Operations | None:
    words = words_in(value)
    if not words:
        return None
    if words[0] in ("made", "out"):
        material = material_value(value)
        return None if material is None else _each(object_tokens, request, "material_alter", material)
    if words[0] in ("painted", "colored", "coloured", "dyed", "turned") and color_value(value[1:]) is not None:
        return _each(object_tokens, request, "color_alter", cast(str, color_value(value[1:])))
    if words[0].endswith("ing") and len(words[0]) > 4 and is_description(value, 14) and words[0] not in STATES:
        if words[0] in ("wearing", "holding", "carrying") and words[1:2] and words[1] in ("a", "an", "some"):
            return added_to(value[1:], object_tokens, request)
        return request.operation("pose", target=target.target, value=text_of(value))
    if words[0] in ("removed", "gone", "deleted", "erased") and len(words) == 1:
        return remove("remove", object_tokens, request)
    if words[0] in ("replaced",) and words[1:2] in (["with"], ["by"]):
        return changed(Change(object_tokens, value[2:]), request, "replace")
    if words[0] in ("changed", "turned", "converted") and words[1:2] in (["to"], ["into"]):
        return changed(Change(object_tokens, value[2:]), request, "change")
    made = _property(object_tokens, value, request)
    if made is not None:
        return made
    if words[:2] == ["full", "of"] and is_description(value, 8):
        return request.operation("attribute", target=target.target, value=text_of(value))
    if words[0] in ("covered", "filled", "decorated", "wrapped") and words[1:2] in (["with"], ["in"], ["by"]):
        if not is_description(value, 8):
            return None
        return request.operation("attribute", target=target.target, value=text_of(value))
    if words[0] in ("a", "an"):
        return changed_object(target, value, request)
    return None


def _looked(target: Phrase, object_tokens: Tokens, verb: str, rest: Tokens, request: Request) -> Operations | None:
    words = words_in(rest)
    if words[0] in (
        "to",
        "at",
        "away",
        "up",
        "down",
        "toward",
        "towards",
        "straight",
        "over",
        "into",
        "out",
        "slightly",
    ) and (verb == "look"):
        return (
            request.operation("pose", target=target.target, value=text_of([Token(verb, verb), *rest]))
            if is_description(rest, 10)
            else None
        )
    if target.pronoun and request.antecedent is None and words[0] in ("like", "as"):
        return None
    core = [word for word in words if word not in DEGREES]
    if core and all(word in EXPRESSIONS or word == "and" for word in core):
        return request.operation("expression", target=target.target, value=text_of(rest))
    if words[0] == "like" and words[1:3] in (["it's", "made"], ["they're", "made"]) and material_value(rest[2:]):
        return _each(object_tokens, request, "material_alter", cast(str, material_value(rest[2:])))
    if words[0] in ("like", "as") and len(words) > 1 and is_description(rest, 14):
        return request.operation("attribute", target=target.target, value=text_of([Token(verb, verb), *rest]))
    value = state_value(rest)
    return None if value is None else _property(object_tokens, rest, request)


def _property(object_tokens: Tokens, value: Tokens, request: Request) -> Operations | None:
    """A colour, material, size, expression or other property of objects."""
    words = words_in(value)
    core = [word for word in words if word not in DEGREES]
    if request.is_scene(object_tokens):
        return _scene_made(value, request)
    if not core:
        return None
    color = color_value(value)
    if color is not None:
        return _each(object_tokens, request, "color_alter", color)
    material = material_value(value)
    if material is not None:
        return _each(object_tokens, request, "material_alter", material)
    phrase = request.target(object_tokens)
    if phrase is None or phrase.article == "a" or (phrase.pronoun and request.antecedent is None):
        return None
    target = phrase.target
    if target.noun in ("side", "half", "part", "area", "top", "bottom", "corner") and target.relation is None:
        return None
    if core in (["longer"], ["shorter"]) and target.noun.split()[-1] in ("hair", "beard", "dress", "skirt", "sleeves"):
        return request.operation("attribute", target=target, value=text_of(value))
    if all(word in LARGER or word in SMALLER for word in core):
        return request.operation("resize", target=target, value=text_of(value))
    if core in (["blurry"], ["blurred"], ["blurrier"]):
        return request.operation("filter", target=target, value=text_of(value))
    if core in (["brighter"], ["darker"], ["lighter"]):
        if target.noun.split()[-1] in ("background", "sky", "room", "lighting", "light"):
            return request.operation("light", target=target, value=text_of(value))
        return None  # its colour, or its light
    if all(word in EXPRESSIONS or word == "and" for word in core):
        return request.operation("expression", target=target, value=text_of(value))
    text = state_value(value)
    if text is None or core[0] in ("same", "whole", "real"):
        return None
    return request.operation("attribute", target=target, value=text)


def _new_start(words: list[str]) -> int | None:
    """Where the new object begins, as in "make the donut | a cupcake"."""
    for index in range(1, len(words)):
        if words[index] in ("a", "an") and may_precede_object(words[index - 1]):
            rest = words[index + 1 : index + 2]
            return index if rest and rest[0] not in ("bit", "little", "lot") else None
    return None


def _text_said(tokens: Tokens, request: Request) -> Operations | None:
    """`make the sign say "OPEN"`."""
    words = words_in(tokens)
    for index, word in enumerate(words):
        if word in ("say", "read") and index and index + 2 == len(tokens) and tokens[index + 1].is_quote:
            target = request.target(tokens[:index])
            if target is None:
                return None
            return request.operation("text_change", target=target.target, text=tokens[index + 1].text, loose=True)
    return None
