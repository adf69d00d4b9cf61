"""Where something is put: a place, a side of an object, what carries a text."""

from __future__ import annotations

from ...edit_plan import Target
from .lexicon import PERSON_PRONOUNS
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


def carrier_of(tokens: Tokens, request: Request) -> tuple[Target | None, bool] | None:
    """What carries a text, as all the tokens say: (None, False) for the whole picture; None where it is unclear."""
    if not tokens or scene_end(tokens, 0) == len(tokens):
        return None, False
    found = place_at(tokens, 0)
    if found is not None:
        end = scene_end(tokens, found[1]) if found[1] < len(tokens) else found[1]
        return (None, True) if end == len(tokens) else None
    relation = relation_at(tokens, 0)
    start = relation[1] if relation is not None else 1 if tokens[0].word in ("to", "across", "from") else 0
    if not start:
        return None
    phrase = request.target(tokens[start:])
    if phrase is None:
        return None
    kind = relation[0] if relation is not None else "on"
    on_it = kind in ("on", "in", "beside", "part") and (relation is None or tokens[0].word != "next")
    return (phrase.target, phrase.loose or relation is None or relation[2]) if on_it else (phrase.target, True)
