"""Where something is put: a place, a side of an object, what carries a text or stands beside it."""

from __future__ import annotations

from dataclasses import dataclass

from ...edit_plan import Relation, Target
from .lexicon import PERSON_PRONOUNS, SIDE_NOUNS
from .places import place_at, relation_at, scene_end
from .request import Request
from .tokens import Tokens, words_in

SIDE_POSITIONS = ("left", "right", "above", "below")


def destination_of(tokens: Tokens, request: Request) -> tuple[str, Target | None, bool] | None:
    """Where something is put, which all the tokens say: side or "on" or "place", reference, whether words are left."""
    words = words_in(tokens)
    end = scene_end(tokens, 0)
    if end == len(tokens):
        return "place", None, False
    found = place_at(tokens, 0)
    if found is not None:
        after = found[1]
        while after < len(tokens) and (end := scene_end(tokens, after)) is not None:
            after = end
        if after == len(tokens):
            return "place", None, True
    if (
        words[0] in ("to", "on", "at")
        and len(words) == 3
        and words[1] in PERSON_PRONOUNS
        and words[2] in ("left", "right", "side")
    ):
        return (words[2] if words[2] != "side" else "place"), Target(PERSON_PRONOUNS[words[1]]), words[2] == "side"
    relation = relation_at(tokens, 0)
    start = relation[1] if relation is not None else 1 if words[0] in ("to", "around", "for", "between", "from") else 0
    if not start:
        return None
    other = request.target(tokens[start:])
    if other is None or other.target.noun == "style":
        return None
    kind = relation[0] if relation is not None else "on"
    return kind, other.target, other.loose or relation is None or relation[2] or kind not in SIDE_POSITIONS


@dataclass(frozen=True, slots=True)
class TextPlace:
    """Where a text stands. carrier: what it is on; None for the picture. beside: the object that it stands beside,
    below, above, left or right of, and how. loose: some words of the place are in no slot.
    """

    carrier: Target | None = None
    beside: Relation | None = None
    loose: bool = False


def text_place_of(tokens: Tokens, request: Request) -> TextPlace | None:
    """Where a text stands, as all the tokens say; None where it may be on an object or off it."""
    if not tokens or scene_end(tokens, 0) == len(tokens):
        return TextPlace()
    found = place_at(tokens, 0)
    if found is not None:
        end = scene_end(tokens, found[1]) if found[1] < len(tokens) else found[1]
        return TextPlace(loose=True) if end == len(tokens) else None
    relation = relation_at(tokens, 0)
    start = relation[1] if relation is not None else 1 if tokens[0].word in ("to", "across", "from") else 0
    phrase = request.target(tokens[start:]) if start else None
    if phrase is None:
        return None
    words = words_in(tokens[:start])
    kind = relation[0] if relation is not None else "on"
    loose = phrase.loose or relation is None or relation[2]
    if kind in SIDE_POSITIONS or kind == "beside":
        if words[0] in ("at", "on", "in", "along", "across") and _EDGES.isdisjoint(words):
            return None  # "on the left of the window"
        if not _EDGES.isdisjoint(words):  # "at the bottom of the card"
            return None if words[0] in ("near", "by", "to") else TextPlace(phrase.target, loose=True)
        if words[0] in ("over", "around", "against"):
            return None
        return TextPlace(beside=Relation(kind, phrase.target), loose=loose or kind == "beside")
    if kind not in ("on", "in", "part"):
        return None  # "behind the man"
    target = phrase.target
    if target.noun in SIDE_NOUNS and target.relation is not None and target.relation.kind == "part":
        return TextPlace(target.relation.of, loose=True)  # "in the corner of the poster"
    return TextPlace(target, loose=loose)


_EDGES = frozenset(("top", "bottom"))
"""Sides that are those of a thing, as in "at the top of the page"."""
