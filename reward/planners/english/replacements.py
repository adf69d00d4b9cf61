"""What takes the place of something: another object, colour, material, background or look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from ...edit_plan import OperationType, Target
from ...metrics.any_edit.instruction_words import word_set
from . import lexicon as lex
from .noun_phrases import Operations, Phrase, Request, joined, objects_of
from .sentences import Token, Tokens, first_at, scene_end, text_of, words_in
from .texts import SIDE_POSITIONS, destination_of, text_replaced
from .values import (
    Aspect,
    Change,
    aspect_of,
    change_of,
    color_value,
    head_of,
    is_description,
    is_filter,
    is_part_of_place,
    is_style,
    is_viewpoint,
    is_weather,
    material_value,
    plain_text,
    starts_value,
    state_value,
)

_KINDS_OF_ASPECTS: Mapping[str, tuple[OperationType, int]] = MappingProxyType(
    {
        "weather": ("weather", 5),
        "time": ("weather", 5),
        "style": ("style", 14),
        "lighting": ("light", 14),
        "camera": ("camera", 14),
        "color": ("color_alter", 9),
        "material": ("material_alter", 8),
        "texture": ("material_alter", 8),
        "count": ("count_change", 1),
        "expression": ("expression", 8),
        "pose": ("pose", 10),
        "font": ("text_style", 6),
        "size": ("resize", 6),
        "pattern": ("attribute", 8),
        "shape": ("attribute", 8),
        "position": ("position_change", 12),
    }
)
"""Aspect -> type of the operation, and the number of words that its value may have."""
_PICTURED = word_set("cartoon anime caricature sketch doodle watercolor")
"""Looks that an object may have, too: "make the man a cartoon"."""
_SURFACES = word_set("texture finish look material surface appearance")
_PATTERNS = word_set("stripes dots checks plaid checkers")
_PROPERTIES = word_set("hair beard mustache moustache skin eyes")
_NOT_REPLACED = word_set(
    "theme mood concept atmosphere style size age name vibe text word words side half resolution format breed "
    "fur skin hair font hairstyle haircut gender weather season time view viewpoint angle perspective direction"
)
_NO_OBJECTS = word_set("color texture shade tone match style version design pattern one ones position state")
_PLACES_TO_GO = word_set("beach forest city desert park mountains street countryside moon")


def replace_object(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`replace the cat with a dog`."""
    return _exchange(tokens, ("with", "by", "for") if verb == "exchange" else ("with", "by"), request)


