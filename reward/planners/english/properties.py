"""Colours, materials, sizes, expressions and other properties that objects, or the whole picture, shall have."""

from __future__ import annotations

from ...edit_plan import OperationType, Target
from .changes import aspect_of
from .lexicon import (
    ADJECTIVES,
    BACKGROUND_NOUNS,
    COLOR_MODIFIERS,
    COLORS,
    DEGREES,
    DETERMINERS,
    EXPRESSIONS,
    LARGER,
    MATERIALS,
    NUMBERS,
    OBJECT_COLORS,
    OTHER_PREPOSITIONS,
    PERSONS,
    PREPOSITIONS,
    SCENES,
    SHAPES,
    SIDES,
    SMALLER,
    STATES,
    WEATHER_WORDS,
    word_set,
)
from .replacements import aspect_changed
from .request import Operations, Request, objects_of
from .tokens import Tokens, text_of, words_in
from .values import (
    color_value,
    is_adjective,
    is_filter,
    is_style,
    is_weather,
    material_value,
    plain_text,
    state_value,
)

# -- where the value begins --------------------------------------------------------------------------------------------


def value_start(tokens: Tokens) -> int | None:
    """Where the colour or property at the end begins; None without one, or where no object is left before it."""
    index = len(tokens)
    if index > 3 and tokens[-2].word == "in" and tokens[-1].word in ("color", "colour"):
        index -= 2
    while index and _is_value_word(tokens[index - 1].word):
        index -= 1
    while index < len(tokens) and tokens[index].word in ("and", ",", "of"):
        index += 1
    words = words_in(tokens)
    while index < len(words) and (index == 0 or not _may_end_object(words[:index]) or _is_within_name(words, index)):
        index += 1
    if index > 1 and words[index - 1] == "a" and words[index : index + 1] in (["little"], ["bit"]):
        index -= 1
    return index if index < len(words) and words[index] not in ("and", ",", "of") else None


def _is_within_name(words: list[str], index: int) -> bool:
    """Whether the name of an object goes on: it has no noun yet, as in "the orange | diamond pink"."""
    if index + 1 >= len(words):
        return False
    before, word = words[index - 1], words[index]
    if before in _PAINTED:
        return False
    if before not in ADJECTIVES and before not in _SURELY_BEFORE_NOUN:
        return False
    if word in ("and", ",", "of") or (word not in _MAYBE_NOUNS and word not in ADJECTIVES | LARGER | SMALLER):
        return False
    if before not in _MAYBE_NOUNS:
        return before not in SIDES or not any(word in PREPOSITIONS for word in words[max(0, index - 3) : index - 1])
    is_shade = word in COLOR_MODIFIERS and words[index + 1] in COLORS
    return word in _MAYBE_NOUNS and not is_shade


_MAYBE_NOUNS = (OBJECT_COLORS | MATERIALS | SHAPES) - word_set("wooden golden woolen knitted stainless round")
"""Words of properties that are names of objects, too."""
_SURELY_BEFORE_NOUN = SIDES.keys() | word_set("bigger smaller larger tinier")


_PAINTED = word_set("painted dyed colored coloured")


def _without_painted(tokens: Tokens) -> Tokens:
    """`(have) the wall painted (green)`: the wall."""
    return tokens[:-1] if len(tokens) > 1 and tokens[-1].word in _PAINTED else tokens


def _is_value_word(word: str) -> bool:
    return is_adjective(word) or word in _VALUE_WORDS or ("-" in word and word.rsplit("-", maxsplit=1)[-1] in COLORS)


_VALUE_WORDS = (
    COLORS | COLOR_MODIFIERS | STATES | MATERIALS | DEGREES | LARGER | SMALLER | EXPRESSIONS | WEATHER_WORDS
) | {"and", "shade"}


def _may_end_object(words: list[str]) -> bool:
    last = words[-1]
    if words == ["her"]:
        return True  # "make her older"
    if last in ("in", "to", "into", "with"):
        return len(words) > 1 and _may_end_object(words[:-1])
    return last not in DETERMINERS | {"'s", "and", ",", "of", "all", "both"} and (
        last not in PREPOSITIONS and last not in OTHER_PREPOSITIONS
    )


