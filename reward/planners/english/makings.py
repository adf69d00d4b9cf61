"""What something is made: "make the cup blue", "paint the door red", "make the donut a cupcake"."""

from __future__ import annotations

from collections.abc import Callable

from .actions import acted, action_start, became
from .additions import add
from .changes import Change
from .gifts import may_precede_object
from .lexicon import ARTICLES, CLOTHES, DEGREES, DETERMINERS, LOOKING, SCENES, STOPS, WEATHER_WORDS, word_set
from .properties import each_made, multiple_start, property_made, scene_made, value_start
from .replacements import changed, changed_object
from .request import Operations, Request
from .texts import text_said
from .tokens import Tokens, text_of, words_in
from .values import (
    color_value,
    head_of,
    is_adjective,
    is_description,
    is_filter,
    is_weather,
    material_value,
    plain_text,
)


def color(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`paint the door (in) blue`."""
    if verb in ("colorize", "colourise", "colorise") and (not tokens or tokens[-1].word in SCENES):
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
        if tokens[index].word not in ("and", ",") or tokens[index + 1].word not in DETERMINERS | {"and"}:
            continue
        first = tokens[:index]
        start = value_start(first)
        if start is None or start == len(first):
            continue
        made = frame(verb, first, request)  # tried once, so that the time stays linear
        rest = tokens[index + (2 if tokens[index + 1].word == "and" else 1) :]
        others = None if made is None else frame(verb, rest, request)
        return None if made is None or others is None else [*made, *others]
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
        return _resized(tokens[:multiple], tokens[multiple:], request)
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
        target = request.target(tokens[:boundary])
        if target is None or target.article == "a" or request.is_unnamed(target):
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


_MADE_FOR_SOMEBODY = CLOTHES | word_set(
    "coffee tea sandwich cake pizza dinner breakfast lunch drink cocktail meal snack salad soup card gift "
    "present bed "
    "list offer deal promise bracelet necklace ring house toy chair table website playlist video picture drawing"
)
"""What is made for a person rather than of one: "make her a cake"."""
_STATE_STARTS = word_set("covered filled wrapped decorated wearing holding")


def _open_material(tokens: Tokens) -> str | None:
    """What something is made of that is no listed material: "gingerbread"."""
    words = words_in(tokens)
    is_plain = 0 < len(words) <= 3 and not set(words) & (STOPS | {"some", "any", "another"})
    return text_of(tokens) if is_plain and is_description(tokens) else None


def _resized(object_tokens: Tokens, value: Tokens, request: Request) -> Operations | None:
    target = request.target(object_tokens)
    if target is None or target.article == "a" or request.is_unnamed(target):
        return None
    return request.operation("resize", target=target.target, value=text_of(value))


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
    is_value = words[0] in ARTICLES | DEGREES | LOOKING or words[0] == "be" or is_adjective(words[0])
    return is_value or (len(words) == 1 and words[0] in WEATHER_WORDS)


def _new_start(words: list[str]) -> int | None:
    """Where the new object begins, as in "make the donut | a cupcake"."""
    for index in range(1, len(words)):
        if words[index] in ("a", "an") and (may_precede_object(words[index - 1]) or words[:index] == ["her"]):
            rest = words[index + 1 : index + 2]
            return index if rest and rest[0] not in ("bit", "little", "lot") else None
    return None
