"""Referring expressions: from tokens to a `Target`. One pass from left to right, nothing is tried twice."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ...edit_plan import MAX_NESTING, Place, Quantity, Relation, SizeRank, Target
from .lexicon import (
    ADJECTIVES,
    CLOTHES,
    COLOR_MODIFIERS,
    COLORS,
    DEPICTIONS,
    DETERMINERS,
    EDIT_VERBS,
    HOLDING,
    LARGER_OF,
    LOCATED,
    MEASURES,
    MENTIONED,
    NUMBERS,
    OBJECT_COLORS,
    ORDINALS,
    PERSON_PRONOUNS,
    PERSONS,
    POSSESSIVES,
    PREPOSITIONS,
    QUANTIFIERS,
    SIDES,
    SMALLER_OF,
    STOPS,
    VAGUE_QUANTITIES,
    word_set,
)
from .places import place_at, relation_at, scene_end
from .tokens import Tokens, text_of, words_in

MAX_NOUN_WORDS = 6


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


@dataclass(slots=True)
class _Draft:
    """A target while it is read."""

    nouns: list[str] = field(default_factory=list)
    attributes: list[str] = field(default_factory=list)
    place: Place | None = None
    order: int | None = None
    order_from: Place | None = None
    size: SizeRank | None = None
    quantity: Quantity = 1
    relation: Relation | None = None
    article: str = ""
    loose: bool = False
    is_any: bool = False
    """Any one of several, which is no target that can be found."""

    def target(self) -> Target:
        return Target(
            " ".join(self.nouns),
            attributes=tuple(self.attributes),
            place=self.place,
            order=self.order if self.order_from is not None else None,
            order_from=self.order_from if self.order is not None else None,  # type: ignore[arg-type]
            size=self.size,
            quantity=self.quantity,
            relation=self.relation,
        )


def phrase_at(tokens: Tokens, start: int = 0, *, depth: int = 0) -> Phrase | None:
    """The referring expression that begins at an index; None where there is none that can be read.

    It ends before a mark, a conjunction, a verb, or a preposition that is none of a place or a relation.
    """
    if depth and start < len(tokens) and tokens[start].word in ("him", "her"):
        follows = tokens[start + 1].word if start + 1 < len(tokens) else ""
        if tokens[start].word == "him" or not follows or follows in STOPS or not follows[0].isalnum():
            return Phrase(Target("person"), start + 1, "the")
    draft = _Draft()
    index = _head(tokens, start, draft)
    if index is None:
        return None
    index = _modifiers(tokens, index, draft, depth)
    if index is None or (draft.order is not None and draft.order_from is None) or (draft.is_any and not depth):
        return None
    try:
        return Phrase(draft.target(), index, draft.article, draft.loose)
    except ValueError:  # nested too deep, or too many attributes
        return None


def whole_phrase(tokens: Tokens) -> Phrase | None:
    """The referring expression that all the tokens are."""
    phrase = phrase_at(tokens)
    return phrase if phrase is not None and phrase.end == len(tokens) else None


# -- determiners, adjectives, noun -------------------------------------------------------------------------------------


def _head(tokens: Tokens, start: int, draft: _Draft) -> int | None:
    """Read up to the end of the noun; the index after it."""
    words = words_in(tokens[start : start + 24])  # no noun phrase of ours is longer
    index = _determiner(words, draft)
    begin = index
    while index < len(words) and _continues(words, index, begin):
        index += 1
    core = words[begin:index]
    while core and core[-1] == ",":
        core, index = core[:-1], index - 1
    core = _without_located(core)
    index = begin + len(core)
    core = [word for word in core if word != ","]
    if not core or len(core) > MAX_NOUN_WORDS + 3:
        return None
    if words[index : index + 1] in (["'s"], ["'"]):
        if start + index > 1 and tokens[start + index - 1].text[:1].isupper() and core[:-1]:
            return _branded(tokens, start, index, core, draft)
        return _possessor(tokens, start, index, core, draft)
    return start + index if _fill(core, draft) else None


def _determiner(words: list[str], draft: _Draft) -> int:
    index = 0
    if words[:1] and words[0] in QUANTIFIERS:
        draft.quantity = "both" if words[0] == "both" else "all"
        index = 1
        if words[1:2] == ["of"]:
            index = 2
    elif len(words) > 3 and words[0] in NUMBERS and words[0] != "one" and words[1:3] == ["of", "the"]:
        draft.quantity, draft.article = NUMBERS[words[0]], "the"
        return 3
    elif words[:1] == ["one"] and len(words) > 1 and words[1] not in ("of", "more"):
        draft.article = "a"
        return 1
    elif words[:3] == ["one", "of", "the"]:
        draft.article, draft.is_any = "the", True
        return 3
    elif size := _rank_of_two(words):
        draft.size, draft.article = ("largest" if words[1] in LARGER_OF else "smallest"), "the"
        return size
    if words[index : index + 1] and words[index] in POSSESSIVES:
        pronoun = words[index]
        if pronoun in PERSON_PRONOUNS:
            draft.relation = Relation("part", Target(PERSON_PRONOUNS[pronoun]))
            draft.article = "the"
            index += 1
        elif pronoun == "its":
            draft.relation = Relation("part", Target("it"))
            draft.article = "the"
            index += 1
    elif words[index : index + 1] and words[index] in DETERMINERS:
        draft.article = "a" if words[index] in ("a", "an", "some", "another", "any") else "the"
        if words[index] == "another":
            draft.loose = True
        index += 1
        if words[index : index + 1] == words[index - 1 : index]:  # "the the"
            index += 1
    if words[index : index + 1] and words[index] in NUMBERS and draft.quantity != "both" and words[index] != "one":
        draft.quantity = NUMBERS[words[index]]
        index += 1
    elif words[index : index + 1] and words[index].isdecimal() and 1 < int(words[index][:4]) <= 100:
        draft.quantity = int(words[index][:4])
        index += 1
    elif words[index : index + 1] and words[index] in ORDINALS and draft.article == "the":
        draft.order = ORDINALS[words[index]]
        index += 1
    elif words[index : index + 1] and words[index] in ORDINALS and draft.article == "a":
        draft.attributes.append(words[index])  # "a second cup": another one
        index += 1
    while words[index : index + 1] and words[index] in VAGUE_QUANTITIES and index + 1 < len(words):
        draft.loose = True  # how many is open
        draft.article = draft.article or "a"
        index += 1
    return index


def _rank_of_two(words: list[str]) -> int:
    """The number of words of "the larger (one) of the two"; 0 without them."""
    if words[:1] != ["the"] or len(words) < 5 or words[1] not in LARGER_OF | SMALLER_OF:
        return 0
    start = 3 if words[2] == "one" else 2
    if words[start : start + 2] != ["of", "the"]:
        return 0
    return start + 3 if words[start + 2] in NUMBERS else start + 2


def _continues(words: list[str], index: int, begin: int) -> bool:
    """Whether the word at an index still belongs to the noun phrase."""
    word = words[index]
    if word in ("and", "&", ","):
        before, after = words[index - 1] if index > begin else "", words[index + 1] if index + 1 < len(words) else ""
        return before in ADJECTIVES and after in ADJECTIVES and index + 2 < len(words) and words[index + 2] not in STOPS
    if word in NUMBERS and index > begin and words[index - 1] != "number":
        return False  # "the cat | three times"
    if word in ("can", "cans") and index:
        return True  # "the (trash) can"
    if word in ("left", "right") and index > begin and words[index + 1 : index + 2] == ["of"]:
        return False  # "the star left of the heart"
    if word in ("right", "just") and index > begin and words[index + 1 : index + 2] in _AFTER_RIGHT:
        return False  # "the star | right behind the heart"
    if word in STOPS or not (word[0].isalnum()):
        return False
    if word in EDIT_VERBS and word in (
        "remove",
        "delete",
        "add",
        "replace",
        "insert",
        "erase",
        "extract",
        "make",
        "keep",
    ):
        return False
    return not (word.endswith("ly") and word not in _NOUNS_IN_LY)


_AFTER_RIGHT = [[word] for word in (*PREPOSITIONS, "next")]
_NOUNS_IN_LY = word_set(
    "fly butterfly family lily jelly bully holly dragonfly firefly ugly silly curly friendly elderly lovely "
    "woolly bubbly trolly belly poly wooly curly lively"
)


def _without_located(core: list[str]) -> list[str]:
    """The words up to a participle after the noun: "the person | sitting on the bench"."""
    for index, word in enumerate(core):
        if index == 0:
            continue
        is_last = index + 1 == len(core)
        if word in MENTIONED and (is_last or core[index + 1] in LOCATED):
            return core[:index]
        if is_last and word.endswith("ing") and word in LOCATED:
            return core[:index]
        if word in HOLDING or (word in LOCATED and (is_last or core[index - 1] not in ADJECTIVES)):
            return core[:index]
        if word.endswith(("ing", "ed")) and word not in ADJECTIVES and core[index - 1] not in ADJECTIVES and is_last:
            if word in _NOUNS_IN_ING:
                continue
            person = next((number for number, one in enumerate(core) if one in PERSONS), index - 1)
            return core[: person + 1]  # "a person | ice skating"
        if word in ("worn", "made", "that's", "who's", "hung"):
            return core[:index]
    return core


_NOUNS_IN_ING = word_set(
    "building painting drawing ring king string wing swing ceiling railing lighting clothing frosting icing "
    "paneling evening morning thing spring bed shed seed reed crossing awning lettering writing stocking "
    "dressing wedding pudding earring opening parking landing covering duckling sibling sling filling trailing "
    "topping setting siding flooring tubing piping lining feed weed hundred bunk-bed flowerbed"
)


def _branded(tokens: Tokens, start: int, index: int, core: list[str], draft: _Draft) -> int | None:
    """Read on after "the white Levi's": a name that belongs to the object."""
    words = words_in(tokens[start + index + 1 : start + index + 25])
    end = 0
    while end < len(words) and _continues(words, end, 0):
        end += 1
    rest = _without_located([word for word in words[:end] if word != ","])
    if not rest or "'s" in words[end : end + 1] or not all(_is_adjective(word) for word in core[:-1]):
        return None
    draft.attributes += [*core[:-1], f"{core[-1]}'s"]
    return start + index + 1 + len(rest) if _fill(rest, draft) else None


def _possessor(tokens: Tokens, start: int, index: int, core: list[str], draft: _Draft) -> int | None:
    """Read on after "the dog's": what has been read so far owns the rest."""
    owner = _Draft(quantity=draft.quantity, order=draft.order, relation=draft.relation, attributes=draft.attributes)
    if not _fill(core, owner) or owner.order is not None:
        return None
    try:
        draft.relation = Relation("part", owner.target())
    except ValueError:
        return None
    draft.quantity, draft.attributes, draft.article = 1, [], "the"
    words = words_in(tokens[start + index + 1 : start + index + 25])
    begin = 0
    if words[:1] and words[0] in NUMBERS:
        draft.quantity, begin = NUMBERS[words[0]], 1
    end = begin
    while end < len(words) and _continues(words, end, begin):
        end += 1
    rest = words[begin:end]
    while rest and rest[-1] == ",":
        rest = rest[:-1]
    rest = _without_located(rest)
    end = begin + len(rest)
    rest = [word for word in rest if word != ","]
    if words[end : end + 1] == ["'s"] or not _fill(rest, draft):
        return None
    return start + index + 1 + end


_SIDED_NAMES = frozenset(
    ("top hat", "top hats", "bottom line", "left behind", "upper body", "lower body", "middle finger", "center piece")
)


def _fill(core: list[str], draft: _Draft) -> bool:
    """Split the words before the end of the noun into place, size, attributes and noun."""
    words = list(core)
    if len(words) > 1 and words[0] in SIDES and " ".join(words[:2]) not in _SIDED_NAMES:
        side = words.pop(0)
        if draft.relation is not None or words[-1] in _OWN_SIDES:  # "his left arm" is no place in the picture
            draft.attributes.append(side)
        else:
            draft.place = SIDES[side]
            if words[0] in SIDES and len(words) > 1:
                return False  # two places: the slot has one
    while len(words) > 1:
        word = words[0]
        if word in LARGER_OF or word in SMALLER_OF:
            draft.size = "largest" if word in LARGER_OF else "smallest"
        elif len(words) > 3 and words[1] == "and" and words[2] in ADJECTIVES and word in ADJECTIVES:
            draft.attributes.append(" ".join(words[:3]))
            words = words[2:]
        elif " ".join(words[:2]) in _NAMES:
            break
        elif word in NUMBERS:
            return False  # "three of the five candles"
        elif word in VAGUE_QUANTITIES:
            draft.loose = True
        elif _is_adjective(word):
            shade = word in COLOR_MODIFIERS and len(words) > 2 and words[1] in COLORS
            draft.attributes.append(f"{word} {words[1]}" if shade else word)  # "light blue"
            words = words[1:] if shade else words
        elif word == "only":
            return False
        else:
            break
        words = words[1:]
    if len(words) == 1 and words[0] in COLORS - OBJECT_COLORS:
        return False  # "replace red with blue"
    if "last" in words or any(word.startswith("non-") and word[4:] in COLORS for word in core):
        return False
    if "and" in words or not words or words[-1] in ("one", "ones", "thing", "things", "stuff"):
        return False
    if len(words) > MAX_NOUN_WORDS or (len(words) == 1 and words[0] in _NO_NOUNS):
        return False
    draft.nouns = words
    return True


_NO_NOUNS = (
    QUANTIFIERS
    | VAGUE_QUANTITIES
    | word_set(
        "stop go left right same other rest others else hundred thousand subtle instead everything everyone "
        "everybody something someone anything nothing half most majority all none bit lot touch hint one"
    )
)
"""They are no object by themselves."""
_NAMES = frozenset(
    (
        *(
            "hot dog",
            "hot dogs",
            "hot air",
            "ice cream",
            "ice rink",
            "ice skates",
            "ice cube",
            "ice cubes",
            "light bulb",
        ),
        *("light bulbs", "high heels", "paper plane", "golden retriever", "orange juice", "green tea", "rubber duck"),
        *("red panda", "brown bear", "black bear", "blue whale", "crystal ball", "cotton candy", "tin can", "iron man"),
    )
)
"""Names that begin with an adjective."""
_OWN_SIDES = word_set(
    "arm arms hand hands leg legs foot feet eye eyes ear ears shoulder knee elbow cheek wrist ankle sleeve shoe "
    "sock glove wing paw boot thumb eyebrow hip thigh palm"
)


def _is_adjective(word: str) -> bool:
    return word in ADJECTIVES or ("-" in word and word not in SIDES and not word[0].isdigit())


# -- what follows the noun ---------------------------------------------------------------------------------------------


def _modifiers(tokens: Tokens, index: int, draft: _Draft, depth: int) -> int | None:
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


def _goes_on(tokens: Tokens, index: int, draft: _Draft) -> bool:
    """Whether another relation or place of the object follows a comma: ", next to the logo"."""
    if draft.relation is None and draft.place is None:
        return False
    found = relation_at(tokens, index)
    if found is None:
        return place_at(tokens, index) is not None
    return found[0] not in ("with", "part") and phrase_at(tokens, found[1], depth=MAX_NESTING) is not None


def _order_end(tokens: Tokens, start: int, draft: _Draft) -> int | None:
    """The index after "from the left", the origin of an order."""
    words = words_in(tokens[start : start + 3])
    if draft.order is None or words[:1] != ["from"] or len(words) < 2:
        return None
    rest = words[2:] if words[1] == "the" else words[1:]
    if not rest or SIDES.get(rest[0]) not in ("left", "right", "top", "bottom"):
        return None
    draft.order_from = SIDES[rest[0]]
    return start + (3 if words[1] == "the" else 2)


def _participle_end(tokens: Tokens, index: int, draft: _Draft) -> int | None:
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


def _relation_end(tokens: Tokens, index: int, draft: _Draft, depth: int) -> int | None:
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
    if other.target.noun in ("position", "place", "spot", "location", "pose") and "same" in other.target.attributes:
        draft.loose = True
        return other.end
    if kind == "in" and other.target.noun.split()[-1] in CLOTHES and draft.nouns[-1] in PERSONS:
        kind = "with"
    draft.relation = Relation(kind, other.target)
    draft.loose = draft.loose or loose or other.loose
    return other.end


def _measured(tokens: Tokens, index: int, draft: _Draft) -> int | None:
    """Read on after "a cup of": what is in it belongs to the name."""
    content = _Draft()
    end = _head(tokens, index + 1, content)
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
