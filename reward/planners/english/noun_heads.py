"""The head of a noun phrase: determiner, adjectives, noun, and who owns it, then places and relations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ...edit_plan import Place, Quantity, Relation, RelationKind, SizeRank, Target
from ...metrics.any_edit.instruction_words import word_set
from . import lexicon as lex
from .lexicon import phrases
from .sentences import Tokens, scene_end, word_at, words_in

MAX_NOUN_WORDS = 6
_VERBS = word_set("remove delete add replace insert erase extract make keep")
_AFTER_RIGHT = [[word] for word in (*lex.PREPOSITIONS, "next")]
_NOUNS_IN_LY = word_set(
    "fly butterfly family lily jelly bully holly dragonfly firefly ugly silly curly friendly elderly lovely "
    "woolly bubbly trolly belly poly wooly curly lively"
)
_SETS = word_set("chess tea coffee tv television drum dining train dinner tool knife swing furniture bedroom patio")
_HOW = word_set(
    "low high slow fast close alone together past far deep straight forward forwards upward upwards downward"
)
"""Adverbs after a participle."""
_NOUNS_IN_ING = word_set(
    "building painting drawing ring king string wing swing ceiling railing lighting clothing frosting icing "
    "paneling evening morning thing spring bed shed seed reed crossing awning lettering writing stocking "
    "dressing wedding pudding earring opening parking landing covering duckling sibling sling filling trailing "
    "topping setting siding flooring tubing piping lining feed weed hundred bunk-bed flowerbed"
)
_SIDED_NAMES = phrases(
    "top hat, top hats, bottom line, left behind, upper body, lower body, middle finger, center piece"
)
_WHERE = word_set("outdoors indoors outside inside upstairs downstairs nearby here there overhead away elsewhere")
"""Adverbs that say where, and are no part of a name that they follow."""
_OPEN = word_set("last fewer less everything anything something nothing except excluding besides nobody")
"""With them it is open which objects are meant."""
_NO_NOUNS = (
    lex.QUANTIFIERS
    | lex.VAGUE_QUANTITIES
    | word_set(
        "stop go left right same other rest others else hundred thousand subtle instead everything everyone "
        "everybody something someone anything nothing half most majority all none bit lot touch hint one"
    )
)
"""They are no object by themselves."""
_NAMES = phrases(
    "hot dog, hot dogs, hot air, ice cream, ice rink, ice skates, ice cube, ice cubes, light bulb, light bulbs, "
    "high heels, paper plane, golden retriever, orange juice, green tea, rubber duck, red panda, brown bear, "
    "black bear, blue whale, crystal ball, cotton candy, tin can, iron man"
)
"""Names that begin with an adjective."""
_OWN_SIDES = word_set(
    "arm arms hand hands leg legs foot feet eye eyes ear ears shoulder knee elbow cheek wrist ankle sleeve shoe "
    "sock glove wing paw boot thumb eyebrow hip thigh palm"
)
_AT_SIDES = word_set("on in at to from near towards toward onto into by across along")
_DEPTHS: Mapping[str, Place] = MappingProxyType(
    {"back": "background", "rear": "background", "front": "foreground", "forefront": "foreground"}
)
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
_PLAIN = word_set("on in above below beside behind with of near under beneath underneath at by upon into onto over")
"""Prepositions of whose words a relation's kind leaves none out."""


@dataclass(slots=True)
class Draft:
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


def head_end(tokens: Tokens, start: int, draft: Draft) -> int | None:
    """Read up to the end of the noun; the index after it."""
    words = words_in(tokens[start : start + 24])  # no noun phrase of ours is longer
    core, index = _core(words, _determiner(words, draft))
    if not core or len(core) > MAX_NOUN_WORDS + 3:
        return None
    if words[index : index + 1] in (["'s"], ["'"]):
        if start + index > 1 and tokens[start + index - 1].text[:1].isupper() and core[:-1]:
            return _branded(tokens, start, index, core, draft)
        return _possessor(tokens, start, index, core, draft)
    return start + index if _fill(core, draft) else None


