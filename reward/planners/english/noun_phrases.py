"""Referring expressions, from tokens to a `Target` in one pass; a clause while it is read, and the objects in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ...edit_plan import MAX_NESTING, OperationType, PlannedOperation, Relation, Target
from ...metrics.any_edit.instruction_words import word_set
from ...metrics.any_edit.questions import own_questions
from ...sample import TASK_TYPES
from . import lexicon as lex
from .noun_heads import Draft, head_end, place_at, relation_at
from .sentences import Tokens, is_scene, scene_end, text_of, word_at, words_in

_PARTS = (["side"], ["half"], ["part"], ["portion"])  # of nothing that is named, they are no object
_LEADING = word_set("to from next close directly right around along across against out up through toward towards")
_ALIKE = word_set("position place spot location pose color colour size shape style kind type")
"""What may be the same: "in the same place", "of the same color"."""
_PICTURES = word_set("image picture photo photograph")
Operations = list[PlannedOperation]
_LETTERS = word_set("text words letters lettering writing caption font subtitle subtitles title headline slogan")
_LOOKS: frozenset[OperationType] = frozenset(("color_alter", "material_alter", "resize", "attribute"))
"""Of letters they are a style of text."""
_OF_PICTURES: frozenset[OperationType] = frozenset(
    ("light", "filter", "restoration", "rotate", "crop", "zoom", "camera")
)
_COMBINATIONS = word_set("combination combo set pair duo mix")
_LEADS, _PARTICLES = word_set("next close that which who slightly to"), word_set("off out up down past so")
_WITH_OF = word_set("consisting composed reminiscent dreaming thinking smelling formed")


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
    """The referring expression that begins at an index; None where there is none that can be read. It ends before a
    mark, a conjunction, a verb, or a preposition that is none of a place or a relation.
    """
    if depth and start < len(tokens) and tokens[start].word in ("him", "her"):
        follows = tokens[start + 1].word if start + 1 < len(tokens) else ""
        if tokens[start].word == "him" or not follows or follows in lex.STOPS or not follows[0].isalnum():
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
        if end is None and (found := place_at(tokens, index)) is not None:
            place, end, both = found
            draft.loose = draft.loose or both or draft.place not in (None, place)
            draft.place = draft.place or place
        if end is None:
            end = _participle_end(tokens, index, draft)
        if end is None:
            end = _relation_end(tokens, index, draft, depth)
        if end is None or end < 0:
            return index if end is None else None
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
    if not rest or lex.SIDES.get(rest[0]) not in ("left", "right", "top", "bottom"):
        return None
    draft.order_from = lex.SIDES[rest[0]]
    return start + (3 if words[1] == "the" else 2)


def _participle_end(tokens: Tokens, index: int, draft: Draft) -> int | None:
    """The index after a participle or a relative pronoun that leads a place or relation."""
    words = words_in(tokens[index : index + 3])
    if words[0] in ("that's", "who's"):
        return index + 1
    if words[0] in ("that", "which", "who") and words[1:2] and words[1] in ("is", "are", "was"):
        return index + 2
    follows = word_at(words, 1) in lex.PREPOSITIONS or word_at(words, 1) in _LEADING
    if words[0] in lex.MENTIONED and follows:
        return index + 1
    if (words[0] in lex.LOCATED and (follows or len(words) == 1)) or (words[0] == "directly" and follows):
        draft.loose = True  # what it does, which no detector is asked for
        return index + 1
    return None


def _relation_end(tokens: Tokens, index: int, draft: Draft, depth: int) -> int | None:
    """The index after a relation; None without one, -1 where it cannot be read."""
    if tokens[index].word == "of" and draft.nouns and draft.nouns[-1] in lex.MEASURES | lex.DEPICTIONS:
        return _measured(tokens, index, draft)
    if tokens[index].word == "made" and index + 2 < len(tokens) and tokens[index + 1].word == "of":
        material = tokens[index + 2].word
        draft.attributes.append(f"made of {material}")
        return index + 3 if material not in lex.STOPS else -1
    found = relation_at(tokens, index)
    if found is None:
        return None
    kind, after, loose = found
    is_doing = tokens[index].word in lex.HOLDING - {"with"}
    if is_doing and depth and draft.nouns[-1] not in lex.PERSONS:
        return None  # "a man on the bench | reading a newspaper"
    if kind == "in" and after < len(tokens) and tokens[after].word in lex.COLORS:
        follows = tokens[after + 1].word if after + 1 < len(tokens) else "and"
        if follows in lex.STOPS or follows == ",":
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
    if kind == "in" and other.target.noun.split()[-1] in lex.CLOTHES and draft.nouns[-1] in lex.PERSONS:
        kind = "with"
    draft.relation = Relation(kind, other.target)
    draft.loose = draft.loose or loose or other.loose
    return other.end


def _measured(tokens: Tokens, index: int, draft: Draft) -> int | None:
    """Read on after "a cup of": what is in it belongs to the name."""
    if draft.article == "the" and draft.nouns[-1] in _PICTURES:
        return -1  # "the image of the chapel": the whole picture, or a picture in it
    content = Draft()
    end = head_end(tokens, index + 1, content)
    if end is None or content.relation is not None or content.place is not None:
        return -1
    if not content.article or (draft.nouns[-1] in lex.DEPICTIONS and content.article == "a"):
        draft.nouns.append(text_of(tokens[index:end]).lower())
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


def joined(parts: Iterable[Operations | None]) -> Operations | None:
    """The operations of all parts; None where one of these is not read."""
    operations: Operations = []
    for part in parts:
        if part is None:
            return None
        operations += part
    return operations


@dataclass(slots=True)
class Request:
    """A clause while it is read. words: of the whole clause. note: how it shall be done. antecedent: what "it" is.
    is_alone: nothing else is asked for. in_scene: it says "in the image".
    """

    words: str
    note: str = ""
    antecedent: Target | None = None
    is_alone: bool = True
    in_scene: bool = False

    def operation(self, kind: OperationType, *, loose: bool = False, **slots: Any) -> Operations | None:
        """One operation of this clause. loose: its slots leave words out, so that it needs a question of its own."""
        if kind in _OF_PICTURES and slots.get("target") == Target("frame"):
            return None  # the picture, or what is around it
        if kind in _LOOKS and slots["target"].noun.split()[-1] in _LETTERS:
            kind = "text_style"
        try:
            made = PlannedOperation(kind, words=self.words, **slots)
        except ValueError:
            return None
        if kind in TASK_TYPES and (loose or self.note):
            made = replace(made, questions=own_questions(made))
        return [made]

    def on(self, phrase: Phrase | None, kind: OperationType, **slots: Any) -> Operations | None:
        """One operation on an object; None without the object."""
        return None if phrase is None else self.operation(kind, target=phrase.target, **slots)

    def target(self, tokens: Tokens) -> Phrase | None:
        """The object that all the tokens name; pronouns stand for what was named before."""
        words = words_in(tokens)
        if len(words) == 1 and words[0] in ("it", "them", "they", "him", "her", "he", "she", "his", "their"):
            noun = lex.PERSON_PRONOUNS.get(words[0])
            if self.antecedent is not None and (noun is None or self.antecedent.noun.split()[-1] in lex.PERSONS):
                return Phrase(self.antecedent, 1, "the", pronoun=words[0])
            return None if noun is None else Phrase(Target(noun), 1, "the", pronoun=words[0])
        phrase = whole_phrase(tokens)
        return None if phrase is None else with_pronoun_resolved(phrase, self.antecedent)

    def known(self, tokens: Tokens) -> Phrase | None:
        """The object that all the tokens name, if it is in the picture: neither "a cup" nor an "it" without a name."""
        phrase = self.definite(tokens)
        return None if phrase is None or self.is_unnamed(phrase) else phrase

    def definite(self, tokens: Tokens) -> Phrase | None:
        """The object that all the tokens name, unless it is "a cup"."""
        phrase = self.target(tokens)
        return None if phrase is None or phrase.article == "a" else phrase

    def is_unnamed(self, phrase: Phrase) -> bool:
        """Whether a phrase is "it" or "them", and nothing was named before; "him" and "her" are persons."""
        return phrase.pronoun in ("it", "them", "they") and self.antecedent is None

    def is_scene(self, tokens: Tokens) -> bool:
        """Whether tokens name the whole picture; "it" does where nothing was named before."""
        return is_scene(tokens) or (words_in(tokens) in (["it"], ["this"]) and self.antecedent is None)


def objects_of(tokens: Tokens, request: Request) -> list[Phrase] | None:
    """One or several objects joined by "and" or commas, which are all the tokens; None where one cannot be read."""
    single = request.target(tokens) if tokens else None
    if single is not None:
        return [single]
    found: list[Phrase] = []
    start = 1 if words_in(tokens[:1]) == ["both"] and "and" in words_in(tokens) else 0  # "both the bike and the car"
    while start < len(tokens):
        phrase = phrase_at(tokens, start)
        resolved = None if phrase is None else with_pronoun_resolved(phrase, request.antecedent)
        if phrase is None or resolved is None or (found and is_one_name(found[-1], phrase)):
            return None
        if found and tokens[start - 1].word == "," and phrase.end == len(tokens) and not phrase.article:
            return None  # "remove the boats, owners demand"
        found.append(resolved)
        start = phrase.end
        if start == len(tokens):
            return _with_shared(found)
        if has_with(phrase.target) or tokens[start].word not in (",", "and", "as", "well"):
            return None  # "the man with a hat and a coat"
        while start < len(tokens) and tokens[start].word in (",", "and", "as", "well"):
            start += 1
    return None


def is_one_name(first: Phrase, second: Phrase) -> bool:
    """Whether "and" may join two words inside of one name: "the star and moon wall sticker", "a cup and saucer set"."""
    noun = second.target.noun.split()
    if second.article or second.target.quantity != 1 or len(noun) < 2:
        return False
    if noun[-1] in _COMBINATIONS:
        return True
    is_plural = first.target.noun.endswith("s") or first.target.noun == "people"
    return not is_plural and noun[-1] not in lex.SCENERY | lex.SCENE_HEADS


def _with_shared(phrases: list[Phrase]) -> list[Phrase]:
    """The objects with the owner, relation or place that one of them says for all: "the man's hat and scarf"."""
    first, last = phrases[0].target, phrases[-1].target
    if any(phrase.article for phrase in phrases[1:]):
        return phrases
    if first.relation is not None and first.relation.kind == "part" and last.relation is None:
        last = replace(last, relation=first.relation)
    elif first.relation is not None or first.place is not None:
        return phrases
    return [
        replace(phrase, target=replace(phrase.target, relation=last.relation, place=last.place))
        if (phrase.target.relation, phrase.target.place) == (None, None)
        else phrase
        for phrase in phrases
    ]


def has_with(target: Target) -> bool:
    """Whether a relation says what a target has: what follows "and" is another thing that it has."""
    relation = target.relation
    return relation is not None and (relation.kind == "with" or has_with(relation.of))


def is_tail(tokens: Tokens) -> bool:
    """Whether tokens may follow an object as a description: a preposition, a participle, a relative clause."""
    words = words_in(tokens)
    word = words[0]
    if word == ",":
        return len(words) > 1 and (is_tail(tokens[1:]) or words[1] in ("slightly", "close", "visible"))
    if word == "(":
        return ")" in words
    if word == "without" and len(words) > 1 and words[1].endswith("ing"):
        return False
    if len(words) == 1 and (word in lex.PREPOSITIONS or word in lex.OTHER_PREPOSITIONS):
        return False  # "a cat | outside"
    if word in lex.PREPOSITIONS or word in lex.LOCATED or word in _LEADS or word in lex.OTHER_PREPOSITIONS - _PARTICLES:
        return True
    if word == "so":
        return words[1:2] == ["that"]
    if words[1:2] == ["of"] and word not in _WITH_OF:
        return False  # "insted of the bus"
    return (len(word) > 4 and (word.endswith(("ing", "ed")))) or word in ("worn", "set", "hung", "seen")
