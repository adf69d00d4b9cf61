"""What is added to the picture or given to an object, and texts that are written."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from ...edit_plan import OperationType, Relation, Target
from ...sample import Position
from .changes import aspect_of, change_of
from .destinations import SIDE_POSITIONS, destination_of
from .gifts import look_given
from .lexicon import (
    ACTIONS,
    ARTICLES,
    BACKGROUND_NOUNS,
    SCENES,
    VERBS,
    word_set,
)
from .moves import move
from .noun_phrases import Phrase, phrase_at, with_pronoun_resolved
from .replacements import changed
from .request import Operations, Request, has_with, is_one_name, is_tail
from .texts import text_added
from .tokens import Token, Tokens, words_in
from .values import is_description

_NOT_ADDED = word_set(
    "color colour colors contrast brightness saturation detail details depth texture warmth theme atmosphere "
    "mood feel vibe touch style look effects drama realism background backdrop smile frown sunset "
    "sunrise night light elements element text word words caption title slogan sense ambiance ambience "
    "space more something anything numbers person's noise sharpness salt sugar butter milk eggs egg garlic "
    "onion onions pepper oil vinegar"
)


_WEATHER_ADDED = word_set("snow rain fog mist snowfall storm thunderstorm lightning")


_PARTICLES = word_set("confetti bubbles sparkles snowflakes raindrops dust smoke steam embers sparks fireflies petals")


_PICTURES = word_set(
    "fresco painting poster mural board moodboard illustration drawing sketch logo artwork collage portrait cartoon "
    "comic banner wallpaper flyer icon cover watercolor render rendering"
)
"""What is created is a new picture."""


_FILTERS = word_set("grain filter tint vignette overlay blur")


_EFFECTS = word_set("glow flare bokeh haze shadow shadows reflection reflections")


def add(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`add a hat to the dog`, `put a cup on the table`."""
    if any(token.is_quote for token in tokens):
        return text_added(tokens, request)
    if tokens and tokens[0].word in ("it", "them") and verb in VERBS["put"]:
        return move(verb, tokens, request)
    phrase = phrase_at(tokens)
    if phrase is None:
        return None
    is_nowhere = phrase.end == len(tokens) and (phrase.target.relation, phrase.target.place) == (None, None)
    if is_nowhere and verb in ("draw", "create", "generate") and request.is_alone and not request.in_scene:
        return None  # a new picture
    nouns = phrase.target.noun.split(" of ")[0].split()
    is_on = phrase.target.relation is not None and phrase.target.relation.kind == "on"
    if nouns[-1] in _PICTURES and (verb in ("create", "generate") or (verb == "draw" and not is_on)):
        return None
    if is_nowhere and verb in VERBS["put"] and not request.in_scene and tokens[-1].word not in SCENES:
        return None  # "place bets"
    if verb == "set" and words_in(tokens[-2:]) == ["on", "fire"]:
        burnt = request.target(tokens[:-2])
        return None if burnt is None else request.operation("attribute", target=burnt.target, value="on fire")
    if verb == "set" and phrase.article == "the" and (change := change_of(tokens)) is not None:
        is_aspect = aspect_of(change.old) is not None or phrase.target.noun in BACKGROUND_NOUNS
        return changed(change, request, verb) if is_aspect else None
    if phrase.article == "the" and verb in ("put", "place", "position", "set", "arrange", "hang", "lay", "stick"):
        return move(verb, tokens, request)
    resolved = with_pronoun_resolved(phrase, request.antecedent)
    if resolved is None:
        return None
    rest = tokens[phrase.end :]
    if rest and rest[0].word == "and" and has_with(phrase.target):
        if len(rest) < 2 or rest[1].word in ARTICLES or not is_description(rest):
            return None
        return _added(replace(resolved, loose=True), [], request)
    if [token.word for token in rest[:2]] == ["and", "the"]:  # "next to the woman and the dog"
        is_related = (phrase.target.relation, phrase.target.place) != (None, None)
        return _added(replace(resolved, loose=True), [], request) if is_related and is_description(rest, 8) else None
    if rest and rest[0].word == "and" and len(rest) > 1:
        is_bare = (resolved.target.relation, resolved.target.place) == (None, None)
        following = phrase_at(rest, 1)
        if following is not None and is_one_name(resolved, following):
            return None
        second = add(verb, rest[1:], request)
        if is_bare and following is not None and following.target.relation is not None:
            is_bare = following.target.relation.kind == "part"
            shared = None if is_bare else following.target.relation  # "a cat and a dog on the couch"
            resolved = replace(resolved, target=replace(resolved.target, relation=shared))
        first = _added(resolved, [], request)
        return None if first is None or second is None or len(second) > 3 else [*first, *second]
    return _added(resolved, rest, request)