def _determiner(words: list[str], draft: Draft) -> int:
    index = 0
    if words[:1] and words[0] in lex.QUANTIFIERS:
        draft.quantity = "both" if words[0] == "both" else "all"
        index = 2 if word_at(words, 1) == "of" else 1
        if words[0] in ("every", "each") and words[1:2] and words[1] in lex.ORDINALS.keys() | {"other"}:
            draft.is_any = True  # "every second tile"
    elif len(words) > 3 and words[0] in lex.NUMBERS and words[0] != "one" and words[1:3] == ["of", "the"]:
        draft.quantity, draft.article = lex.NUMBERS[words[0]], "the"
        return 3
    elif words[:1] == ["one"] and len(words) > 1 and words[1] not in ("of", "more"):
        draft.article = "a"
        return 1
    elif words[:3] == ["one", "of", "the"]:
        draft.article, draft.is_any = "the", True
        return 3
    elif size := _rank_of_two(words):
        draft.size, draft.article = ("largest" if words[1] in lex.LARGER_OF else "smallest"), "the"
        return size
    if word_at(words, index) in lex.POSSESSIVES:
        owner = "it" if words[index] == "its" else lex.PERSON_PRONOUNS.get(words[index])
        if owner is not None:
            draft.relation, draft.article = Relation("part", Target(owner)), "the"
            index += 1
    elif word_at(words, index) in lex.DETERMINERS:
        draft.article = "a" if words[index] in ("a", "an", "some", "another", "any") else "the"
        draft.loose = words[index] == "another"
        index += 1
        if words[index : index + 1] == words[index - 1 : index]:  # "the the"
            index += 1
    if word_at(words, index) in lex.NUMBERS and draft.quantity != "both" and words[index] != "one":
        draft.quantity = lex.NUMBERS[words[index]]
        index += 1
    elif words[index : index + 1] and words[index].isdecimal() and 1 < int(words[index][:4]) <= 100:
        draft.quantity = int(words[index][:4])
        index += 1
    elif word_at(words, index) in lex.ORDINALS and draft.article == "the":
        draft.order = lex.ORDINALS[words[index]]
        index += 1
    elif word_at(words, index) in lex.ORDINALS and draft.article == "a":
        draft.attributes.append(words[index])  # "a second cup": another one
        index += 1
    while word_at(words, index) in lex.VAGUE_QUANTITIES and index + 1 < len(words):
        draft.loose = True  # how many is open
        draft.article = draft.article or "a"
        index += 1
    return index


def _rank_of_two(words: list[str]) -> int:
    """The number of words of "the larger (one) of the two"; 0 without them."""
    if words[:1] != ["the"] or len(words) < 5 or words[1] not in lex.LARGER_OF | lex.SMALLER_OF:
        return 0
    start = 3 if words[2] == "one" else 2
    if words[start : start + 2] != ["of", "the"]:
        return 0
    return start + 3 if words[start + 2] in lex.NUMBERS else start + 2


def _continues(words: list[str], index: int, begin: int) -> bool:
    """Whether the word at an index still belongs to the noun phrase."""
    word = words[index]
    if word in ("and", "&", ","):
        joins = index > begin and words[index - 1] in lex.ADJECTIVES and word_at(words, index + 1) in lex.ADJECTIVES
        return joins and index + 2 < len(words) and words[index + 2] not in lex.STOPS
    if word in lex.NUMBERS and index > begin and words[index - 1] != "number":
        return False  # "the cat | three times"
    if word in ("can", "cans") and index:
        return True  # "the (trash) can"
    if word in ("left", "right") and index > begin and words[index + 1 : index + 2] == ["of"]:
        return False  # "the star left of the heart"
    if word in ("right", "just") and index > begin and words[index + 1 : index + 2] in _AFTER_RIGHT:
        return False  # "the star | right behind the heart"
    if word in lex.STOPS or word in _VERBS or not word[0].isalnum():
        return False
    return not word.endswith("ly") or word in _NOUNS_IN_LY


