"""What is moved, and where to; what is removed, or cut out of the picture."""

from __future__ import annotations

from dataclasses import replace

from ...edit_plan import OperationType, Relation, Target
from ...metrics.any_edit.instruction_words import word_set
from . import lexicon as lex
from .noun_heads import place_at
from .noun_phrases import Operations, Request, has_with, is_tail, joined, objects_of, phrase_at, with_pronoun_resolved
from .sentences import Token, Tokens, scene_end, text_of, words_in
from .texts import SIDE_POSITIONS, destination_of, text_removed
from .values import is_description, plain_text

_NOT_MOVED = word_set("camera view viewpoint perspective angle background time weather style color")
_ELSEWHERE = word_set(
    "focus view shape perspective beach forest city desert park mountains street countryside moon jungle space"
)
_STORES = word_set("fridge oven microwave freezer dishwasher sink drawer cupboard closet garage bin car mail")
_NEARER = word_set("closer further farther away")
_DIRECTION_WORDS = word_set(
    "lower higher to the up down left right upward upwards downward downwards forward backward back a bit "
    "little slightly closer further center centre middle side top bottom towards toward far corner into "
    "foreground background away of edge more over"
)
_TOWARDS = word_set("to onto into toward towards closer further farther")
_AT = word_set(
    "next at behind beside below above under beneath underneath near in on up down lower higher inside over between "
    "upwards downwards by against"
)
_TEXTS = word_set("text words lettering writing caption captions watermark watermarks letters subtitles subtitle")
_EFFECTS = word_set("filter shadow shadows reflection reflections glow glare flare vignette")
_WEATHER = word_set("fog mist rain snow")
_NOT_REMOVED = word_set(
    "background backdrop color colour colors fog haze mist rain everything anything all else rest "
    "light lighting darkness smile effect style details detail foreground skin hue hues tint tints tone tones tinge"
)
_NOT_EXTRACTED = word_set(
    "text words information data color colors colour palette numbers table content contents details facts "
    "keywords meaning essence key keys honey juice tooth teeth dna"
)