def multiple_start(words: list[str]) -> int | None:
    """Where "twice as big", "half the size" or "three times larger" begins, if it ends the words; None without."""
    for index in range(max(1, len(words) - 5), len(words) - 1):
        rest = words[index:]
        if rest[0] in ("twice", "half", "double", "triple") and _is_size(rest[1:]):
            return index
        if (rest[0] in NUMBERS or rest[0].isdecimal()) and rest[1] == "times" and _is_size(rest[2:]):
            return index
    return None


def _is_size(words: list[str]) -> bool:
    if words[:1] == ["as"]:
        return words[1:] in ([word] for word in ("big", "large", "tall", "small", "long", "wide", "high"))
    if words[:1] in (["the"], ["its"], ["his"], ["her"], ["their"]):
        return words[1:] in (["size"], ["original", "size"], ["current", "size"])
    return len(words) == 1 and (words[0] in LARGER or words[0] in SMALLER)


# -- of objects --------------------------------------------------------------------------------------------------------


def each_made(tokens: Tokens, request: Request, kind: OperationType, value: str) -> Operations | None:
    """The same change of each of the objects."""
    objects = objects_of(_without_painted(tokens), request)
    if objects is None:
        return None
    operations: Operations = []
    for phrase in objects:
        if phrase.article == "a" or (phrase.target.phrase in SCENES and phrase.target.relation is None):
            return None
        if kind in ("color_alter", "material_alter") and phrase.target == Target("background"):
            if value.endswith(("colorful", "colourful", "vibrant")):
                return request.operation("filter", target=phrase.target, value=value)
            operations += request.operation("background_change", value=value) or []
            continue
        if request.is_unnamed(phrase):
            return None
        last = phrase.target.noun.split()[-1]
        if value.rsplit(maxsplit=1)[-1] in ("blonde", "blond") and last in PERSONS:
            return request.operation("attribute", target=phrase.target, value=value)
        if last in ("color", "colour") or (len(objects) > 1 and last in COLORS - OBJECT_COLORS):
            return None
        made = request.operation(kind, target=phrase.target, value=value, loose=phrase.loose)
        if made is None:
            return None
        operations += made
    return operations


_ASPECTS_OF_PICTURE = ("weather", "lighting", "time")
_OF_COLORS = word_set("warmer cooler brighter darker vibrant vivid saturated muted softer duller stronger")
_CLEAN_UP = word_set("seamless natural coherent consistent cohesive harmonious")
"""They say how well an edit is done, not what it is."""
_ASPECTS_OF_OBJECTS = ("color", "expression", "size", "shape", "material", "texture", "pattern")


def property_made(object_tokens: Tokens, value: Tokens, request: Request) -> Operations | None:
    """A colour, material, size, expression or other property of objects."""
    words = words_in(value)
    core = [word for word in words if word not in DEGREES]
    if request.is_scene(object_tokens):
        return scene_made(value, request)
    if not core:
        return None
    aspect = aspect_of(object_tokens)
    if aspect is not None:
        if aspect.name in _ASPECTS_OF_PICTURE or (aspect.name in _ASPECTS_OF_OBJECTS and aspect.owner):
            return aspect_changed(aspect, value, request)
        if aspect.name == "color" and len(core) == 1 and core[0] in _OF_COLORS:
            return request.operation("filter", value=text_of(value))
        return None
    if is_filter(value) and words_in(object_tokens)[-1:] in (["background"], ["backdrop"]):
        return request.operation("filter", target=Target("background"), value=text_of(value))
    color = color_value(value)
    if color is not None:
        return each_made(object_tokens, request, "color_alter", color)
    material = material_value(value)
    if material is not None:
        return each_made(object_tokens, request, "material_alter", material)
    phrase = request.target(object_tokens)
    if phrase is None or phrase.article == "a" or request.is_unnamed(phrase):
        return None
    target = phrase.target
    head = target.noun.split()[-1]
    if head in ("side", "half", "part", "area", "top", "bottom", "corner") and target.relation is None:
        return None
    if core in (["longer"], ["shorter"], ["long"], ["short"]) and head in (
        "hair",
        "beard",
        "dress",
        "skirt",
        "sleeves",
    ):
        return request.operation("attribute", target=target, value=text_of(value))
    if all(word in LARGER or word in SMALLER for word in core):
        return request.operation("resize", target=target, value=text_of(value))
    if core in (["blurry"], ["blurred"], ["blurrier"]):
        return request.operation("filter", target=target, value=text_of(value))
    if core in (["brighter"], ["darker"], ["lighter"]):
        if head in BACKGROUND_NOUNS | {"sky", "room", "lighting", "light"}:
            return request.operation("light", target=target, value=text_of(value))
        return None  # its colour, or its light
    if all(word in EXPRESSIONS or word == "and" for word in core):
        return request.operation("expression", target=target, value=text_of(value))
    text = state_value(value)
    if core in (["open"], ["closed"], ["shut"]) and head in ("eyes", "eye", "mouth"):
        return request.operation("expression", target=target, value=text_of(value))
    if text is None or core[0] in ("same", "whole", "real") or not _CLEAN_UP.isdisjoint(core):
        return None
    return request.operation("attribute", target=target, value=text)