def _core(words: list[str], begin: int, *, is_owned: bool = False) -> tuple[list[str], int]:
    """The words from an index up to the end of the noun, without commas, and the index after them."""
    end = begin
    while end < len(words) and _continues(words, end, begin):
        end += 1
    while end > begin and words[end - 1] == ",":
        end -= 1
    core = _without_located(words[begin:end], "" if is_owned else word_at(words, end))
    return [word for word in core if word != ","], begin + len(core)


def _without_located(core: list[str], after: str = "") -> list[str]:
    """The words up to a participle after the noun: "the person | sitting on the bench". after: the next word."""
    for index, word in enumerate(core[1:], 1):
        is_last = index + 1 == len(core)
        if word == "set" and is_last and (core[index - 1] in _SETS or after not in lex.PREPOSITIONS):
            continue  # "the chess set"
        if word.endswith("ing") and not is_last and core[index + 1] in _HOW and core[index - 1] not in lex.ADJECTIVES:
            return core[:index]  # "a glider | passing low over the valley"
        if word in lex.MENTIONED and (is_last or core[index + 1] in lex.LOCATED):
            return core[:index]
        if is_last and word.endswith("ing") and word in lex.LOCATED:
            return core[:index]
        if word in lex.HOLDING or (word in lex.LOCATED and (is_last or core[index - 1] not in lex.ADJECTIVES)):
            return core[:index]
        if is_last and word.endswith(("ing", "ed")) and lex.ADJECTIVES.isdisjoint(core[index - 1 :]):
            if word in _NOUNS_IN_ING:
                continue
            person = next((number for number, one in enumerate(core) if one in lex.PERSONS), index - 1)
            return core[: person + 1]  # "a person | ice skating"
        if word in ("worn", "made", "that's", "who's", "hung"):
            return core[:index]
    return core


def _branded(tokens: Tokens, start: int, index: int, core: list[str], draft: Draft) -> int | None:
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


def _possessor(tokens: Tokens, start: int, index: int, core: list[str], draft: Draft) -> int | None:
    """Read on after "the dog's": what has been read so far owns the rest."""
    owner = Draft(quantity=draft.quantity, order=draft.order, relation=draft.relation, attributes=draft.attributes)
    if not _fill(core, owner) or owner.order is not None:
        return None
    try:
        draft.relation = Relation("part", owner.target())
    except ValueError:
        return None
    draft.quantity, draft.attributes, draft.article = 1, [], "the"
    words = words_in(tokens[start + index + 1 : start + index + 25])
    begin = 0
    if words[:1] and words[0] in lex.NUMBERS:
        draft.quantity, begin = lex.NUMBERS[words[0]], 1
    rest, end = _core(words, begin, is_owned=True)
    if not rest or words[end : end + 1] == ["'s"] or not _fill(rest, draft):
        return None
    return start + index + 1 + end


def _fill(core: list[str], draft: Draft) -> bool:
    """Split the words before the end of the noun into place, size, attributes and noun."""
    words = list(core)
    if len(words) > 1 and words[0] in lex.SIDES and tuple(words[:2]) not in _SIDED_NAMES:
        side = words.pop(0)
        if draft.relation is not None or words[-1] in _OWN_SIDES:  # "his left arm" is no place in the picture
            draft.attributes.append(side)
        else:
            draft.place = lex.SIDES[side]
            if words[0] == "side" and len(words) > 1:
                words.pop(0)  # "the right side snowman"
            if words[0] in lex.SIDES and len(words) > 1:
                return False  # two places: the slot has one
    while len(words) > 1:
        word = words[0]
        if word in lex.LARGER_OF or word in lex.SMALLER_OF:
            draft.size = "largest" if word in lex.LARGER_OF else "smallest"
        elif len(words) > 3 and words[1] == "and" and words[2] in lex.ADJECTIVES and word in lex.ADJECTIVES:
            draft.attributes.append(" ".join(words[:3]))
            words = words[2:]
        elif tuple(words[:2]) in _NAMES:
            break
        elif word in lex.NUMBERS:
            return False  # "three of the five candles"
        elif word in lex.VAGUE_QUANTITIES:
            draft.loose = True
        elif _is_adjective(word):
            shade = word in lex.COLOR_MODIFIERS and len(words) > 2 and words[1] in lex.COLORS
            draft.attributes.append(f"{word} {words[1]}" if shade else word)  # "light blue"
            words = words[1:] if shade else words
        elif word == "only":
            return False
        else:
            break
        words = words[1:]
    if len(words) == 1 and words[0] in lex.COLORS - lex.OBJECT_COLORS:
        return False  # "replace red with blue"
    is_other_color = any(word.startswith("non-") and word[4:] in lex.COLORS for word in core)
    if core[-1] in _WHERE or _OPEN & set(core) or is_other_color:
        return False
    if "and" in words or not words or words[-1] in ("one", "ones", "thing", "things", "stuff"):
        return False
    draft.nouns = words
    return len(words) <= MAX_NOUN_WORDS and not (len(words) == 1 and words[0] in _NO_NOUNS)


