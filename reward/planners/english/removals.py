"""What is removed, or cut out of the picture."""

from __future__ import annotations

from typing import cast

from ...edit_plan import OperationType, Target
from .lexicon import SCENES, VAGUE_QUANTITIES, word_set
from .moves import move
from .noun_phrases import Phrase, phrase_at, with_pronoun_resolved
from .places import place_at, scene_end
from .request import Operations, Request, has_with, is_tail, objects_of
from .texts import text_removed
from .tokens import Token, Tokens, text_of, words_in
from .values import is_description


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
    objects = objects_of(tokens, request) if not _names_some(words_in(tokens)) else None
    if objects is None:
        return None
    operations: Operations = []
    for phrase in objects:
        target = phrase.target
        head = target.noun.split()[-1]
        if head in _NOT_REMOVED or (target.noun in SCENES and target.relation is None):
            return None
        kind: OperationType = "subject_remove"
        if target.attributes == ("red",) and target.noun == "eye":
            kind = "restoration"
        if head in (
            "text",
            "words",
            "lettering",
            "writing",
            "caption",
            "captions",
            "watermark",
            "watermarks",
            "letters",
            "subtitles",
            "subtitle",
        ):
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


def _names_some(words: list[str]) -> bool:
    """Whether it is open which ones are meant: "one cup", "a few people"."""
    return words[:1] in (["one"], ["some"]) or bool(set(words[:2]) & (VAGUE_QUANTITIES - {"extra"}))


_EFFECTS = word_set("filter shadow shadows reflection reflections glow glare flare vignette")
_WEATHER = word_set("fog mist rain snow")
_NOT_REMOVED = word_set(
    "background backdrop color colour colors fog haze mist rain everything anything all else rest "
    "light lighting darkness smile effect style details detail foreground skin hue hues tint tints tone tones tinge"
)


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
    if phrase is None or phrase.article == "a":
        return None
    target = phrase.target
    if target.noun.split()[-1] in _NOT_EXTRACTED:
        return None
    resolved = with_pronoun_resolved(phrase, request.antecedent)
    if resolved is None:
        return None
    rest = tokens[phrase.end :]
    if rest and rest[0].word == "from" and phrase_at(rest, 1) is not None:
        end = cast(Phrase, phrase_at(rest, 1)).end
        rest = rest[end:]
    if rest and rest[0].word == "and" and not has_with(target):
        return _extract_several(tokens, request)
    is_list = words_in(rest[:1]) in (["and"], [","]) and words_in(rest[1:2]) != ["the"]  # not "..., the ministry says"
    if is_list and has_with(target) and is_description(rest):
        return request.operation("extraction", target=resolved.target, value=shown)
    if rest and not (is_tail(rest) and is_description([t for t in rest if not t.is_quote])):
        return None
    return request.operation("extraction", target=resolved.target, value=shown)


_NOT_EXTRACTED = word_set(
    "text words information data color colors colour palette numbers table content contents details facts "
    "keywords meaning essence key keys honey juice tooth teeth dna"
)


def _extract_several(tokens: Tokens, request: Request) -> Operations | None:
    objects = objects_of(tokens, request)
    if objects is None:
        return None
    operations: Operations = []
    for phrase in objects:
        made = request.operation("extraction", target=phrase.target)
        if made is None or phrase.target.noun.split()[-1] in _NOT_EXTRACTED:
            return None
        operations += made
    return operations
