"""What is moved, and where to."""

from __future__ import annotations

from dataclasses import replace

from ...edit_plan import Relation
from .destinations import SIDE_POSITIONS, destination_of
from .lexicon import CLOTHES, SCENERY, SCENES, WEATHER_WORDS, word_set
from .noun_phrases import Phrase
from .request import Operations, Request
from .tokens import Tokens, words_in
from .values import plain_text

_NOT_MOVED = word_set("camera view viewpoint perspective angle background time weather style color")


_ELSEWHERE = word_set(
    "focus view shape perspective beach forest city desert park mountains street countryside moon jungle space"
)
_STORES = word_set("fridge oven microwave freezer dishwasher sink drawer cupboard closet garage bin car mail")


def move(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`move the cup next to the plate`."""
    start = _destination_start(tokens, verb)
    if start is None:
        return None
    target = request.target(tokens[:start])
    if target is None or target.article == "a" or target.target.noun in SCENES or _is_errand(tokens):
        return None
    rest = tokens[start:]
    words = words_in(rest)
    if words[0] == "in" and words[1:2] in (["a"], ["an"]):
        return _into_new(target, rest[1:], request)
    if words[-1] in _STORES or ({"a", "an"} & set(words[:4]) and "bit" not in words and "little" not in words):
        return None  # a chore, or what is not in the picture
    if target.target.noun.split()[-1] in _NOT_MOVED:
        return None
    found = (
        destination_of(rest, request)
        if words[0] not in ("closer", "further", "farther", "away", "up", "down", "lower", "higher")
        else None
    )
    if found is not None:
        kind, reference, loose = found
        if kind in SIDE_POSITIONS and reference is not None:
            return request.operation(
                "position_change", target=target.target, position=kind, reference=reference, loose=target.loose or loose
            )
        if reference is not None and reference.noun in _ELSEWHERE | WEATHER_WORDS:
            return None  # another background, or a place in the picture
        return request.operation("position_change", target=target.target, loose=True)
    if all(word in _DIRECTION_WORDS or word.isdecimal() for word in words):
        return request.operation("position_change", target=target.target, loose=True)
    is_nearer = words[0] in ("closer", "further", "farther", "away") and words[1:2] and words[1] in ("to", "from")
    if is_nearer and request.target(rest[2:]) is not None:
        return request.operation("position_change", target=target.target, loose=True)
    return None


def _into_new(target: Phrase, place: Tokens, request: Request) -> Operations | None:
    """`(put the man) in a suit`, `(place the car) in a desert`: what is not in the picture yet."""
    phrase = request.target(place)
    if phrase is None:
        return None
    head = phrase.target.noun.split()[-1]
    if head in CLOTHES and target.target.nesting < 3 and phrase.target.relation is None:
        worn = replace(phrase.target, relation=Relation("on", target.target))
        return request.operation("subject_add", new=worn, loose=phrase.loose or target.loose)
    if head in SCENERY:
        return request.operation("background_change", value=plain_text(place), loose=True)
    return None


_DIRECTION_WORDS = word_set(
    "lower higher to the up down left right upward upwards downward downwards forward backward back a bit "
    "little slightly closer further center centre middle side top bottom towards toward far corner into "
    "foreground background away of edge more over"
)


def _destination_start(tokens: Tokens, verb: str) -> int | None:
    words = words_in(tokens)
    for index in range(1, len(words)):
        if words[index] in ("to", "onto", "into", "toward", "towards", "closer", "further", "farther") and words[
            index - 1
        ] not in ("next", "close"):
            if words[index - 1] in ("slightly", "bit"):
                return index
            return index
    for index in range(len(words) - 1, 0, -1):
        if words[index] in (
            "next",
            "at",
            "behind",
            "beside",
            "below",
            "above",
            "under",
            "beneath",
            "underneath",
            "near",
            "in",
            "on",
            "up",
            "down",
            "lower",
            "higher",
            "inside",
            "over",
            "between",
            "upwards",
            "downwards",
            "by",
            "against",
        ):
            if (
                words[index] == "in"
                and words[index + 1 : index + 3] not in (["front", "of"], ["the"])
                and verb == "move"
            ):
                return None
            if words[index + 1 : index + 2] == ["top"] and index and words[index] == "on":
                return index
            return index
    return None


def _is_errand(tokens: Tokens) -> bool:
    return any(token.text[:1].isupper() for token in tokens[2:]) and not any(token.word in SCENES for token in tokens)
