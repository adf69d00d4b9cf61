"""What is added to the picture or given to an object: to wear or hold, a feature, a look, an expression."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from ...edit_plan import OperationType, Relation, Target
from ...metrics.any_edit.instruction_words import word_set
from ...sample import Position
from . import lexicon as lex
from .moves import move
from .noun_phrases import (
    Operations,
    Phrase,
    Request,
    has_with,
    is_one_name,
    is_tail,
    joined,
    phrase_at,
    whole_phrase,
    with_pronoun_resolved,
)
from .replacements import changed
from .sentences import Token, Tokens, first_at, text_of, words_in
from .texts import SIDE_POSITIONS, destination_of, text_added
from .values import aspect_of, change_of, color_value, head_of, is_description, is_praise, material_value, plain_text

_NOT_ADDED = word_set(
    "color colour colors contrast brightness saturation detail details depth texture warmth theme atmosphere mood feel "
    "vibe touch style look effects drama realism background backdrop smile frown sunset sunrise night light elements "
    "element text word words caption title slogan sense ambiance ambience space more something anything numbers "
    "person's noise sharpness salt sugar butter milk eggs egg garlic onion onions pepper oil vinegar"
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
_KINDS_OF_EFFECTS: tuple[tuple[OperationType, frozenset[str]], ...] = (
    ("filter", word_set("blur sepia vintage grayscale monochrome vignette film grain noir")),
    ("weather", _WEATHER_ADDED),
    ("particles_add", _PARTICLES),
    ("effect_add", _EFFECTS),
)
_INSIDE = word_set(
    "and , 's be it's wearing holding carrying having like such riding eating playing wear hold have all both than is"
)
_LOOKS = word_set("look style appearance finish feel aesthetic vibe theme atmosphere makeover")
_NOT_GIVEN = word_set(
    "break bath walk lift home chance name call hug kiss ride try hand raise tone skin water food medicine money time "
    "space attention love credit advice help"
)
_FEATURES = word_set("hair eyes lips skin nails fur ears nose eyebrows eyelashes")  # parts that it has already
_LOOKS_OF_OBJECTS = word_set("texture finish material color colour tint hue shade pattern print surface shape")


def add(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`add a hat to the dog`, `put a cup on the table`."""
    if any(token.is_quote for token in tokens):
        return text_added(tokens, request)
    if tokens and tokens[0].word in ("it", "them") and verb in lex.VERBS["put"]:
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
    if is_nowhere and verb in lex.VERBS["put"] and not request.in_scene and tokens[-1].word not in lex.SCENES:
        return None  # "place bets"
    if verb == "set" and words_in(tokens[-2:]) == ["on", "fire"]:
        return request.on(request.target(tokens[:-2]), "attribute", value="on fire")
    if verb == "set" and phrase.article == "the" and (change := change_of(tokens)) is not None:
        is_aspect = aspect_of(change.old) is not None or phrase.target.noun in lex.BACKGROUND_NOUNS
        return changed(change, request, verb) if is_aspect else None
    if phrase.article == "the" and verb in ("put", "place", "position", "set", "arrange", "hang", "lay", "stick"):
        return move(verb, tokens, request)
    resolved = with_pronoun_resolved(phrase, request.antecedent)
    if resolved is None:
        return None
    rest = tokens[phrase.end :]
    if rest and rest[0].word == "and" and has_with(phrase.target):
        if len(rest) < 2 or rest[1].word in lex.ARTICLES or not is_description(rest):
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
        return joined((_added(resolved, [], request), None if second is None or len(second) > 3 else second))
    return _added(resolved, rest, request)


def _added(phrase: Phrase, rest: Tokens, request: Request) -> Operations | None:
    new, loose = phrase.target, phrase.loose
    head = new.noun.split()[0] if " of " in new.noun else new.noun.split()[-1]
    is_picture = new.noun.split()[0] in lex.SCENES and not (new.noun in lex.SCENES and new.relation is not None)
    if is_picture or (new.relation is not None and new.relation.kind == "part" and head in lex.BACKGROUND_NOUNS):
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
        # "a dog to play with the cat"
        is_purpose = len(rest) > 1 and rest[0].word == "to" and rest[1].word in lex.ACTIONS
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


