"""Texts that are written, replaced or removed, and where they stand: `add the word "OPEN" to the door`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from ...edit_plan import MAX_NESTING, Relation, Target
from ...metrics.any_edit.instruction_words import word_set
from ...sample import Position
from . import lexicon as lex
from .noun_heads import place_at, relation_at
from .noun_phrases import Operations, Request
from .sentences import Token, Tokens, scene_end, text_of, words_in
from .values import color_value

SIDE_POSITIONS = ("left", "right", "above", "below")
_EDGES = frozenset(("top", "bottom"))  # sides that are those of a thing, as in "at the top of the page"
_SAYING = word_set("say says saying read reads reading")
_MAX_WORDS = 8
_TEXTS = word_set("text word words caption title slogan writing lettering")
_NO_TEXT = word_set("in on at to of something anything a the instead it , and")
_LETTERS = word_set("letters lettering font text capitals type writing ink paint chalk handwriting caps")
_LOOKS = word_set("big large small bold italic block capital tiny thick thin fancy cursive gothic handwritten")


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
    is_of_person = len(words) == 3 and words[0] in ("to", "on", "at") and words[1] in lex.PERSON_PRONOUNS
    if is_of_person and words[2] in ("left", "right", "side"):
        is_side, person = words[2] == "side", Target(lex.PERSON_PRONOUNS[words[1]])
        return "place" if is_side else words[2], person, is_side
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
    if target.noun in lex.SIDE_NOUNS and target.relation is not None and target.relation.kind == "part":
        return TextPlace(target.relation.of, loose=True)  # "in the corner of the poster"
    return TextPlace(target, loose=loose)


# -- texts without quotes ----------------------------------------------------------------------------------------------


def with_text_quoted(tokens: Tokens) -> Tokens:
    """The tokens with a text that has no quotes as one: what follows "saying", or capitals after "the text"."""
    if any(token.is_quote for token in tokens) or (len(tokens[0].text) > 1 and tokens[0].text.isupper()):
        return tokens
    words = words_in(tokens)
    shouted = [token for token in tokens[1:4:2] if len(token.text) > 2 and token.text.isupper()]
    if words[0] in ("change", "replace") and len(shouted) == 2:
        return [Token(token.text, '"') if index in (1, 3) else token for index, token in enumerate(tokens)]
    for index in range(len(tokens) - 1):
        word, begin = words[index], index + 1
        if word in ("to", "with") and index > 1 and words[begin] not in ("say", "read") and set(words[:index]) & _TEXTS:
            is_text = words[0] in ("change", "replace", "edit", "update")
        else:
            is_text = (
                (word in _SAYING and index > 0) or word in lex.TEXT_INTRODUCERS or (index == 0 and word == "write")
            )
        if not is_text or words[begin] in lex.ARTICLES:
            continue
        end = begin
        while end < len(tokens) and end < begin + _MAX_WORDS and _is_capital(tokens[end]):
            end += 1
        is_said = word in ("say", "says", "saying") and end == begin
        if is_said and len(tokens) - begin <= 4 and not set(words[begin:]) & _NO_TEXT:
            end = len(tokens)  # lower case up to the end
        if end > begin and color_value(tokens[begin:end]) is None:
            text = text_of(tokens[begin:end])
            return [*tokens[:begin], Token(text, '"'), *tokens[end:]]
    return tokens


def _is_capital(token: Token) -> bool:
    return token.text[:1].isupper() or (token.text[:1].isdigit() and not token.is_mark)


# -- operations --------------------------------------------------------------------------------------------------------


def _without_sayings(tokens: Tokens) -> list[str]:
    """The words before a text, without articles and what says that a text follows."""
    return [word for word in words_in(tokens) if word not in lex.ARTICLES and word not in _SAYING]


def text_added(tokens: Tokens, request: Request) -> Operations | None:
    """`the word "PAUSE" on the wall`, `a red text saying "SALE"`, and "WELCOME" above the door, which is not on it."""
    quotes = [index for index, token in enumerate(tokens) if token.is_quote]
    if len(quotes) != 1:
        return None
    index = quotes[0]
    before = _without_sayings(tokens[:index])
    looks = [
        word for word in before if word in lex.COLORS | lex.COLOR_MODIFIERS or word in ("bold", "large", "big", "small")
    ]
    rest = [word for word in before if word not in looks]
    if not all(word in lex.TEXT_INTRODUCERS for word in rest):
        return None
    if not rest and index and tokens[index - 1].word in _SAYING:
        return None
    after = tokens[index + 1 :]
    if after and after[0].word in lex.TEXT_INTRODUCERS and len(after) > 1:
        after = after[1:]
    end = len(after)
    if end > 3 and after[-2].word == "in" and after[-1].word in lex.COLORS:
        end -= 2  # "on the shirt in red"
    for start in range(1, end):
        if after[start].word == "in" and _look_end(after[start:end]) == end - start:
            end = start  # "on the window in big letters"
            break
    look = _look_end(after)
    looks += words_in(after[end:])
    after = after[:end]
    place = text_place_of(after[look:], request)
    if place is None:
        return None
    position: Position | None = None
    reference = None
    if place.beside is not None and place.beside.kind in SIDE_POSITIONS:
        position, reference = cast(Position, place.beside.kind), place.beside.of
    return request.operation(
        "text_change",
        text=tokens[index].text,
        target=place.carrier,
        position=position,
        reference=reference,
        loose=place.loose or bool(looks or look),
    )


def _look_end(tokens: Tokens) -> int:
    """The index after "in white letters", which are those of the new text; 0 without."""
    if not tokens or tokens[0].word not in ("in", "with", "using"):
        return 0
    for index, token in enumerate(tokens[1:6], 1):
        if token.word in _LETTERS or (token.word in lex.COLORS and not _names_letters(tokens[index + 1 :])):
            return index + 1
        if token.word not in lex.COLORS | lex.COLOR_MODIFIERS | _LOOKS and token.word != "a":
            return 0
    return 0


def _names_letters(tokens: Tokens) -> bool:
    return bool(tokens) and (tokens[0].word in _LETTERS or tokens[0].word not in ("in", "on", "at", "above", "below"))


def text_said(tokens: Tokens, request: Request) -> Operations | None:
    """`(make) the sign say "OPEN"`."""
    if len(tokens) < 3 or not tokens[-1].is_quote or tokens[-2].word not in ("say", "read"):
        return None
    return request.on(request.target(tokens[:-2]), "text_change", text=tokens[-1].text, loose=True)


def text_removed(tokens: Tokens, request: Request) -> Operations | None:
    """`(remove) the text "SALE" from the window`."""
    quotes = [index for index, token in enumerate(tokens) if token.is_quote]
    if len(quotes) != 1:
        return None
    index = quotes[0]
    before = _without_sayings(tokens[:index])
    if not all(word in lex.TEXT_INTRODUCERS for word in before):
        return None
    place = text_place_of(tokens[index + 1 :], request)
    if place is None:
        return None
    return request.operation(
        "text_remove", target=place.carrier, old_text=tokens[index].text, loose=place.loose or place.beside is not None
    )


def text_replaced(old: Tokens, new: Tokens, request: Request, source: Token | None = None) -> Operations | None:
    """`(change) the word "FAST" on the sign (to) "SLOW"`. source: as in `from "FAST"`."""
    after = [token for token in new if token.is_quote]
    before = [token for token in old if token.is_quote] + ([source] if source is not None else [])
    if len(after) != 1 or len(before) > 1:
        return None
    index = new.index(after[0])
    if not all(word in lex.TEXT_INTRODUCERS for word in _without_sayings(new[:index])):
        return None
    place = _place_of_old(old, [] if source is not None else before, new[index + 1 :], request)
    if place is None:
        return None
    return request.operation(
        "text_change",
        text=after[0].text,
        old_text=before[0].text if before else "",
        target=place.carrier,
        loose=place.loose or place.beside is not None,
    )


def _place_of_old(old: Tokens, quoted: list[Token], after: Tokens, request: Request) -> TextPlace | None:
    """What carries the text that is replaced. after: tokens after the new text."""
    if quoted:
        index = list(old).index(quoted[0])
        if not all(word in lex.TEXT_INTRODUCERS for word in _without_sayings(old[:index])):
            return None
        tail = old[index + 1 :]
        tail = tail[1:] if tail and tail[0].word in lex.TEXT_INTRODUCERS else tail
        return None if tail and after else text_place_of(tail or after, request)
    if after:
        return None
    words = [word for word in words_in(old) if word not in lex.ARTICLES]
    if words and words[0] in lex.TEXT_NOUNS - {"sign", "logo", "label"}:
        start = next(index for index, token in enumerate(old) if token.word == words[0]) + 1
        place = text_place_of(old[start:], request)
        if place is not None and place.beside is not None:  # it is the text itself that changes
            is_deep = place.beside.of.nesting == MAX_NESTING
            return None if is_deep else TextPlace(Target(words[0], relation=place.beside), loose=place.loose)
        return place
    phrase = request.target(old)
    is_text = phrase is not None and phrase.target.noun.split()[-1] in lex.TEXT_NOUNS
    return TextPlace(phrase.target, loose=phrase.loose) if phrase is not None and is_text else None