def _added(phrase: Phrase, rest: Tokens, request: Request) -> Operations | None:
    new, loose = phrase.target, phrase.loose
    head = new.noun.split()[0] if " of " in new.noun else new.noun.split()[-1]
    is_picture = new.noun.split()[0] in SCENES and not (new.noun in SCENES and new.relation is not None)
    if is_picture or (new.relation is not None and new.relation.kind == "part" and head in BACKGROUND_NOUNS):
        return None
    if head in ("texture", "pattern", "finish", "print") and (new.relation is not None or rest):
        owner = Phrase(new.relation.of, 0) if new.relation is not None else request.target(rest[1:])
        plain = [Token(word, word) for word in new.phrase.split()]
        is_clear = not rest or (rest[0].word == "to" and new.relation is None)
        return look_given(owner, plain, request) if owner is not None and is_clear else None
    if head in ("smile", "frown", "grin") and (new.relation is not None or rest):
        named = None if new.relation is not None else request.target(rest[1:])
        face = new.relation.of if new.relation is not None else named.target if named is not None else None
        if face is None or (rest and rest[0].word != "to"):
            return None
        person = face.relation.of if face.noun == "face" and face.relation is not None else face
        return request.operation("expression", target=person, value=head)
    if head in _NOT_ADDED and not (head == "light" and phrase.article == "a" and new.relation is not None):
        return None
    reference = None
    position: Position | None = None
    if new.relation is not None and new.relation.kind in SIDE_POSITIONS:
        position, reference = cast(Position, new.relation.kind), new.relation.of
        new = replace(new, relation=None)
    if rest:
        is_purpose = len(rest) > 1 and rest[0].word == "to" and rest[1].word in ACTIONS  # "a dog to play with the cat"
        ending = None if is_purpose else destination_of(rest, request)
        if ending is not None:
            kind, other, end_loose = ending
            loose = loose or end_loose
            if kind in SIDE_POSITIONS and position is None and other is not None:
                position, reference = cast(Position, kind), other
            elif other is not None and rest[0].word in ("around", "for", "between", "from"):
                loose = True
            elif other is not None and new.relation is None:
                new = replace(new, relation=Relation("on", other)) if other.nesting < 3 else new
                loose = loose or other.nesting >= 3
            else:
                loose = True
        elif is_tail(rest) and is_description(rest):
            loose = True
        else:
            return None
    if head == "lighting" and reference is None and new.relation is None:
        return request.operation("light", value=new.phrase)
    if head == "effect" and reference is None:
        return _effect_added(new, request)
    if head in _WEATHER_ADDED and reference is None and not (head == "snow" and new.relation is not None):
        return request.operation("weather", value=new.phrase)
    if head in ("sunlight", "sunshine", "daylight", "moonlight", "backlight"):
        return request.operation("light", value=new.phrase)
    if head in _FILTERS:
        return request.operation("filter", value=new.phrase)
    if head in _EFFECTS:
        return request.operation("effect_add", value=new.phrase)
    if head in _PARTICLES:
        return request.operation("particles_add", value=new.phrase, new=new)
    return request.operation("subject_add", new=new, position=position, reference=reference, loose=loose)


def _effect_added(new: Target, request: Request) -> Operations | None:
    """`(add) a blur effect`, `a rain effect`: a filter, weather or particles."""
    words = new.phrase.split()[:-1]
    target = None if new.relation is None else new.relation.of
    for kind, names in _KINDS_OF_EFFECTS:
        if words[-1:] and words[-1] in names:
            return request.operation(kind, value=" ".join(words), target=target)
    return None


_KINDS_OF_EFFECTS: tuple[tuple[OperationType, frozenset[str]], ...] = (
    ("filter", word_set("blur sepia vintage grayscale monochrome vignette film grain noir")),
    ("weather", _WEATHER_ADDED),
    ("particles_add", _PARTICLES),
    ("effect_add", _EFFECTS),
)
