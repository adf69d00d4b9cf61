"""A clause while it is read, and the objects that it names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ...edit_plan import OperationType, PlannedOperation, Target
from ...metrics.any_edit.plan_questions import own_questions
from ...sample import TASK_TYPES
from .clauses import is_scene
from .lexicon import LOCATED, OTHER_PREPOSITIONS, PERSON_PRONOUNS, PERSONS, PREPOSITIONS, SCENE_HEADS, SCENERY, word_set
from .noun_phrases import Phrase, phrase_at, whole_phrase, with_pronoun_resolved
from .tokens import Tokens, words_in

Operations = list[PlannedOperation]


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

    def target(self, tokens: Tokens) -> Phrase | None:
        """The object that all the tokens name; pronouns stand for what was named before."""
        words = words_in(tokens)
        if len(words) == 1 and words[0] in ("it", "them", "they", "him", "her", "he", "she", "his", "their"):
            noun = PERSON_PRONOUNS.get(words[0])
            if self.antecedent is not None and (noun is None or self.antecedent.noun.split()[-1] in PERSONS):
                return Phrase(self.antecedent, 1, "the", pronoun=words[0])
            return None if noun is None else Phrase(Target(noun), 1, "the", pronoun=words[0])
        phrase = whole_phrase(tokens)
        return None if phrase is None else with_pronoun_resolved(phrase, self.antecedent)

    def is_unnamed(self, phrase: Phrase) -> bool:
        """Whether a phrase is "it" or "them", and nothing was named before; "him" and "her" are persons."""
        return phrase.pronoun in ("it", "them", "they") and self.antecedent is None

    def is_scene(self, tokens: Tokens) -> bool:
        """Whether tokens name the whole picture; "it" does where nothing was named before."""
        return is_scene(tokens) or (words_in(tokens) in (["it"], ["this"]) and self.antecedent is None)


_LETTERS = word_set("text words letters lettering writing caption font subtitle subtitles title headline slogan")
_LOOKS: frozenset[OperationType] = frozenset(("color_alter", "material_alter", "resize", "attribute"))
"""Of letters they are a style of text."""
_OF_PICTURES: frozenset[OperationType] = frozenset(
    ("light", "filter", "restoration", "rotate", "crop", "zoom", "camera")
)


def objects_of(tokens: Tokens, request: Request) -> list[Phrase] | None:
    """One or several objects joined by "and" or commas, which are all the tokens; None where one cannot be read."""
    single = request.target(tokens) if tokens else None
    if single is not None:
        return [single]
    found: list[Phrase] = []
    start = 1 if words_in(tokens[:1]) == ["both"] and "and" in words_in(tokens) else 0  # "both the bike and the car"
    while start < len(tokens):
        phrase = phrase_at(tokens, start)
        if phrase is None:
            return None
        resolved = with_pronoun_resolved(phrase, request.antecedent)
        if resolved is None:
            return None
        if found and is_one_name(found[-1], phrase):
            return None
        if found and tokens[start - 1].word == "," and phrase.end == len(tokens) and not phrase.article:
            return None  # "remove the boats, owners demand"
        found.append(resolved)
        start = phrase.end
        if start == len(tokens):
            return _with_shared(found)
        if has_with(phrase.target):
            return None  # "the man with a hat and a coat"
        separators = 0
        while start < len(tokens) and tokens[start].word in (",", "and", "as", "well"):
            start += 1
            separators += 1
        if not separators:
            return None
    return None


def is_one_name(first: Phrase, second: Phrase) -> bool:
    """Whether "and" may join two words inside of one name: "the star and moon wall sticker", "a cup and saucer set"."""
    noun = second.target.noun.split()
    if second.article or second.target.quantity != 1 or len(noun) < 2:
        return False
    if noun[-1] in _COMBINATIONS:
        return True
    is_plural = first.target.noun.endswith("s") or first.target.noun == "people"
    return not is_plural and noun[-1] not in SCENERY | SCENE_HEADS


_COMBINATIONS = word_set("combination combo set pair duo mix")


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
        return (len(words) > 1 and is_tail(tokens[1:])) or (
            len(words) > 1 and words[1] in ("slightly", "close", "visible")
        )
    if word in ("(",):
        return ")" in words
    if word == "without" and len(words) > 1 and words[1].endswith("ing"):
        return False
    if len(words) == 1 and (word in PREPOSITIONS or word in OTHER_PREPOSITIONS):
        return False  # "a cat | outside"
    if word in PREPOSITIONS or word in LOCATED or word in ("next", "close", "so", "that", "which", "who", "slightly"):
        return word != "so" or words[1:2] == ["that"]
    if word in OTHER_PREPOSITIONS - {"off", "out", "up", "down", "past"}:
        return True
    if word == "to":
        return True
    if words[1:2] == ["of"] and word not in _WITH_OF:
        return False  # "insted of the bus"
    return (len(word) > 4 and (word.endswith(("ing", "ed")))) or word in ("worn", "set", "hung", "seen")


_WITH_OF = word_set("consisting composed reminiscent dreaming thinking smelling formed")