def swap(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`swap the cat for a dog`."""
    return _exchange(tokens, ("for", "with", "to"), request)


def _exchange(tokens: Tokens, separators: Sequence[str], request: Request) -> Operations | None:
    boundaries = [
        index for index, token in enumerate(tokens) if token.word in separators and index and not token.is_quote
    ]
    boundaries = [index for index in boundaries if not is_part_of_place(tokens, index)]
    first = next((word for word in separators if any(tokens[index].word == word for index in boundaries)), "")
    if separators[0] == "for":
        boundaries = [index for index in boundaries if tokens[index].word == first]
    if not boundaries:
        return None
    index = boundaries[0]
    if len(boundaries) == 2 and tokens[index].word == tokens[boundaries[1]].word:
        return None  # "replace the man with a hat with a statue"
    return changed(Change(tokens[:index], tokens[index + 1 :]), request, verb="replace")


def substitute(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`substitute a rose for the tulip`."""
    words = words_in(tokens)
    if "for" in words[1:] and "with" not in words:
        index = words.index("for", 1)
        return changed(Change(tokens[index + 1 :], tokens[:index]), request, verb="replace")
    return _exchange(tokens, ("with", "by"), request)


def change_object(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`change the cup to blue`, `turn the horse into a zebra`."""
    change = change_of(tokens)
    if change is None:
        after = first_at(tokens, ("with", "for"))
        is_other = verb in ("change", "switch") and words_in(tokens[after + 1 : after + 2]) in (["a"], ["an"], ["the"])
        return _exchange(tokens, ("with", "for"), request) if is_other else None
    for index, token in enumerate(change.new):  # "the left cup to red and the right cup to blue"
        following = change.new[index + 1 :]
        if token.word == "and" and following and following[0].word in ("the", "his", "her") and change_of(following):
            first = replace(change, new=change.new[:index])
            return joined((changed(first, request, verb), change_object(verb, following, request)))
    return changed(change, request, verb)


def changed(change: Change, request: Request, verb: str) -> Operations | None:
    """What becomes what: text, look, aspect, background or object."""
    old, new = change.old, change.new
    if not new:
        return None
    if any(token.is_quote for token in (*old, *new)):
        named = [token for token in change.source or () if token.is_quote]
        return text_replaced(old, new, request, named[0] if named else None)
    is_scene = not old or request.is_scene(old)
    if old and verb == "transfer" and is_scene and new[0].word in ("a", "an") and is_description(new, 24):
        return request.operation("style", value=plain_text(new))
    if old and old[-1].word == "back":
        return None
    if is_scene:
        new = _without_scene(new)
        kinds: tuple[OperationType, ...] = ("filter", "weather", "style")
        for kind, fits in zip(kinds, (is_filter, is_weather, is_style), strict=True):
            if fits(new):
                return request.operation(kind, value=plain_text(new))
        return None
    if not starts_value(new):
        return None
    aspect = aspect_of(old)
    if aspect is not None:
        return aspect_changed(aspect, new, request, is_from=change.source is not None)
    return _object_changed(change, request)


def aspect_changed(aspect: Aspect, new: Tokens, request: Request, *, is_from: bool = False) -> Operations | None:
    """Another colour, material, expression, weather ... of an object or the picture. is_from: it says what it was."""
    kind, most = _KINDS_OF_ASPECTS.get(aspect.name, ("other", 0))
    owner = aspect.owner
    if kind == "weather":
        return request.operation(kind, value=plain_text(new)) if is_weather(new) else None
    if kind == "camera":
        return request.operation(kind, value=plain_text(new)) if is_viewpoint(new) else None
    if kind in ("style", "light"):
        if owner and kind == "style" and not request.is_scene(owner):
            return None
        return request.operation(kind, value=plain_text(new)) if is_description(new, most) else None
    if kind == "text_style" and not owner:
        return request.operation(kind, value=plain_text(new)) if is_description(new, most) else None
    target = request.target(owner) if owner else None
    if target is None:
        return None
    loose = aspect.loose or target.loose or is_from
    if aspect.name == "position":
        return _position_changed(target.target, new, request, loose)
    if aspect.name == "count":
        words = words_in(new)
        count = lex.NUMBERS.get(words[0]) if len(words) == 1 else None
        if count is None and len(words) == 1 and words[0].isdecimal():
            count = int(words[0][:6])
        return None if count is None else request.operation(kind, target=target.target, count=count, loose=loose)
    value = color_value(new) if kind == "color_alter" else plain_text(new) if is_description(new, most) else None
    if value is None or len(value) > 80:
        return None
    return request.operation(kind, target=target.target, value=value, loose=loose)


def _position_changed(target: Target, new: Tokens, request: Request, loose: bool) -> Operations | None:
    found = destination_of(new, request) or destination_of([Token("to", "to"), *new], request)
    if found is None:
        return None
    kind, reference, _ = found
    if kind in SIDE_POSITIONS and reference is not None:
        return request.operation("position_change", target=target, position=kind, reference=reference, loose=loose)
    return request.operation("position_change", target=target, loose=True)


def _background_changed(old: Tokens, new: Tokens, request: Request, *, loose: bool) -> Operations | None:
    if not is_description(new) or not is_description(old) or not starts_value(new):
        return None
    value = plain_text(_without_scene(new))
    if not value:
        return None
    phrase = request.target(old)
    head = head_of([word for word in words_in(old) if word not in lex.DETERMINERS])
    if phrase is not None and head in lex.BACKGROUND_NOUNS and phrase.target.relation is None:
        is_plain = phrase.target.phrase.casefold() in ("background", "backdrop") and phrase.target.place is None
        target = None if is_plain else phrase.target
        return request.operation("background_change", target=target, value=value, loose=loose or phrase.loose)
    objects = objects_of(old, request)
    if objects is None:
        return None
    target = objects[0].target if len(objects) == 1 else None
    return request.operation("background_change", target=target, value=value, loose=True)


def _without_scene(tokens: Tokens) -> Tokens:
    """The tokens without a scene phrase at their end."""
    for size in (4, 3):
        start = len(tokens) - size
        if start > 0 and scene_end(tokens, start) == len(tokens):
            return tokens[:start]
    return tokens


def _object_changed(change: Change, request: Request) -> Operations | None:
    old, new = change.old, change.new
    words = [word for word in words_in(_without_scene(old)) if word not in lex.DETERMINERS]
    head = head_of(words)
    if is_weather(old) and is_weather(new) and len(words) <= 2:
        return request.operation("weather", value=plain_text(new))
    if head in lex.BACKGROUND_NOUNS or (words[-1:] == ["background"] and words[-2:-1] not in (["the"], ["in"])):
        return _background_changed(old, new, request, loose=change.source is not None)
    if change.source is not None:
        if is_weather(change.source) and is_weather(new):
            return request.operation("weather", value=plain_text(new))
        alike = (color_value, material_value)
        if not any(value(change.source) is not None and value(new) is not None for value in alike):
            return None
    is_behind = "background" in words_in(old) or head in lex.SCENERY
    if head_of(words_in(new)) in lex.SCENE_HEADS:
        return _background_changed(old, new, request, loose=True) if is_behind else None
    target = request.target(old)
    if target is None:
        objects = objects_of(old, request)
        if objects is None or color_value(new) is None:
            return None
        return joined(changed_object(phrase, new, request) for phrase in objects)
    if target.article == "a" or (target.target.noun in lex.SCENES and target.target.relation is None):
        return None
    if change.source is not None:
        target = replace(target, loose=True)
    return changed_object(target, new, request)


def changed_object(target: Phrase, new: Tokens, request: Request) -> Operations | None:
    """Another colour, material, property or object in place of one."""
    relation = target.target.relation
    if target.target.noun in ("smile", "frown", "expression") and relation is not None and relation.kind == "part":
        return request.operation("expression", target=relation.of, value=plain_text(new))
    if target.target in (Target("background"), Target("backdrop")):
        if not is_description(new, 30) or not starts_value(new):
            return None
        return request.operation("background_change", value=plain_text(new))
    color = color_value(new[:-1] if new[-1].word in ("one", "ones") and len(new) > 1 else new)
    if color is not None and new[0].word == "a" and target.target.noun.split()[-1] in lex.PERSONS:
        return None  # "a blonde"
    if color is not None:
        return request.operation("color_alter", target=target.target, value=color, loose=target.loose)
    material = material_value(new)
    if material is not None:
        return request.operation("material_alter", target=target.target, value=material, loose=target.loose)
    words = words_in(new)
    if words[0] in ("a", "an") and words[-1] in _SURFACES:
        material = material_value(new[1:-1])
        value = plain_text(new) if words[-1] == "finish" else material
        return request.on(target if material else None, "material_alter", value=value, loose=target.loose)
    if words[0] not in lex.ARTICLES and state_value(new, open_ended=False) is not None:
        return request.operation("attribute", target=target.target, value=text_of(new))
    if words[-1] in _PICTURED and words[0] in lex.ARTICLES and is_style(new):
        return request.operation("style", target=target.target, value=plain_text(new))
    if target.target.noun in ("light", "lighting", "sunlight"):
        return request.operation("light", target=target.target, value=plain_text(new)) if len(new) <= 4 else None
    is_sky = target.target == Target("sky") and words[0] in lex.ARTICLES
    is_setting = head_of(words) in ("setting", "environment", "finish", "look", "appearance")
    if (is_weather(new) and not is_sky) or is_style(new) or is_setting:
        return None
    if target.pronoun and target.pronoun not in ("him", "her") and request.antecedent is None:
        return None
    phrase = request.target(new)
    if phrase is None or phrase.pronoun or phrase.target.noun in lex.SCENES:
        return None
    fresh, nouns = phrase.target, target.target.noun.split()
    last = fresh.noun.split()[-1]
    if phrase.article == "the" and fresh.relation is None and fresh.noun in _PLACES_TO_GO:
        return None
    if fresh.noun == "fabric" and not lex.MATERIALS.isdisjoint(fresh.attributes):
        return None  # another object, or another material of it
    if last in _PATTERNS:
        return request.on(target, "attribute", value=text_of(new))
    if last in _PROPERTIES or (last in lex.CLOTHES and nouns[-1] in lex.PERSONS):
        return None
    if nouns[-1] in ("hairstyle", "haircut"):
        return request.on(target, "attribute", value=plain_text(new))
    is_no_object = nouns[-1] in _NOT_REPLACED or (nouns[0] in lex.TEXT_INTRODUCERS and len(nouns) > 1)
    if is_no_object or last in _NO_OBJECTS or fresh.place is not None:
        return None
    return request.operation("subject_replace", target=target.target, new=fresh, loose=target.loose or phrase.loose)