def move(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`move the cup next to the plate`."""
    start = _destination_start(tokens, verb)
    if start is None:
        return None
    target = request.target(tokens[:start])
    is_named = any(token.text[:1].isupper() for token in tokens[2:]) and lex.SCENES.isdisjoint(words_in(tokens))
    if target is None or target.article == "a" or target.target.noun in lex.SCENES or is_named:
        return None  # "move the meeting to Friday"
    rest = tokens[start:]
    words = words_in(rest)
    if words[0] == "in" and words[1:2] in (["a"], ["an"]):
        place = rest[1:]
        phrase = request.target(place)
        if phrase is None:
            return None
        head = phrase.target.noun.split()[-1]
        if head in lex.CLOTHES and target.target.nesting < 3 and phrase.target.relation is None:
            worn = replace(phrase.target, relation=Relation("on", target.target))
            return request.operation("subject_add", new=worn, loose=phrase.loose or target.loose)
        if head in lex.SCENERY:
            return request.operation("background_change", value=plain_text(place), loose=True)
        return None
    if words[-1] in _STORES or ({"a", "an"} & set(words[:4]) and "bit" not in words and "little" not in words):
        return None  # a chore, or what is not in the picture
    if target.target.noun.split()[-1] in _NOT_MOVED:
        return None
    found = None if words[0] in _NEARER | {"up", "down", "lower", "higher"} else destination_of(rest, request)
    if found is not None:
        kind, reference, loose = found
        if kind in SIDE_POSITIONS and reference is not None:
            side = {"position": kind, "reference": reference}
            return request.on(target, "position_change", **side, loose=target.loose or loose)
        if reference is not None and reference.noun in _ELSEWHERE | lex.WEATHER_WORDS:
            return None  # another background, or a place in the picture
        return request.on(target, "position_change", loose=True)
    is_direction = all(word in _DIRECTION_WORDS or word.isdecimal() for word in words)
    is_nearer = words[0] in _NEARER and words[1:2] in (["to"], ["from"]) and request.target(rest[2:]) is not None
    return request.on(target, "position_change", loose=True) if is_direction or is_nearer else None


def _destination_start(tokens: Tokens, verb: str) -> int | None:
    words = words_in(tokens)
    for index in range(1, len(words)):
        if words[index] in _TOWARDS and words[index - 1] not in ("next", "close"):
            return index
    last = next((index for index in range(len(words) - 1, 0, -1) if words[index] in _AT), None)
    if last is not None and words[last] == "in" and verb == "move":
        return last if words[last + 1 : last + 3] == ["front", "of"] else None
    return last


def remove(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`remove the dog and the cat`, `remove the text "SALE"`."""
    text = text_removed(tokens, request)
    if text is not None:
        return text
    whole = request.target(tokens)
    if whole is not None and whole.target in (Target("background"), Target("backdrop")):
        return request.operation("background_change", value="plain")  # what shows instead is not said
    if whole is not None and whole.target.noun in _WEATHER and whole.target == Target(whole.target.noun):
        return request.operation("weather", value=f"without {whole.target.noun}")
    tokens = _from_as_relation(tokens)
    words = words_in(tokens)
    is_open = words[:1] in (["one"], ["some"]) or bool(set(words[:2]) & (lex.VAGUE_QUANTITIES - {"extra"}))
    objects = None if is_open else objects_of(tokens, request)  # "one cup", "a few people"
    if objects is None:
        return None
    operations: Operations = []
    for phrase in objects:
        target = phrase.target
        head = target.noun.split()[-1]
        if head in _NOT_REMOVED or (target.noun in lex.SCENES and target.relation is None):
            return None
        kind: OperationType = "subject_remove"
        if target.attributes == ("red",) and target.noun == "eye":
            kind = "restoration"
        if head in _TEXTS:
            kind = "text_remove"
        elif head in ("blur", "blurriness", "noise", "grain", "scratches", "artifacts"):
            kind = "restoration"
        elif head in _EFFECTS:
            kind = "effect_remove"
        if kind == "restoration" and head not in ("scratches", "artifacts"):
            made = request.operation(kind, value=f"without {target.phrase}")
        else:
            made = request.operation(kind, target=target, loose=phrase.loose)
        if made is None:
            return None
        operations += made
    return operations


def _from_as_relation(tokens: Tokens) -> Tokens:
    """The tokens with "from the table" read as "on the table"; the scene stays as it is."""
    for index in range(len(tokens) - 1, 0, -1):
        if tokens[index].word == "from" and scene_end(tokens, index) is None and place_at(tokens, index) is None:
            return [*tokens[:index], Token("on", "on"), *tokens[index + 1 :]]
    return tokens


def take_away(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`take the painting away`, `take the book out of the bag`."""
    words = words_in(tokens)
    if words[:1] and words[0] in ("a", "an", "some"):
        return None  # "take a bite out of the apple"
    if words[-1:] in (["out"], ["away"], ["off"]) and len(words) > 2:
        return remove("remove", tokens[:-1], request)
    for index, word in enumerate(words):
        if word in ("out", "off", "away") and words[index + 1 : index + 2] and index > 1:
            rest = list(tokens[index + (2 if words[index + 1] in ("of", "from") else 1) :])
            lead = Token("in", "in") if word == "out" else Token("on", "on")
            return remove("remove", [*tokens[:index], lead, *rest], request)
        if word == "to" and index > 1:
            return move(verb, tokens, request)
    return None


def take_out(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`take out the bench on the left`; what is not described may be out of a picture, as in "take out the dog"."""
    target = request.target(tokens)
    if target is None or (target.target == Target(target.target.noun) and not request.in_scene):
        return None
    return remove("remove", tokens, request)


def extract(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`extract the jacket worn by the person`."""
    end = len(tokens)
    shown = ""
    for index in range(1, end):  # "from the background" is no place of it
        if tokens[index].word in ("from", "on", "against") and tokens[-1].word == "background" and end - index <= 4:
            end = index
            shown = text_of(tokens[index:]) if tokens[index].word != "from" else ""
            break
    tokens = tokens[:end]
    phrase = phrase_at(tokens)
    if phrase is None or phrase.article == "a" or phrase.target.noun.split()[-1] in _NOT_EXTRACTED:
        return None
    target = phrase.target
    resolved = with_pronoun_resolved(phrase, request.antecedent)
    if resolved is None:
        return None
    rest = tokens[phrase.end :]
    if rest and rest[0].word == "from" and (origin := phrase_at(rest, 1)) is not None:
        rest = rest[origin.end :]
    if rest and rest[0].word == "and" and not has_with(target):
        objects = objects_of(tokens, request)
        if objects is None or any(one.target.noun.split()[-1] in _NOT_EXTRACTED for one in objects):
            return None
        return joined(request.on(one, "extraction") for one in objects)
    is_list = words_in(rest[:1]) in (["and"], [","]) and words_in(rest[1:2]) != ["the"]  # not "..., the ministry says"
    is_more = is_list and has_with(target) and is_description(rest)
    if rest and not is_more and not (is_tail(rest) and is_description([t for t in rest if not t.is_quote])):
        return None
    return request.on(resolved, "extraction", value=shown)