def give(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`give the man a hat`, `give a hat to the man`."""
    words = words_in(tokens)
    if not words:
        return None
    boundary = 1 if words[0] in ("him", "her", "them", "it") and len(words) > 1 else second_object(tokens)
    if boundary is not None:
        return added_to(tokens[boundary:], tokens[:boundary], request)
    for index, word in enumerate(words):
        if word == "to" and index > 1 and request.target(tokens[index + 1 :]) is not None:
            return added_to(tokens[:index], tokens[index + 1 :], request)
    return None


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
        if word in ("a", "an", "some", "another", *lex.NUMBERS) and may_precede_object(before):
            return index
        is_noun = word[0].isalnum() and word not in lex.STOPS | lex.LOCATED and not word.endswith("ing")
        if before in lex.PERSONS and is_noun:
            return index
    return None


def may_precede_object(word: str) -> bool:
    """Whether a word may end an object, so that another one begins after it."""
    return not (
        word in lex.PREPOSITIONS or word in lex.OTHER_PREPOSITIONS or word in lex.DETERMINERS or word in _INSIDE
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
    if head in _LOOKS:
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
        return request.on(target if is_description(new, 6) else None, "attribute", value=text_of(new))
    if words_in(owner) == ["them"] and target is None and phrase is not None and phrase.end == len(new):
        if phrase.article == "the" or head in ("smile", "frown", "grin", "expression", "haircut", "hairstyle", "pose"):
            return None
        return request.operation("subject_add", new=phrase.target, loose=True)
    if target is None or phrase is None or phrase.article == "the":
        return None
    is_coat = phrase.target.noun == "coat" and phrase.target.relation is not None
    has_rest = words_in(new[phrase.end :]) not in ([], ["to", "wear"], ["to", "hold"])
    if has_rest or is_coat or phrase.target.noun in _NOT_GIVEN:
        return None
    if head in ("light", "lighting"):
        return request.operation("light", target=target.target, value=phrase.target.phrase)
    is_described = phrase.target.attributes or (
        head in _FEATURES and not phrase.article and len(phrase.target.noun.split()) > 1  # "auburn hair"
    )
    if head in _FEATURES | lex.BODY_PARTS and is_described and phrase.target.relation is None:
        color = phrase.target.attributes[0] if len(phrase.target.attributes) == 1 else "several"
        if set(color.split()) <= lex.COLORS | lex.COLOR_MODIFIERS and target.target.nesting < 3:
            part = Target(phrase.target.noun, relation=Relation("part", target.target))
            return request.operation("color_alter", target=part, value=color, loose=target.loose)
        return request.operation("attribute", target=target.target, value=phrase.target.phrase)
    if head in ("smile", "frown", "grin", "expression"):
        return request.on(target, "expression", value=phrase.target.phrase)
    if head in ("haircut", "hairstyle", "tone", "complexion", "pose"):
        return request.on(target, "attribute", value=phrase.target.phrase)
    if phrase.target.relation is not None or target.target.nesting >= 3:
        return request.operation("subject_add", new=phrase.target, loose=True)
    added = replace(phrase.target, relation=Relation("on", target.target))
    return request.operation("subject_add", new=added, loose=phrase.loose or target.loose)


def _each_added(new: Tokens, owner: Tokens, request: Request) -> Operations | None:
    """`(give the man) a hat and a scarf`; None for one thing."""
    for index in range(1, len(new) - 1):
        one, other = new[:index], new[index + 1 :]
        if new[index].word == "and" and whole_phrase(one) is not None and whole_phrase(other) is not None:
            if len(other) == 1 and other[0].word in lex.ACTIONS:
                return None  # "wear hats and swim"
            return joined(added_to(part, owner, request) for part in (one, other))
    return None


def look_given(target: Phrase, new: Tokens, request: Request) -> Operations | None:
    """A colour, a material or another look of an object: "a wood texture", "a glossy finish", "a red tint"."""
    if not is_description(new, 14) or target.article == "a":
        return None
    words = words_in(new)
    of = next((index for index, word in enumerate(words) if word == "of" and index), 0)
    core = new[of + 1 :] if of else new[1 if words[0] in lex.ARTICLES else 0 : -1]
    color, material = color_value(new), material_value(core)
    if color is not None and "finish" not in words:
        return request.operation("color_alter", target=target.target, value=color, loose=target.loose)
    if material is not None or words[-1] in ("texture", "material"):
        value = material if material is not None else plain_text(new)
        return request.operation("material_alter", target=target.target, value=value, loose=target.loose)
    return request.operation("attribute", target=target.target, value=plain_text(new))


def dress(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`dress the man in a suit`."""
    index = first_at(tokens, ("in", "with"))
    words = words_in(tokens[index + 1 :])
    if words[:1] not in (["a"], ["an"], ["some"]) or head_of(words) == "style":
        return None
    return added_to(tokens[index + 1 :], tokens[:index], request)


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
