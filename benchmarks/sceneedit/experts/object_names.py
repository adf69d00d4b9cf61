"""Phrases: names such as `wood red circle`, taken apart."""

from __future__ import annotations

from dataclasses import dataclass

from ..words import COLOURS, MATERIALS, SHAPES, SIGN, TEXT

_KINDS = (*SHAPES, SIGN, TEXT)
_SAME = (
    {"wooden": "wood", "metallic": "metal"}
    | {f"{kind}s": kind for kind in _KINDS}
    | {
        "crosses": "cross",
        "crosse": "cross",
        "cros": "cross",
        "texts": TEXT,
    }
)
_FILL = {"a", "an", "the", "new", "this", "that", "of", "made"}
"""Words that say nothing about what a thing looks like."""

KNOWN = f"it knows {', '.join(_KINDS)}, in {', '.join(COLOURS)}, made of {', '.join(MATERIALS)}"
"""For messages."""


@dataclass(frozen=True, slots=True)
class Name:
    """What a name says of a thing; empty where it says nothing."""

    kind: str = ""
    colour: str = ""
    material: str = ""


def parse(words: str) -> Name | str:
    """The thing that a name means, or, as a text, why that cannot be known: a word that is none of these, no kind of
    thing, or two of one sort.
    """
    said: dict[str, str] = {}
    for word in _words(words):
        sort = _sort(word)
        if sort is None:
            return f"{word!r} in {words!r} means nothing to it: {KNOWN}"
        if said.setdefault(sort, word) != word:
            return f"{words!r} says both {said[sort]!r} and {word!r}: ask for one"
    if "kind" not in said:
        return f"{words!r} names no thing: {KNOWN}"
    return Name(**said)


def find(sentence: str) -> Name | str:
    """The one thing a sentence speaks of: its last kind of thing, with the colours and materials right before it.

    A text that says why, where there is none, or where it speaks of different things.
    """
    different = list(dict.fromkeys(names_in(sentence)))
    if not different:
        return f"{sentence!r} names no thing: {KNOWN}"
    if len(different) > 1:
        return f"{sentence!r} speaks of {len(different)} things: ask for one"
    return different[0]


def names_in(sentence: str) -> list[Name]:
    """All things a sentence speaks of, in order: each kind with the colours and materials right before it."""
    names: list[Name] = []
    said: dict[str, str] = {}
    for word in _words(sentence, keep_all=True):
        sort = _sort(word)
        if sort is None:
            said = {} if word not in _FILL else said
            continue
        said[sort] = word
        if sort == "kind":
            names.append(Name(**said))
            said = {}
    return names


def word(text: str) -> str:
    """A colour, a material or a backdrop as it is written here; what it does not know, as it stands."""
    said = text.casefold().strip().rstrip(".")
    return _SAME.get(said, said)


def _words(text: str, *, keep_all: bool = False) -> list[str]:
    plain = "".join(letter if letter.isalnum() else " " for letter in text.casefold())
    words = [_SAME.get(word, word) for word in plain.split()]
    return words if keep_all else [word for word in words if word not in _FILL]


def _sort(word: str) -> str | None:
    if word in _KINDS:
        return "kind"
    if word in COLOURS:
        return "colour"
    return "material" if word in MATERIALS else None
