"""What a sentence says must stay: "keep the table", "without changing the background", "leave the rest untouched"."""

from __future__ import annotations

from dataclasses import replace

from ...edit_plan import Kept, KeptAspect, Target
from .clauses import is_scene
from .lexicon import (
    ADJECTIVES,
    ARTICLES,
    BACKGROUND_NOUNS,
    COLORS,
    DETERMINERS,
    OBJECT_COLORS,
    PERSON_PRONOUNS,
    PERSONS,
    SCENES,
    STATES,
    UNCHANGED,
    word_set,
)
from .noun_phrases import Phrase, phrase_at, with_pronoun_resolved
from .places import scene_end
from .tokens import Tokens, words_in

_ASPECTS: dict[str, KeptAspect] = {
    "background": "background",
    "backdrop": "background",
    "lighting": "light",
    "light": "light",
    "style": "style",
    "look": "style",
    "text": "text",
    "words": "text",
    "layout": "layout",
    "composition": "layout",
    "structure": "layout",
    "framing": "layout",
    "atmosphere": "style",
    "ambiance": "style",
    "mood": "style",
    "theme": "style",
    "colors": "style",
}
_OF_OBJECT: dict[str, KeptAspect] = {
    "identity": "identity",
    "face": "identity",
    "likeness": "identity",
    "features": "identity",
    "pose": "layout",
    "position": "layout",
    "posture": "layout",
    "shape": "layout",
    "size": "layout",
    "proportions": "layout",
    "structure": "layout",
    "composition": "layout",
    "layout": "layout",
}
_REST = (
    ("everything", "else"),
    ("all", "else"),
    ("the", "rest"),
    ("all", "other", "elements"),
    ("all", "other", "objects"),
    ("everything", "else", "in", "place"),
    ("the", "other", "elements"),
    ("other", "elements"),
    ("anything", "else"),
    ("nothing", "else"),
    ("any", "other", "elements"),
)


def kept_of(tokens: Tokens, words: str, antecedent: Target | None) -> list[Kept] | None:
    """What is kept, as the tokens after "keep" say; None where they say anything else as well."""
    end = _end_of_objects(tokens)
    if end is None or not end:
        return None
    tokens = tokens[:end]
    low = tuple(words_in(tokens))
    for rest in _REST:
        if low == rest or (low[: len(rest)] == rest and scene_end(tokens, len(rest)) == len(tokens)):
            return [Kept("layout", None, words)]
    if is_scene(tokens):
        return None  # nothing may change, or it says nothing
    kept: list[Kept] = []
    owner: Target | None = None
    start = 0
    while start < len(tokens):
        is_shared = bool(kept) and tokens[start].word not in DETERMINERS  # "her pose and face"
        one = _one_kept(tokens, start, words, (owner if is_shared else None) or antecedent)
        if one is None:
            return None
        kept.append(one[0])
        owner = one[0].target
        start = one[1]
        before = start
        while start < len(tokens) and tokens[start].word in (",", "and", "or"):
            start += 1
        if start < len(tokens) and start == before:
            return None
    return kept


_STAYING = word_set("should must stays remains stay remain be exactly completely entirely fully")


def _end_of_objects(tokens: Tokens) -> int | None:
    """The index after the objects; None where something else follows than that they stay."""
    words = words_in(tokens)
    for index in range(len(words)):
        rest = [word for word in words[index:] if word not in _STAYING]
        if (
            index
            and rest
            and (
                (rest[0] in UNCHANGED and len(rest) == 1)
                or rest
                in (
                    ["the", "same"],
                    ["as", "is"],
                    ["as", "it", "is"],
                    ["as", "they", "are"],
                    ["as", "before"],
                    ["in", "place"],
                    ["as", "it", "was"],
                    ["visible"],
                    ["visible", "in", "the", "foreground"],
                    ["in", "focus"],
                    ["the", "way", "it", "is"],
                    ["exactly", "the", "same"],
                    ["for", "context"],
                )
            )
        ):
            return index
    return len(words)


def _without_value(tokens: Tokens, start: int) -> Phrase | None:
    """The object that is kept, without what it is kept as: "the walls white"."""
    phrase = phrase_at(tokens, start)
    if phrase is None:
        return None
    *nouns, last = phrase.target.noun.split()
    if nouns and last in ("bare", "empty", "clear"):
        return None  # "leaving his head bare": what nothing shall be put on
    if nouns and (last in COLORS or last in STATES or last in ADJECTIVES) and last not in OBJECT_COLORS:
        return replace(phrase, target=replace(phrase.target, noun=" ".join(nouns)))
    return phrase


def _one_kept(tokens: Tokens, start: int, words: str, antecedent: Target | None) -> tuple[Kept, int] | None:
    low = words_in(tokens[start:])
    offset = 1 if low and low[0] in ARTICLES else 0
    while low[offset : offset + 1] and low[offset] in (
        "original",
        "existing",
        "current",
        "overall",
        "same",
        "surrounding",
    ):
        offset += 1
    head = low[offset] if offset < len(low) else ""
    after = low[offset + 1 : offset + 2]
    if head in _ASPECTS and (not after or after[0] in (",", "and", "or") or scene_end(tokens, start + offset + 1)):
        end = scene_end(tokens, start + offset + 1) if after and after[0] not in (",", "and", "or") else None
        return Kept(_ASPECTS[head], None, words), end if end is not None else start + offset + 1
    if head in {"elements", "environment"}:
        return None
    if low[:1] in (["him"], ["her"], ["it"], ["them"]) and (len(low) == 1 or low[1] in (",", "and")):
        target = antecedent if antecedent is not None else None
        if target is None and low[0] in PERSON_PRONOUNS:
            target = Target(PERSON_PRONOUNS[low[0]])
        return None if target is None else (Kept("object", target, words), start + 1)
    phrase = _without_value(tokens, start)
    if phrase is None:
        return None
    resolved = with_pronoun_resolved(phrase, antecedent)
    if resolved is None:
        return None
    target = resolved.target
    last = target.noun.split()[-1]
    if target.noun in SCENES and target.relation is None and target.place is None:
        return None  # "remaining a realistic photo"
    if target.relation is not None and target.relation.of.noun in ("color", "colour"):
        return None  # "keeping the umbrella in color"
    if not _DETAILS.isdisjoint(target.noun.split()):
        return None  # how sharp they are, not what is there
    if last in ("color", "colour", "material", "texture", "expression", "orientation", "angle", "direction"):
        return None
    if last in _OF_OBJECT and target.relation is not None and target.relation.kind == "part":
        owner = None if target.relation.of.noun in SCENES else target.relation.of
        return Kept(_OF_OBJECT[last], owner, words), phrase.end
    if last in _OF_OBJECT and target.relation is None:
        is_person = antecedent is not None and antecedent.noun.split()[-1] in PERSONS | {"people"}
        owner = antecedent if _OF_OBJECT[last] == "identity" and is_person else None
        is_clear = owner is not None or _OF_OBJECT[last] != "identity"
        return (Kept(_OF_OBJECT[last], owner, words), phrase.end) if is_clear else None
    if last in BACKGROUND_NOUNS and target.place == "background":
        return Kept("background", None, words), phrase.end
    if last in _ASPECTS and (target.relation is None or target.relation.kind == "with"):
        return Kept(_ASPECTS[last], None, words), phrase.end
    return Kept("object", target, words), phrase.end


_DETAILS = word_set("detail details")
