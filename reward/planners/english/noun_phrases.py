"""Referring expressions: from tokens to a `Target`. One pass from left to right."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...edit_plan import MAX_NESTING, Relation, Target
from .lexicon import (
    CLOTHES,
    COLORS,
    DEPICTIONS,
    HOLDING,
    LOCATED,
    MEASURES,
    MENTIONED,
    PERSONS,
    PREPOSITIONS,
    SIDES,
    STOPS,
    word_set,
)
from .noun_heads import Draft, head_end
from .places import place_at, relation_at, scene_end
from .tokens import Tokens, text_of, words_in


@dataclass(frozen=True, slots=True)
class Phrase:
    """A target as it was read. end: index after it. article: "the", "a", or empty. loose: some words of it are in no
    slot of the target, and need a question. pronoun: the pronoun that it is, which needs an antecedent.
    """

    target: Target
    end: int
    article: str = ""
    loose: bool = False
    pronoun: str = ""


def phrase_at(tokens: Tokens, start: int = 0, *, depth: int = 0) -> Phrase | None:
    """The referring expression that begins at an index; None where there is none that can be read.

    It ends before a mark, a conjunction, a verb, or a preposition that is none of a place or a relation.
    """
    if depth and start < len(tokens) and tokens[start].word in ("him", "her"):
        follows = tokens[start + 1].word if start + 1 < len(tokens) else ""
        if tokens[start].word == "him" or not follows or follows in STOPS or not follows[0].isalnum():
            return Phrase(Target("person"), start + 1, "the")
    draft = Draft()
    index = head_end(tokens, start, draft)
    if index is None:
        return None
    index = _modifiers(tokens, index, draft, depth)
    if index is None or (draft.order is not None and draft.order_from is None) or (draft.is_any and not depth):
        return None
    if not depth and draft.relation is None and draft.nouns in _PARTS:
        return None
    try:
        return Phrase(draft.target(), index, draft.article, draft.loose)
    except ValueError:  # nested too deep, or too many attributes
        return None


_PARTS = (["side"], ["half"], ["part"], ["portion"])
"""Of nothing that is named, they are no object."""


def whole_phrase(tokens: Tokens) -> Phrase | None:
    """The referring expression that all the tokens are."""
    phrase = phrase_at(tokens)
    return phrase if phrase is not None and phrase.end == len(tokens) else None


def _modifiers(tokens: Tokens, index: int, draft: Draft, depth: int) -> int | None:
    """Read scene phrases, places, relations and participles; the index after them."""
    while index < len(tokens):
        if tokens[index].word == "," and not depth and _goes_on(tokens, index + 1, draft):
            index += 1
        end = scene_end(tokens, index)
        if end is None:
            end = _order_end(tokens, index, draft)
        if end is None:
            found = place_at(tokens, index)
            if found is not None:
                place, end, both = found
                if both or (draft.place is not None and draft.place != place):
                    draft.loose = True
                draft.place = draft.place or place
        if end is None:
            end = _participle_end(tokens, index, draft)
        if end is None:
            result = _relation_end(tokens, index, draft, depth)
            if result is None:
                return index
            if result < 0:
                return None
            end = result
        index = end
    return index


def _goes_on(tokens: Tokens, index: int, draft: Draft) -> bool:
    """Whether another relation or place of the object follows a comma: ", next to the logo"."""
    if draft.relation is None and draft.place is None:
        return False
    found = relation_at(tokens, index)
    if found is None:
        return place_at(tokens, index) is not None
    return found[0] not in ("with", "part") and phrase_at(tokens, found[1], depth=MAX_NESTING) is not None


def _order_end(tokens: Tokens, start: int, draft: Draft) -> int | None:
    """The index after "from the left", the origin of an order."""
    words = words_in(tokens[start : start + 3])
    if draft.order is None or words[:1] != ["from"] or len(words) < 2:
        return None
    rest = words[2:] if words[1] == "the" else words[1:]
    if not rest or SIDES.get(rest[0]) not in ("left", "right", "top", "bottom"):
        return None
    draft.order_from = SIDES[rest[0]]
    return start + (3 if words[1] == "the" else 2)


def _participle_end(tokens: Tokens, index: int, draft: Draft) -> int | None:
    """The index after a participle or a relative pronoun that leads a place or relation."""
    words = words_in(tokens[index : index + 3])
    if words[0] in ("that's", "who's"):
        return index + 1
    if words[0] in ("that", "which", "who") and words[1:2] and words[1] in ("is", "are", "was"):
        return index + 2
    follows = words[1:2] and (
        words[1] in PREPOSITIONS
        or words[1]
        in (
            "to",
            "from",
            "next",
            "close",
            "directly",
            "right",
            "around",
            "along",
            "across",
            "against",
            "out",
            "up",
            "through",
            "toward",
            "towards",
        )
    )
    if words[0] in MENTIONED and follows:
        return index + 1
    if words[0] in LOCATED and (follows or len(words) == 1):
        draft.loose = True  # what it does, which no detector is asked for
        return index + 1
    if words[0] == "directly" and follows:
        draft.loose = True
        return index + 1
    return None


_ALIKE = word_set("position place spot location pose color colour size shape style kind type")
"""What may be the same: "in the same place", "of the same color"."""


def _relation_end(tokens: Tokens, index: int, draft: Draft, depth: int) -> int | None:
    """The index after a relation; None without one, -1 where it cannot be read."""
    if tokens[index].word == "of" and draft.nouns and draft.nouns[-1] in MEASURES | DEPICTIONS:
        return _measured(tokens, index, draft)
    if tokens[index].word == "made" and index + 2 < len(tokens) and tokens[index + 1].word == "of":
        material = tokens[index + 2].word
        draft.attributes.append(f"made of {material}")
        return index + 3 if material not in STOPS else -1
    found = relation_at(tokens, index)
    if found is None:
        return None
    kind, after, loose = found
    is_doing = tokens[index].word in HOLDING - {"with"}
    if is_doing and depth and draft.nouns[-1] not in PERSONS:
        return None  # "a man on the bench | reading a newspaper"
    if kind == "in" and tokens[after].word in COLORS if after < len(tokens) else False:
        follows = tokens[after + 1].word if after + 1 < len(tokens) else "and"
        if follows in STOPS or follows == ",":
            draft.attributes.append(f"in {tokens[after].word}")  # "the woman in red"
            return after + 1
    if depth >= MAX_NESTING:
        return -1
    other = phrase_at(tokens, after, depth=depth + 1)
    if other is None:
        return -1
    if draft.relation is not None:
        draft.loose = True  # the slot has one relation
        return other.end if is_doing or kind not in ("with", "part") else -1
    if kind == "in" and other.target.noun == "style":
        return None  # "a cat | in the style of Picasso"
    if other.target.noun in _ALIKE and "same" in other.target.attributes:
        draft.loose = True
        return other.end
    if kind == "in" and other.target.noun.split()[-1] in CLOTHES and draft.nouns[-1] in PERSONS:
        kind = "with"
    draft.relation = Relation(kind, other.target)
    draft.loose = draft.loose or loose or other.loose
    return other.end


_PICTURES = word_set("image picture photo photograph")


def _measured(tokens: Tokens, index: int, draft: Draft) -> int | None:
    """Read on after "a cup of": what is in it belongs to the name."""
    if draft.article == "the" and draft.nouns[-1] in _PICTURES:
        return -1  # "the image of the chapel": the whole picture, or a picture in it
    content = Draft()
    end = head_end(tokens, index + 1, content)
    if end is None:
        return -1
    is_bare = not content.article or (draft.nouns[-1] in DEPICTIONS and content.article == "a")
    if content.relation is not None or content.place is not None:
        return -1
    if is_bare:
        text = text_of(tokens[index:end]).lower()
        draft.nouns.append(text)
        return end
    try:
        draft.relation = Relation("part", content.target())
    except ValueError:
        return -1
    return end


def with_pronoun_resolved(phrase: Phrase, antecedent: Target | None) -> Phrase | None:
    """The phrase with "its" replaced by what it stands for; None where nothing does."""
    target = _resolved(phrase.target, antecedent)
    return None if target is None else replace(phrase, target=target)


def _resolved(target: Target, antecedent: Target | None) -> Target | None:
    relation = target.relation
    if relation is None:
        return target
    if relation.of.noun == "it":
        is_clear = antecedent is not None and antecedent.relation is None
        other = antecedent if is_clear else None  # "give the dog a collar and make its fur black"
    else:
        other = _resolved(relation.of, antecedent)
    try:
        return None if other is None else replace(target, relation=Relation(relation.kind, other))
    except ValueError:  # nested too deep
        return None