def _is_adjective(word: str) -> bool:
    return word in lex.ADJECTIVES or ("-" in word and word not in lex.SIDES and not word[0].isdigit())


def place_at(tokens: Tokens, start: int) -> tuple[Place, int, bool] | None:
    """A place in the picture, as in "on the left (side (of the image))": the place, the index after it, and whether two
    places were named. None for the side of an object, and without a place.
    """
    side = _side_at(tokens, start) or _depth_at(tokens, start)
    if side is None:
        return None
    place, index, both = side
    both = both or tokens[start].word in ("near", "close", "toward", "towards", "by")
    if index < len(tokens) and tokens[index].word == "of":
        end = scene_end(tokens, index)
        return None if end is None else (place, end, both)
    return place, index, both


def _side_at(tokens: Tokens, start: int) -> tuple[Place, int, bool] | None:
    """A side: place, index after it, whether two places were named."""
    words = words_in(tokens[start : start + 8])
    index = 1 if word_at(words, 0) in lex.MENTIONED | lex.LOCATED else 0
    index += words[index : index + 2] == ["close", "to"]
    if word_at(words, index) not in _AT_SIDES:
        return None
    index += 1
    has_article = word_at(words, index) == "the"
    index += has_article
    index += word_at(words, index) in ("far", "very", "extreme", "immediate")
    if index >= len(words):
        return None
    names = words[index].split("-") if words[index] not in lex.SIDES else [words[index]]
    if not all(name in lex.SIDES for name in names):
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
    has_noun = word_at(words, index) in lex.SIDE_NOUNS
    if has_noun:
        index += 1
        if words[index : index + 1] == ["side"]:
            index += 1
    after = word_at(words, index)
    if not has_noun and after[:1].isalnum() and after not in lex.STOPS | lex.LOCATED | lex.HOLDING | {"next"}:
        return None  # "in the left hand", "on the bottom shelf"
    return place, start + index, both


def _depth_at(tokens: Tokens, start: int) -> tuple[Place, int, bool] | None:
    """`in the back (of the photo)`, `at the front`, `in the back left corner`, as `_side_at` gives sides."""
    words = words_in(tokens[start : start + 8])
    index = 1 if words[:1] and words[0] in lex.MENTIONED | lex.LOCATED else 0
    if words[index : index + 1] not in (["in"], ["at"], ["from"], ["to"], ["toward"], ["towards"]):
        return None
    has_article = words[index + 1 : index + 2] == ["the"]
    if not has_article and words[index] != "in" and words[index + 2 : index + 3] != ["of"]:
        return None  # "from front to back"
    index += 2 if has_article else 1
    index += word_at(words, index) in ("far", "very", "extreme")
    if word_at(words, index) not in _DEPTHS:
        return None
    place, index, both = _DEPTHS[words[index]], index + 1, False
    if words[index : index + 1] in (["left"], ["right"]):
        place, index, both = lex.SIDES[words[index]], index + 1, True
    index += word_at(words, index) in lex.SIDE_NOUNS
    if words[index:] and words[index] not in lex.STOPS | lex.LOCATED | lex.HOLDING and words[index][0].isalnum():
        return None  # "at the front door"
    if word_at(words, index) == "and" and word_at(words, index + 1) in {*_DEPTHS, *lex.SIDES}:
        return None  # "in the front and middle ground"
    return place, start + index, both


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
        place, index, both = side
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