# -- of the whole picture ----------------------------------------------------------------------------------------------


def scene_made(value: Tokens, request: Request) -> Operations | None:
    """What the whole picture shall be, or look like."""
    words = words_in(value)
    is_look = words[0] == "look"
    if words[0] in ("be", "look"):
        value, words = value[1:], words[1:]
    if is_look and words[:1] in (["like"], ["as"]):
        return _looking_like(value[1:], request)
    if not words:
        return None
    if is_filter(value):
        return request.operation("filter", value=plain_text(value))
    core = [word for word in words if word not in DEGREES]
    if len(core) == 1:
        for kind, names in _SCENE_PROPERTIES:
            if core[0] in names:
                return request.operation(kind, value=text_of(value))
    if len(core) == 1 and core[0] in COLORS and not {"more", "less"}.isdisjoint(words):
        return request.operation("filter", value=text_of(value))  # "less yellow"
    if is_weather(value):
        return request.operation("weather", value=plain_text(value))
    if words[:2] == ["in", "the"] and words[2:4] == ["style", "of"]:
        value, words = value[1:], words[1:]
    is_named = words[0] in ("a", "an") or len(words) > 1 or words[0] in ("anime", "cartoon", "watercolor")
    return request.operation("style", value=plain_text(value)) if is_named and is_style(value) else None


_SCENE_PROPERTIES: tuple[tuple[OperationType, frozenset[str]], ...] = (
    ("light", word_set("brighter darker lighter bright dark")),
    ("filter", word_set("warmer cooler colorful colourful vibrant saturated blurry blurrier blurred")),
    ("restoration", word_set("sharper clearer sharp")),
    ("style", word_set("vintage retro cinematic cartoonish cartoony painterly realistic photorealistic 3d hand-drawn")),
    ("reframe", word_set("wider taller")),
)


_TAKEN = word_set("taken shot photographed captured set")
_DRAWN = word_set("drawn painted sketched made rendered illustrated designed")


def _looking_like(tokens: Tokens, request: Request) -> Operations | None:
    """`(like) a sketch`, `(like) it was taken at night`, `(as if) it's snowing`."""
    words = words_in(tokens)
    start = 1 if words[:1] == ["if"] else 0
    is_clause = False
    if words[start : start + 1] == ["it's"]:
        start, is_clause = start + 1, True
    elif words[start : start + 1] == ["it"] and words[start + 1 : start + 2] in (["is"], ["was"], ["were"]):
        start, is_clause = start + 2, True
    rest, words = tokens[start:], words[start:]
    if not words:
        return None
    if is_clause and words[0] in _TAKEN and words[1:2] in (["at"], ["in"], ["during"], ["on"]):
        return request.operation("weather", value=plain_text(rest[2:])) if is_weather(rest[2:]) else None
    if is_clause and words[0] in _DRAWN and words[1:2] in (["by"], ["in"], ["with"]):
        return request.operation("style", value=text_of(rest)) if len(words) <= 6 else None
    if is_filter(rest) or is_style(rest):
        return request.operation("style", value=plain_text(rest))
    return request.operation("weather", value=plain_text(rest)) if is_weather(rest) else None
