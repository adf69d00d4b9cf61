"""Places in the picture and relations, as said by prepositions: "on the left", "next to"."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ...edit_plan import Place, RelationKind
from . import lexicon as lex
from .lexicon import phrases, word_set
from .sentences import Tokens, scene_end, word_at, words_in


def place_at(tokens: Tokens, start: int) -> tuple[Place, int, bool] | None:
    """A place in the picture, as in "on the left (side (of the image))": the place, the index after it, and whether two
    places were named. None for the side of an object, and without a place.
    """
    side = _side_at(tokens, start) or _depth_at(tokens, start)
    if side is None:
        return None
    place, index, both, _ = side
    both = both or tokens[start].word in ("near", "close", "toward", "towards", "by")
    if index < len(tokens) and tokens[index].word == "of":
        end = scene_end(tokens, index)
        return None if end is None else (place, end, both)
    return place, index, both


_AT_SIDES = word_set("on in at to from near towards toward onto into by across along")


def _side_at(tokens: Tokens, start: int) -> tuple[Place, int, bool, bool] | None:
    """A side: place, index after it, whether two places were named, whether a noun such as "side" follows."""
    words = words_in(tokens[start : start + 8])
    index = 0
    if words[:1] and words[0] in lex.MENTIONED | lex.LOCATED:
        index = 1
    if words[index : index + 2] == ["close", "to"]:
        index += 1
    if word_at(words, index) not in _AT_SIDES:
        return None
    index += 1
    has_article = words[index : index + 1] == ["the"]
    if has_article:
        index += 1
    if words[index : index + 1] and words[index] in ("far", "very", "extreme", "immediate"):
        index += 1
    if index >= len(words):
        return None
    names = words[index].split("-") if words[index] not in lex.SIDES else [words[index]]
    if not all(name in lex.SIDES for name in names) or not names:
        return None
    place = lex.SIDES[names[0]]
    is_bare = not has_article and words[index + 1 : index + 2] != ["of"]  # "in center of the photo"
    if is_bare and place not in ("left", "right", "foreground", "background", "top"):
        return None
    index += 1
    both = len(names) > 1 and lex.SIDES[names[-1]] != place
    if both and place == "center":
        place = lex.SIDES[names[-1]]
    if words[index : index + 1] and words[index] in lex.SIDES:
        both = both or lex.SIDES[words[index]] != place
        place = lex.SIDES[words[index]] if place == "center" else place
        index += 1
    has_noun = words[index : index + 1] != [] and words[index] in lex.SIDE_NOUNS
    if has_noun:
        index += 1
        if words[index : index + 1] == ["side"]:
            index += 1
    after = word_at(words, index)
    if not has_noun and after[:1].isalnum() and after not in lex.STOPS | lex.LOCATED | lex.HOLDING | {"next"}:
        return None  # "in the left hand", "on the bottom shelf"
    return place, start + index, both, has_noun


_DEPTHS: dict[str, Place] = {"back": "background", "rear": "background"}
_DEPTHS |= {"front": "foreground", "forefront": "foreground"}


def _depth_at(tokens: Tokens, start: int) -> tuple[Place, int, bool, bool] | None:
    """`in the back (of the photo)`, `at the front`, `in the back left corner`, as `_side_at` gives sides."""
    words = words_in(tokens[start : start + 8])
    index = 1 if words[:1] and words[0] in lex.MENTIONED | lex.LOCATED else 0
    if words[index : index + 1] not in (["in"], ["at"], ["from"], ["to"], ["toward"], ["towards"]):
        return None
    has_article = words[index + 1 : index + 2] == ["the"]
    if not has_article and words[index] != "in" and words[index + 2 : index + 3] != ["of"]:
        return None  # "from front to back"
    index += 2 if has_article else 1
    if words[index : index + 1] and words[index] in ("far", "very", "extreme"):
        index += 1
    if not words[index:] or words[index] not in _DEPTHS:
        return None
    place, index, both = _DEPTHS[words[index]], index + 1, False
    if words[index : index + 1] in (["left"], ["right"]):
        place, index, both = lex.SIDES[words[index]], index + 1, True
    has_noun = bool(words[index:]) and words[index] in lex.SIDE_NOUNS
    index += has_noun
    if words[index:] and words[index] not in lex.STOPS | lex.LOCATED | lex.HOLDING and words[index][0].isalnum():
        return None  # "at the front door"
    if word_at(words, index) == "and" and word_at(words, index + 1) in {*_DEPTHS, *lex.SIDES}:
        return None  # "in the front and middle ground"
    return place, start + index, both, has_noun


_MULTIWORD: Mapping[tuple[str, ...], RelationKind] = MappingProxyType(
    {
        **dict.fromkeys(phrases("on top of, at the top of, worn by, attached to, off of"), "on"),
        **dict.fromkeys(phrases("in front of, in the front of, at the front of"), "in_front"),
        **dict.fromkeys(phrases("next to, close to, adjacent to"), "beside"),
        **dict.fromkeys(phrases("at the back of, in back of"), "behind"),
        ("right", "of"): "right",
        ("left", "of"): "left",
        ("held", "by"): "with",
        ("out", "of"): "in",
    }
)


def relation_at(tokens: Tokens, start: int) -> tuple[RelationKind, int, bool] | None:
    """A relation: its kind, the index after its words, and whether the kind leaves some of them out."""
    words = tuple(words_in(tokens[start : start + 8]))
    first, after = word_at(words, 0), word_at(words, 1)
    if first in ("directly", "just", "right") and after in lex.PREPOSITIONS.keys() - {"of"}:
        found = relation_at(tokens, start + 1)
        return None if found is None else (found[0], found[1], True)
    for phrase, kind in _MULTIWORD.items():
        if words[: len(phrase)] == phrase:
            return kind, start + len(phrase), kind not in ("beside", "in_front", "left", "right")
    side = _side_at(tokens, start)
    if side is not None:
        place, index, both, _ = side
        if index < len(tokens) and tokens[index].word == "of" and place in lex.SIDE_RELATIONS:
            is_towards = tokens[start].word in ("towards", "toward", "near")
            if is_towards or tokens[index - 1].word in lex.SIDE_NOUNS - {"side"}:
                # "near the right edge of the lake" is within it
                return ("beside" if tokens[start].word == "near" else "in"), index + 1, True
            return lex.SIDE_RELATIONS[place], index + 1, both or place not in ("left", "right")
        return None
    if first in lex.HOLDING - {"with"} and after not in lex.PREPOSITIONS.keys() | lex.OTHER_PREPOSITIONS:
        return "with", start + 1, True
    if words[:2] == ("along", "with") or first not in lex.PREPOSITIONS or first == "without":
        return None
    return lex.PREPOSITIONS[first], start + 1, first not in _PLAIN


_PLAIN = word_set("on in above below beside behind with of near under beneath underneath at by upon into onto over")
"""Prepositions of whose words a relation's kind leaves none out."""
