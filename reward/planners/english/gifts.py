"""What an object is given: something to wear or hold, a feature, a look, an expression."""

from __future__ import annotations

from dataclasses import replace

from ...edit_plan import Relation, Target
from .lexicon import (
    ACTIONS,
    ARTICLES,
    BODY_PARTS,
    COLOR_MODIFIERS,
    COLORS,
    DETERMINERS,
    LOCATED,
    NUMBERS,
    OTHER_PREPOSITIONS,
    PERSONS,
    PREPOSITIONS,
    STOPS,
    word_set,
)
from .noun_phrases import Phrase, phrase_at, whole_phrase, with_pronoun_resolved
from .request import Operations, Request
from .tokens import Tokens, text_of, words_in
from .values import color_value, head_of, is_description, is_praise, material_value, plain_text


def give(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`give the man a hat`, `give a hat to the man`."""
    words = words_in(tokens)
    if not words:
        return None
    if words[0] in ("him", "her", "them", "it") and len(words) > 1:
        boundary = 1
    else:
        boundary = second_object(tokens) or 0
        if not boundary:
            for index, word in enumerate(words):
                if word == "to" and index > 1 and request.target(tokens[index + 1 :]) is not None:
                    return added_to(tokens[:index], tokens[index + 1 :], request)
            return None
    return added_to(tokens[boundary:], tokens[:boundary], request)


def second_object(tokens: Tokens) -> int | None:
    """The index where a second object begins, as in "the man | a hat" or "the man | glasses"."""
    words = words_in(tokens)
    phrase = phrase_at(tokens)
    if phrase is not None and words[phrase.end : phrase.end + 1] in (["a"], ["an"]):
        return phrase.end
    for index in range(2, len(words)):
        word, before = words[index], words[index - 1]
        if word == "to":
            return None
        if word in ("a", "an", "some", "another", *NUMBERS) and may_precede_object(before):
            return index
        is_noun = word[0].isalnum() and word not in STOPS | LOCATED and not word.endswith("ing")
        if before in PERSONS and is_noun:
            return index
    return None


def may_precede_object(word: str) -> bool:
    """Whether a word may end an object, so that another one begins after it."""
    return not (
        word in PREPOSITIONS
        or word in OTHER_PREPOSITIONS
        or word in DETERMINERS
        or word in ("and", ",", "'s", "be", "it's")
        or word
        in (
            "wearing",
            "holding",
            "carrying",
            "having",
            "like",
            "such",
            "riding",
            "eating",
            "playing",
            "wear",
            "hold",
            "have",
            "all",
            "both",
            "than",
            "is",
        )
    )


def added_to(new: Tokens, owner: Tokens, request: Request) -> Operations | None:
    """Something new, a look or an expression, given to an owner."""
    words = words_in(new)
    head = head_of(words)
    if head in ("tone", "tint", "hue", "cast", "filter") and request.is_scene(owner):
        return request.operation("filter", value=plain_text(new)) if is_description(new, 8) else None
    if head in _LOOKS_OF_OBJECTS and not request.is_scene(owner):
        given = request.target(owner)
        return None if given is None else look_given(given, new, request)
    if head in (
        "look",
        "style",
        "appearance",
        "finish",
        "feel",
        "aesthetic",
        "vibe",
        "theme",
        "atmosphere",
        "makeover",
    ):
        if request.is_scene(owner):
            is_look = is_description(new, 14) and not is_praise(words)
            return request.operation("style", value=plain_text(new)) if is_look else None
        target = request.target(owner)
        if target is None or not is_description(new, 14) or head in ("atmosphere", "vibe", "theme", "feel"):
            return None
        return look_given(target, new, request)
    if request.is_scene(owner) or words_in(owner) == ["it"]:
        return None
    several = _each_added(new, owner, request)
    if several is not None:
        return several
    target = request.target(owner)
    phrase = phrase_at(new)
    if phrase is not None and target is not None:
        phrase = with_pronoun_resolved(phrase, target.target)  # "a ball in its mouth"
    if words[0] in ("less", "more"):
        owned = request.target(owner)
        is_clear = owned is not None and is_description(new, 6)
        return request.operation("attribute", target=owned.target, value=text_of(new)) if owned and is_clear else None
    if words_in(owner) == ["them"] and target is None and phrase is not None and phrase.end == len(new):
        if phrase.article == "the" or head in ("smile", "frown", "grin", "expression", "haircut", "hairstyle", "pose"):
            return None
        return request.operation("subject_add", new=phrase.target, loose=True)
    if target is None or phrase is None or phrase.article == "the":
        return None
    rest = new[phrase.end :]
    if words_in(rest) in (["to", "wear"], ["to", "hold"]):
        rest = []
    if (
        rest
        or (phrase.target.noun == "coat" and phrase.target.relation is not None)
        or phrase.target.noun in _NOT_GIVEN
    ):
        return None
    if head in ("light", "lighting"):
        return request.operation("light", target=target.target, value=phrase.target.phrase)
    is_described = phrase.target.attributes or (
        head in _FEATURES and not phrase.article and len(phrase.target.noun.split()) > 1  # "auburn hair"
    )
    if head in _FEATURES | BODY_PARTS and is_described and phrase.target.relation is None:
        return _feature_given(target, phrase.target, request)
    if head in ("smile", "frown", "grin", "expression"):
        return request.operation("expression", target=target.target, value=phrase.target.phrase)
    if head in ("haircut", "hairstyle", "tone", "complexion", "pose"):
        return request.operation("attribute", target=target.target, value=phrase.target.phrase)
    added = phrase.target
    loose = phrase.loose or target.loose
    if added.relation is None and target.target.nesting < 3:
        added = replace(added, relation=Relation("on", target.target))
    else:
        loose = True
    return request.operation("subject_add", new=added, loose=loose)


def _each_added(new: Tokens, owner: Tokens, request: Request) -> Operations | None:
    """`(give the man) a hat and a scarf`; None for one thing."""
    for index in range(1, len(new) - 1):
        one, other = new[:index], new[index + 1 :]
        if new[index].word == "and" and whole_phrase(one) is not None and whole_phrase(other) is not None:
            if len(other) == 1 and other[0].word in ACTIONS:
                return None  # "wear hats and swim"
            first, second = added_to(one, owner, request), added_to(other, owner, request)
            return None if first is None or second is None else [*first, *second]
    return None


_NOT_GIVEN = word_set(
    "break bath walk lift home chance name call hug kiss ride try hand raise tone skin water food medicine "
    "money time "
    "space attention love credit advice help"
)
_FEATURES = word_set("hair eyes lips skin nails fur ears nose eyebrows eyelashes")
"""Parts that it has already."""


def _feature_given(owner: Phrase, feature: Target, request: Request) -> Operations | None:
    """`(give her) blue eyes` is another colour of hers, `long hair` a property."""
    color = feature.attributes[0] if feature.attributes else ""
    if len(feature.attributes) == 1 and set(color.split()) <= COLORS | COLOR_MODIFIERS and owner.target.nesting < 3:
        part = Target(feature.noun, relation=Relation("part", owner.target))
        return request.operation("color_alter", target=part, value=color, loose=owner.loose)
    return request.operation("attribute", target=owner.target, value=feature.phrase)


_LOOKS_OF_OBJECTS = word_set("texture finish material color colour tint hue shade pattern print surface shape")


def look_given(target: Phrase, new: Tokens, request: Request) -> Operations | None:
    """A colour, a material or another look of an object: "a wood texture", "a glossy finish", "a red tint"."""
    if not is_description(new, 14) or target.article == "a":
        return None
    words = words_in(new)
    of = next((index for index, word in enumerate(words) if word == "of" and index), 0)
    core = new[of + 1 :] if of else new[1 if words[0] in ARTICLES else 0 : -1]
    color, material = color_value(new), material_value(core)
    if color is not None and "finish" not in words:
        return request.operation("color_alter", target=target.target, value=color, loose=target.loose)
    if material is not None or words[-1] in ("texture", "material"):
        value = material if material is not None else plain_text(new)
        return request.operation("material_alter", target=target.target, value=value, loose=target.loose)
    return request.operation("attribute", target=target.target, value=plain_text(new))


def dress(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`dress the man in a suit`."""
    for index, token in enumerate(tokens):
        if token.word in ("in", "with") and index:
            words = words_in(tokens[index + 1 :])
            if not words or words[0] not in ("a", "an", "some") or head_of(words) in ("style",):
                return None
            return added_to(tokens[index + 1 :], tokens[:index], request)
    return None


def cover(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`cover the ground with snow`."""
    for index in range(len(tokens) - 1, 0, -1):
        if tokens[index].word in ("in", "with"):
            target = request.target(tokens[:index])
            if target is None or not is_description(tokens[index + 1 :], 6) or verb == "surround":
                return None
            participle = {"cover": "covered", "wrap": "wrapped", "fill": "filled", "decorate": "decorated"}[verb]
            return request.operation("attribute", target=target.target, value=f"{participle} {text_of(tokens[index:])}")
    return None
