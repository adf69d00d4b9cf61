"""Parses object names such as `wood red circle`."""

from __future__ import annotations

from dataclasses import dataclass

from ..vocabulary import COLOURS, MATERIALS, SHAPES, SIGN, TEXT

_KINDS = (*SHAPES, SIGN, TEXT)
_SYNONYMS = (
    {"wooden": "wood", "metallic": "metal"}
    | {f"{kind}s": kind for kind in _KINDS}
    | {
        "crosses": "cross",
        "crosse": "cross",
        "cros": "cross",
        "texts": TEXT,
    }
)
_STOP_WORDS = {"a", "an", "the", "new", "this", "that", "of", "made"}
"""Words without a meaning for the look of an object."""

VOCABULARY_HELP = f"it knows {', '.join(_KINDS)}, in {', '.join(COLOURS)}, made of {', '.join(MATERIALS)}"
"""The vocabulary, for messages."""


@dataclass(frozen=True, slots=True)
class ObjectName:
    """The terms of a name; empty where it has none."""

    kind: str = ""
    colour: str = ""
    material: str = ""


def parse_name(text: str) -> ObjectName | str:
    """The name of an object, or the reason, as a text, why it cannot be parsed: an unknown word, no shape, or two terms
    of one category.
    """
    terms: dict[str, str] = {}
    for word in _words(text):
        category = _term_category(word)
        if category is None:
            return f"{word!r} in {text!r} means nothing to it: {VOCABULARY_HELP}"
        if terms.setdefault(category, word) != word:
            return f"{text!r} says both {terms[category]!r} and {word!r}: ask for one"
    if "kind" not in terms:
        return f"{text!r} names no thing: {VOCABULARY_HELP}"
    return ObjectName(**terms)


def find_name(sentence: str) -> ObjectName | str:
    """The one object that a sentence names: its last shape, with the colours and materials right before it.

    The reason, as a text, where it names none or different ones.
    """
    distinct = list(dict.fromkeys(find_names(sentence)))
    if not distinct:
        return f"{sentence!r} names no thing: {VOCABULARY_HELP}"
    if len(distinct) > 1:
        return f"{sentence!r} speaks of {len(distinct)} things: ask for one"
    return distinct[0]


def find_names(sentence: str) -> list[ObjectName]:
    """All objects that a sentence names, in order: each shape with the colours and materials right before it."""
    names: list[ObjectName] = []
    terms: dict[str, str] = {}
    for word in _words(sentence, keep_all=True):
        category = _term_category(word)
        if category is None:
            terms = {} if word not in _STOP_WORDS else terms
            continue
        terms[category] = word
        if category == "kind":
            names.append(ObjectName(**terms))
            terms = {}
    return names


def canonical_term(text: str) -> str:
    """A colour, a material or a backdrop in canonical form; unknown terms stay unchanged."""
    term = text.casefold().strip().rstrip(".")
    return _SYNONYMS.get(term, term)


def _words(text: str, *, keep_all: bool = False) -> list[str]:
    plain = "".join(letter if letter.isalnum() else " " for letter in text.casefold())
    words = [_SYNONYMS.get(word, word) for word in plain.split()]
    return words if keep_all else [word for word in words if word not in _STOP_WORDS]


def _term_category(word: str) -> str | None:
    if word in _KINDS:
        return "kind"
    if word in COLOURS:
        return "colour"
    return "material" if word in MATERIALS else None
