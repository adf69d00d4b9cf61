"""What becomes what: "change A (from B) to C", and the aspect of an object that changes, as in "the color of A"."""

from __future__ import annotations

from dataclasses import dataclass

from .lexicon import ARTICLES, DETERMINERS, POSSESSIVES, PREPOSITIONS, word_set
from .places import place_at, scene_end
from .tokens import Tokens, words_in


@dataclass(frozen=True, slots=True)
class Change:
    """old becomes new. source: what it was before, as in "from summer"."""

    old: Tokens
    new: Tokens
    source: Tokens | None = None


def change_of(tokens: Tokens) -> Change | None:
    """Split at the "to" or "into" that leads to what is new; None without one."""
    words = words_in(tokens)
    for index, word in enumerate(words):
        if tokens[index].is_quote or word not in ("to", "into"):
            continue
        if word == "to" and is_part_of_place(tokens, index):
            continue
        old, new = tokens[:index], tokens[index + 1 :]
        source = None
        for start in range(1, len(old)):
            if old[start].word == "from" and scene_end(old, start) is None and place_at(old, start) is None:
                old, source = old[:start], old[start + 1 :]
                break
        return Change(old, new, source)
    return None


def is_part_of_place(tokens: Tokens, index: int) -> bool:
    """Whether the "to" at an index leads to no value: "next to", "to the left of"."""
    if tokens[index].word != "to":
        return False
    before = tokens[index - 1].word if index else ""
    if before in ("next", "close", "adjacent", "attached", "closest"):
        return True
    after = words_in(tokens[index + 1 : index + 5])
    if after[:1] == ["the"]:
        after = after[1:]
    return (
        index > 0
        and after[:1] != []
        and after[0] in ("left", "right")
        and (after[1:2] == ["of"] or after[1:3] == ["side", "of"])
    )


@dataclass(frozen=True, slots=True)
class Aspect:
    """A property of an object, as in "the color of the cup". owner: tokens of the object; empty for the picture."""

    name: str
    owner: Tokens
    loose: bool = False


_ASPECTS = {
    "color": "color colour colors colours hue shade tint tone",
    "material": "material",
    "texture": "texture",
    "count": "number count amount",
    "expression": "expression",
    "pose": "pose posture action",
    "pattern": "pattern print design",
    "shape": "shape",
    "position": "position location",
    "font": "font typeface",
    "size": "size scale",
    "weather": "weather season",
    "style": "style",
    "lighting": "lighting illumination",
    "camera": "angle viewpoint perspective view",
}
_ASPECT_OF = {word: name for name, words in _ASPECTS.items() for word in words.split()}
_BEFORE = word_set("overall main body exterior base primary facial artistic art")


def aspect_of(tokens: Tokens) -> Aspect | None:
    """The aspect that tokens name, and whose it is; None where they name an object."""
    words = words_in(tokens)
    end = len(tokens)
    for size in (5, 4, 3):
        if end > size and scene_end(tokens, end - size) == end:
            end -= size
            break
    start = 1 if words and words[0] in ARTICLES else 0
    if words[start : start + 3] == ["time", "of", "day"] and end == start + 3:
        return Aspect("time", ())
    lead = start
    while lead < end and words[lead] in _BEFORE | {"surface", "facial"}:
        lead += 1
    if lead < end and words[lead] in _ASPECT_OF and words[lead + 1 : lead + 2] == ["of"]:
        loose = lead > start
        return Aspect(_ASPECT_OF[words[lead]], tokens[lead + 2 :], loose)
    for index in range(lead + 1, end - 1):
        if words[index] in PREPOSITIONS:
            break
        if words[index] in _ASPECT_OF and words[index + 1] == "of":  # "the hair color of the woman"
            return Aspect(_ASPECT_OF[words[index]], [*tokens[start:index], *tokens[index + 1 :]])
    if words[start:end] and words[end - 1] in _ASPECT_OF and end - 1 >= start:
        name = _ASPECT_OF[words[end - 1]]
        owner = list(tokens[: end - 1])
        loose = False
        while owner and owner[-1].word in ("facial", "fabric", "surface", "floral", "skin") and len(owner) > 2:
            if owner[-1].word in ("skin", "fabric"):
                break
            loose = True
            owner.pop()
        if owner and owner[-1].word in ("'s", "'"):
            owner.pop()
        if [token.word for token in owner] in ([word] for word in DETERMINERS - POSSESSIVES):
            owner = []
        if name == "camera":
            return Aspect(name, ()) if {token.word for token in owner} <= {"camera", "viewing", "the"} else None
        if name in ("pattern", "style", "count", "pose") and not owner:
            return None if name in ("pattern", "count") else Aspect(name, ())
        if end < len(tokens) and owner:
            owner = [*owner, *tokens[end:]]
        return Aspect(name, owner, loose)
    return None
