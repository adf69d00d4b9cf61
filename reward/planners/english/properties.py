"""Properties that objects, or the whole picture, shall have: colours, materials, sizes, open or closed, casts."""

from __future__ import annotations

from dataclasses import replace

from ...edit_plan import OperationType, Target
from ...metrics.any_edit.instruction_words import word_set
from . import lexicon as lex
from .additions import look_given
from .noun_phrases import Operations, Phrase, Request, objects_of
from .replacements import aspect_changed
from .sentences import Tokens, scene_end, text_of, words_in
from .values import (
    aspect_of,
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

_MAYBE_NOUNS = (lex.OBJECT_COLORS | lex.MATERIALS | lex.SHAPES) - word_set(
    "wooden golden woolen knitted stainless round"
)
"""Words of properties that are names of objects, too."""
_SURELY_BEFORE_NOUN = lex.SIDES.keys() | word_set("bigger smaller larger tinier")
_PAINTED = word_set("painted dyed colored coloured")
_VALUE_WORDS = (
    lex.COLORS
    | lex.COLOR_MODIFIERS
    | lex.STATES
    | lex.MATERIALS
    | lex.DEGREES
    | lex.LARGER
    | lex.SMALLER
    | lex.EXPRESSIONS
    | lex.WEATHER_WORDS
) | {"and", "shade"}
_OBJECT_GOES_ON = (
    lex.DETERMINERS | lex.PREPOSITIONS.keys() | lex.OTHER_PREPOSITIONS | {"'s", "and", ",", "of", "all", "both"}
)
_ASPECTS_OF_PICTURE = ("weather", "lighting", "time")
_OF_COLORS = word_set("warmer cooler brighter darker vibrant vivid saturated muted softer duller stronger")
_CLEAN_UP = word_set("seamless natural coherent consistent cohesive harmonious")
"""They say how well an edit is done, not what it is."""
_ASPECTS_OF_OBJECTS = ("color", "expression", "size", "shape", "material", "texture", "pattern")
_LENGTHS = word_set("hair beard dress skirt sleeves")
_SCENE_PROPERTIES: tuple[tuple[OperationType, frozenset[str]], ...] = (
    ("light", word_set("brighter darker lighter bright dark")),
    ("filter", word_set("warmer cooler colorful colourful vibrant saturated blurry blurrier blurred")),
    ("restoration", word_set("sharper clearer sharp")),
    ("style", word_set("vintage retro cinematic cartoonish cartoony painterly realistic photorealistic 3d hand-drawn")),
    ("reframe", word_set("wider taller")),
)
_SHOT = word_set("taken shot photographed captured set")
_DRAWN = word_set("drawn painted sketched made rendered illustrated designed")
_SWITCHED = word_set(
    "light lights lamp lamps lantern lanterns headlight headlights taillights flashlight torch candle candles bulb "
    "bulbs chandelier streetlight streetlights streetlamp streetlamps spotlight spotlights sconce tv television "
    "screen monitor computer laptop fire fireplace stove neon sign"
)
"""Things that are seen to be on or off."""
_OPENED = word_set(
    "door doors window windows gate gates curtain curtains blinds blind shutter shutters umbrella umbrellas parasol "
    "box boxes lid book laptop drawer drawers trunk hood garage cabinet cupboard closet fridge oven suitcase bag "
    "backpack purse chest jar bottle jacket coat shirt zipper envelope eye eyes mouth hand hands fist beak wings jaws"
)
_HOW_FAR = word_set("slightly wide halfway completely fully more partially half")
_STRENGTHS = word_set("overall slight strong subtle faint")
_WARMTH = word_set("warm warmer cool cooler cold colder sepia")
_TAKEN = (lex.VERBS["remove"] | word_set("correct fix neutralize neutralise take")) | {
    *("get rid of", "take out", "take away", "take off", "edit out", "photoshop out")
}
_GIVEN = lex.VERBS["apply"] | lex.VERBS["put"] | lex.VERBS["add"]
_OF_DEGREE = lex.VERBS["degree"] | {"lessen", "strengthen", "intensify"}
_PROMINENT = (["pop"], ["pop", "out"], ["stand", "out"], ["stick", "out"])
_ENHANCED = word_set("enhance boost intensify improve") | {"bring out"}
_HOW_MUCH = lex.DEGREES | {"really", "lot"}


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
    if before in _PAINTED or (before not in lex.ADJECTIVES and before not in _SURELY_BEFORE_NOUN):
        return False
    if word in ("and", ",", "of") or word not in _MAYBE_NOUNS | lex.ADJECTIVES | lex.LARGER | lex.SMALLER:
        return False
    if before not in _MAYBE_NOUNS:
        return before not in lex.SIDES or lex.PREPOSITIONS.keys().isdisjoint(words[max(0, index - 3) : index - 1])
    return word in _MAYBE_NOUNS and not (word in lex.COLOR_MODIFIERS and words[index + 1] in lex.COLORS)


def _is_value_word(word: str) -> bool:
    return is_adjective(word) or word in _VALUE_WORDS or ("-" in word and word.rpartition("-")[2] in lex.COLORS)


def _may_end_object(words: list[str]) -> bool:
    last = words[-1]
    if last in ("in", "to", "into", "with"):
        return len(words) > 1 and _may_end_object(words[:-1])
    return words == ["her"] or last not in _OBJECT_GOES_ON  # "make her older"


def multiple_start(words: list[str]) -> int | None:
    """Where "twice as big", "half the size" or "three times larger" begins, if it ends the words; None without."""
    for index in range(max(1, len(words) - 5), len(words) - 1):
        rest = words[index:]
        if rest[0] in ("twice", "half", "double", "triple") and _is_size(rest[1:]):
            return index
        if (rest[0] in lex.NUMBERS or rest[0].isdecimal()) and rest[1] == "times" and _is_size(rest[2:]):
            return index
    return None


def _is_size(words: list[str]) -> bool:
    if words[:1] == ["as"]:
        return words[1:] in ([word] for word in ("big", "large", "tall", "small", "long", "wide", "high"))
    if words[:1] in (["the"], ["its"], ["his"], ["her"], ["their"]):
        return words[1:] in (["size"], ["original", "size"], ["current", "size"])
    return len(words) == 1 and (words[0] in lex.LARGER or words[0] in lex.SMALLER)


# -- of objects --------------------------------------------------------------------------------------------------------


def each_made(tokens: Tokens, request: Request, kind: OperationType, value: str) -> Operations | None:
    """The same change of each of the objects."""
    if len(tokens) > 1 and tokens[-1].word in _PAINTED:
        tokens = tokens[:-1]  # "(have) the wall | painted (green)"
    objects = objects_of(tokens, request)
    if objects is None:
        return None
    operations: Operations = []
    for phrase in objects:
        if phrase.article == "a" or (phrase.target.phrase in lex.SCENES and phrase.target.relation is None):
            return None
        if kind in ("color_alter", "material_alter") and phrase.target == Target("background"):
            if value.endswith(("colorful", "colourful", "vibrant")):
                return request.operation("filter", target=phrase.target, value=value)
            operations += request.operation("background_change", value=value) or []
            continue
        if request.is_unnamed(phrase):
            return None
        last = phrase.target.noun.split()[-1]
        if value.rsplit(maxsplit=1)[-1] in ("blonde", "blond") and last in lex.PERSONS:
            return request.operation("attribute", target=phrase.target, value=value)
        if last in ("color", "colour") or (len(objects) > 1 and last in lex.COLORS - lex.OBJECT_COLORS):
            return None
        made = request.operation(kind, target=phrase.target, value=value, loose=phrase.loose)
        if made is None:
            return None
        operations += made
    return operations


def property_made(object_tokens: Tokens, value: Tokens, request: Request) -> Operations | None:
    """A colour, material, size, expression or other property of objects."""
    words = words_in(value)
    core = [word for word in words if word not in lex.DEGREES]
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
    phrase = request.known(object_tokens)
    if phrase is None:
        return None
    target = phrase.target
    head = target.noun.split()[-1]
    if head in ("side", "half", "part", "area", "top", "bottom", "corner") and target.relation is None:
        return None
    kind: OperationType = "attribute"
    if core in (["longer"], ["shorter"], ["long"], ["short"]) and head in _LENGTHS:
        pass
    elif set(core) <= lex.LARGER | lex.SMALLER:
        kind = "resize"
    elif core in (["blurry"], ["blurred"], ["blurrier"]):
        kind = "filter"
    elif core in (["brighter"], ["darker"], ["lighter"]):
        if head not in lex.BACKGROUND_NOUNS | {"sky", "room", "lighting", "light"}:
            return None  # its colour, or its light
        kind = "light"
    elif set(core) <= lex.EXPRESSIONS | {"and"} or (
        core in (["open"], ["closed"], ["shut"]) and head in ("eyes", "eye", "mouth")
    ):
        kind = "expression"
    elif state_value(value) is None or core[0] in ("same", "whole", "real") or not _CLEAN_UP.isdisjoint(core):
        return None
    return request.operation(kind, target=target, value=text_of(value))


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
    core = [word for word in words if word not in lex.DEGREES]
    if len(core) == 1:
        for kind, names in _SCENE_PROPERTIES:
            if core[0] in names:
                return request.operation(kind, value=text_of(value))
    if len(core) == 1 and core[0] in lex.COLORS and not {"more", "less"}.isdisjoint(words):
        return request.operation("filter", value=text_of(value))  # "less yellow"
    if is_weather(value):
        return request.operation("weather", value=plain_text(value))
    if words[:2] == ["in", "the"] and words[2:4] == ["style", "of"]:
        value, words = value[1:], words[1:]
    is_named = words[0] in ("a", "an") or len(words) > 1 or words[0] in ("anime", "cartoon", "watercolor")
    return request.operation("style", value=plain_text(value)) if is_named and is_style(value) else None


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
    if is_clause and words[0] in _SHOT and words[1:2] in (["at"], ["in"], ["during"], ["on"]):
        return request.operation("weather", value=plain_text(rest[2:])) if is_weather(rest[2:]) else None
    if is_clause and words[0] in _DRAWN and words[1:2] in (["by"], ["in"], ["with"]):
        return request.operation("style", value=text_of(rest)) if len(words) <= 6 else None
    if is_filter(rest) or is_style(rest):
        return request.operation("style", value=plain_text(rest))
    return request.operation("weather", value=plain_text(rest)) if is_weather(rest) else None


def _in_state(tokens: Tokens, value: str, request: Request) -> Operations | None:
    target = _object_of(tokens, request)
    is_switched = target is not None and target.target.noun.split()[-1] in _SWITCHED
    return request.on(target, "attribute", value=value) if is_switched else None


def switch(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`turn on the lamp`, `switch the lights off`: the lamp is on or off."""
    state = next((word for word in (*verb.split(), *words_in(tokens[-1:])) if word in ("on", "off")), "")
    if tokens and tokens[-1].word == state and state not in verb.split():
        tokens = tokens[:-1]
    return _in_state(tokens, f"turned {state}", request)


def kindle(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`light the candles on the cake`."""
    return _in_state(tokens, "lit", request)


def open_or_close(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`open the door (slightly)`, `close her eyes`, which is an expression."""
    end = len(tokens)
    while end > 1 and tokens[end - 1].word in _HOW_FAR:
        end -= 1
    target = _object_of(tokens[:end], request)
    head = "" if target is None else target.target.noun.split()[-1]
    if head not in _OPENED:
        return None
    state = {"open": "open", "close": "closed", "shut": "closed"}[verb]
    value = f"{state} {text_of(tokens[end:])}".strip()
    is_face = head in ("eye", "eyes", "mouth")
    return request.on(target, "expression" if is_face else "attribute", value=value)


def _object_of(tokens: Tokens, request: Request) -> Phrase | None:
    target = request.definite(tokens) if tokens else None
    return None if target is None or target.pronoun == "them" else target


def names_cast(tokens: Tokens) -> bool:
    """Whether tokens begin with a colour cast: "the blue hue", "a warm tone", "the color cast"."""
    return _cast_end(tokens) > 0


def _cast_end(tokens: Tokens) -> int:
    """The index after the cast; 0 without one."""
    words = words_in(tokens)
    start = 1 if words[:1] and words[0] in lex.ARTICLES | {"this", "that", "some"} else 0
    end = next((index for index, word in enumerate(words) if word in lex.CASTS), 0)
    before = [word for word in words[start:end] if word not in lex.DEGREES | _STRENGTHS]
    if not before or not all(_is_shade(word) for word in before):
        return 0
    has_color = any(word in lex.COLORS or word in _WARMTH or word.endswith("ish") for word in before)
    if words[end] == "cast":
        has_color = before in (["color"], ["colour"]) or (has_color and before != ["white"])  # of plaster
    return end + 1 if has_color else 0


def _is_shade(word: str) -> bool:
    is_color = word in lex.COLORS | lex.COLOR_MODIFIERS | _WARMTH or word in ("color", "colour", "and")
    return is_color or word.endswith("ish") or word.rpartition("-")[2] in lex.COLORS


def cast_changed(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`remove the blue hue (out of the picture)`, `add a teal tone (to the photo)`, `reduce the red tint`."""
    end = _cast_end(tokens)
    cast, rest = tokens[1 if tokens[0].word in lex.ARTICLES else 0 : end], tokens[end:]
    degree = words_in(rest)
    if degree[-1:] in (["out"], ["away"]) and verb == "take":
        rest = rest[:-1]
    while rest and rest[-1].word in ("bit", "little", "slightly", "a", "lot"):
        rest = rest[:-1]
    lead = "without " if verb in _TAKEN else f"{verb} " if verb in _OF_DEGREE else "" if verb in _GIVEN else None
    if lead is None:
        return None
    value = lead + text_of(cast)
    if not rest or _is_of_scene(rest, request):
        return request.operation("filter", value=value)
    owner = request.target(rest[1:]) if rest[0].word in ("to", "from", "of", "in", "on", "over", "off") else None
    if owner is None:
        return None
    if owner.target.noun in lex.BACKGROUND_NOUNS and owner.target == Target(owner.target.noun):
        return request.operation("filter", target=owner.target, value=value)
    if verb not in _GIVEN:
        return None  # "remove the red tint from the wall": what colour it has then is not said
    color = [token for token in cast if token.word not in _STRENGTHS]
    return look_given(replace(owner, loose=owner.loose or len(color) < len(cast)), color, request)


def _is_of_scene(tokens: Tokens, request: Request) -> bool:
    """Whether tokens say "of the picture"; "on", "over" and "across" it as well, and without an article."""
    return scene_end(tokens, 0) == len(tokens) or (
        tokens[0].word in ("to", "in", "on", "over", "across", "from", "throughout") and request.is_scene(tokens[1:])
    )


# -- how vivid they are ------------------------------------------------------------------------------------------------


def names_colors(tokens: Tokens, request: Request) -> bool:
    """Whether tokens are the colours of the picture: "the colors", "all colours in the image"."""
    words = words_in(tokens)
    while words and words[0] in ("the", "all", "its", "these", "of", "overall"):
        words, tokens = words[1:], tokens[1:]
    return words[:1] in (["colors"], ["colours"]) and (len(words) == 1 or _is_of_scene(tokens[1:], request))


def is_prominence(words: list[str]) -> bool:
    """Whether words say that something shall catch the eye: "(really) pop (more)"."""
    return [word for word in words if word not in _HOW_MUCH] in _PROMINENT


def colors_made_vivid(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`make the colors pop (out)`, `bring out the colors`; None for anything else, and for a sky that shall pop."""
    words = words_in(tokens)
    start = next((index for index, word in enumerate(words) if index and word in ("pop", "stand", "stick")), len(words))
    while start > 1 and words[start - 1] in _HOW_MUCH:
        start -= 1
    is_made = verb == "make" and is_prominence(words[start:])
    is_vivid = names_colors(tokens[:start], request) and (is_made or (verb in _ENHANCED and start == len(words)))
    return request.operation("filter", value="more vivid") if is_vivid else None
