"""Verb frames, each of which reads every token or gives nothing; wishes and questions as imperatives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import pairwise
from types import MappingProxyType

from ...metrics.any_edit.instruction_words import word_set
from . import lexicon as lex
from .additions import add, cover, dress, give, may_precede_object, second_object
from .lexicon import phrases
from .makings import color, make
from .moves import extract, move, remove, take_away, take_out
from .noun_phrases import Operations, Request
from .pictures import (
    apply_look,
    camera,
    change_degree,
    crop,
    duplicate,
    fragment,
    light,
    pixel_operation,
    pose,
    reframe,
    render,
    resize,
    restore,
    rotate,
    soften,
    zoom,
)
from .properties import cast_changed, colors_made_vivid, kindle, names_cast, open_or_close, switch
from .replacements import change_object, replace_object, substitute, swap
from .sentences import Token, Tokens, is_scene, text_of, without_scene, words_in
from .texts import text_added, with_text_quoted
from .values import change_of, color_value, material_value

Frame = Callable[[str, Tokens, Request], "Operations | None"]
_INSTEAD = phrases("in place of, in the place of, in the spot of, in stead of, in lieu of, rather than")
_PHRASAL: Mapping[tuple[str, ...], str] = MappingProxyType(
    {
        **dict.fromkeys(phrases("get rid of, take away, take off, edit out, photoshop out, crop out"), "remove"),
        **dict.fromkeys(phrases("turn on, turn off, switch on, switch off"), "switch"),
        **dict.fromkeys(phrases("zoom in, zoom out"), "zoom"),
        **dict.fromkeys(phrases("scale up, scale down"), "resize"),
        ("take", "out"): "take out",
        ("cut", "out"): "extract",
        ("swap", "out"): "swap",
        ("bring", "out"): "bring out",
    }
)
_HEADS = frozenset(("head", "face"))
_TURNS = word_set("clockwise counterclockwise counter-clockwise anticlockwise anti-clockwise degrees degree sideways")
"""They say that what is turned keeps its looks."""
_FRAMES: Mapping[str, Frame] = MappingProxyType(
    {
        "remove": remove,
        "take out": take_out,
        "extract": extract,
        "add": add,
        "put": add,
        "move": move,
        "replace": replace_object,
        "swap": swap,
        "substitute": substitute,
        "change": change_object,
        "color": color,
        "make": make,
        "render": render,
        "give": give,
        "light": light,
        "degree": change_degree,
        "apply": apply_look,
        "rotate": rotate,
        "crop": crop,
        "zoom": zoom,
        "filter": soften,
        "restore": restore,
        "resize": resize,
        "reframe": reframe,
        "duplicate": duplicate,
        "write": lambda _, tokens, request: text_added(tokens, request),
        "open": open_or_close,
        "kindle": kindle,
        "switch": switch,
        "dress": dress,
        "cover": cover,
    }
)
_BARE = MappingProxyType({"is": "be", "are": "be", "looks": "look", "has": "have", "wears": "wear"})
_CHANGE_NUMBER = [Token(word, word) for word in ("change", "the", "number", "of")]
_WISHES = phrases("what if, i wish, i want, i'd like, i need, i would like, let, have")


def operations_of(tokens: Tokens, request: Request) -> Operations | None:
    """The operations that a clause asks for; None where it is not read in every word."""
    tokens, request.in_scene = without_scene(tokens)
    if not tokens or tokens[0].is_quote:
        return None
    tokens = without_edit_lead(tokens)
    rewritten = as_imperative(tokens) if tokens else []
    tokens = tokens if rewritten is None else rewritten
    if not tokens:
        return None
    made = pixel_operation(tokens, request)
    if made is not None:
        return made
    tokens = with_text_quoted(_with_instead(_without_only(tokens)))
    words = words_in(tokens)
    before_of = {word for word, after in pairwise(words) if after == "of" and word[:1] == "i"} - {"instead"}
    if any(SequenceMatcher(None, word, "instead").ratio() > 0.75 for word in before_of):
        return None  # misspelt: what follows it is replaced, and is no part of a name
    if words[1:2] in (["only"], ["just"]):
        tokens, words = [tokens[0], *tokens[2:]], [words[0], *words[2:]]
    if "instead" in words:
        return _instead(tokens, request)
    change = change_of(tokens[1:]) if words[0] in lex.VERBS["change"] else None
    first = change.new[0].word if change is not None and change.new else ""
    is_turned = change is not None and words[0] == "turn" and change.old and first in lex.ACTIONS
    if change is not None and (is_turned or first in ("be", "look", "appear", "have", "wear")):
        return make("make", [*change.old, *change.new], request)  # "turn the car to face left", "edit it to be blue"
    frame, verb, start = _frame_at(words)
    rest = tokens[max(start, 1) :]
    if names_cast(rest):
        return cast_changed(verb, rest, request)
    vivid = colors_made_vivid(verb, rest, request)
    if vivid is not None:
        return vivid
    if verb == "turn" and frame is change_object and change_of(tokens[start:]) is None:
        frame = make
    if frame is None:
        return fragment(tokens, request)
    return frame(verb, tokens[start:], request)


def _without_only(tokens: Tokens) -> Tokens:
    """The tokens without "only" at their end, and without "just" before a degree, as in "just a bit"."""
    end = len(tokens) - 1 if len(tokens) > 2 and tokens[-1].word in ("only", "alone") else len(tokens)
    return [
        token
        for token, after in zip(tokens[:end], [*words_in(tokens[1:end]), ""], strict=False)
        if token.word != "just" or after not in ("a", "slightly")
    ]


def _with_instead(tokens: Tokens) -> Tokens:
    """The tokens with "in place of" and the like as "instead of"."""
    words = words_in(tokens)
    for index in range(2, len(words) - 2):
        for phrase in _INSTEAD:
            end = index + len(phrase)
            if tuple(words[index:end]) == phrase:
                return [*tokens[:index], Token("instead", "instead"), Token("of", "of"), *tokens[end:]]
    return tokens


def _instead(tokens: Tokens, request: Request) -> Operations | None:
    """`add a car instead of the bus`: one takes the place of the other."""
    words = words_in(tokens)
    index = words.index("instead")
    value = tokens[index + 2 :]
    if words[index + 1 : index + 2] == ["of"] and (color_value(value) or material_value(value)):
        return operations_of(tokens[:index], replace(request, note=request.note or text_of(tokens[index:])))
    verb, new, old = words[0], tokens[1:index], tokens[index + 2 :]
    if words[index + 1 : index + 2] != ["of"] or not new or not old:
        return None
    if verb == "give":
        start = 1 if words[1] in ("him", "her", "them") else second_object(new)
        new = new[start:] if start else []
    elif verb not in ("add", "put", "include", "insert", "use", "draw", "place"):
        return None
    if verb in lex.VERBS["put"] and new and new[0].word == "the":
        return move(verb, new, replace(request, note=request.note or text_of(tokens[index:])))
    target, phrase = request.target(old), request.target(new) if new else None
    if target is None or phrase is None or phrase.pronoun or target.pronoun:
        return None
    return request.operation("subject_replace", target=target.target, new=phrase.target, loose=True)


def _frame_at(words: list[str]) -> tuple[Frame | None, str, int]:
    for phrase, name in _PHRASAL.items():
        if tuple(words[: len(phrase)]) == phrase:
            return _FRAMES.get(name), " ".join(phrase), len(phrase)
    verb = words[0]
    if words[1:3] == ["the", "camera"] and verb in lex.VERBS["rotate"] | lex.VERBS["move"]:
        return camera, verb, 1
    has_body = not lex.BODY_PARTS.isdisjoint(words[1:])
    if words[-2:] == ["upside", "down"] and verb in lex.VERBS["put"] | lex.VERBS["rotate"] | {"turn", "make"}:
        return rotate, verb, 1
    if verb in ("turn", "spin") and not (has_body or _TURNS.isdisjoint(words)):
        return rotate, verb, 1
    if verb in ("turn", "switch") and words[-1] in ("on", "off"):
        return switch, verb, 1
    is_head = bool(set(words[1:6]) & _HEADS) and "into" not in words
    if has_body and verb in lex.VERBS["pose"] and (verb != "turn" or is_head):
        return pose, verb, 1
    if verb == "take":
        return take_away, verb, 1
    frame = next((_FRAMES[name] for name, verbs in lex.VERBS.items() if verb in verbs and name in _FRAMES), None)
    return frame, verb, 0 if frame is None else 1


def _asked(tokens: Tokens) -> list[Token]:
    """`can the cat be orange` and `could there be a boat` as imperatives; empty where it is another question."""
    words = words_in(tokens)
    if words[1:3] in (["there", "be"], ["we", "have"]):
        return [Token("add", "add"), *tokens[3:]]
    if words[1:2] and words[1] in ("the", "his", "her", "all", "both"):
        for index in range(3, len(words) - 1):
            if words[index] in ("be", "have", "wear") and may_precede_object(words[index - 1]):
                return [Token("make", "make"), *tokens[1:]]
    return []


def without_edit_lead(tokens: Tokens) -> Tokens:
    """The tokens without "edit the image to", "modify this photo so that"."""
    words = words_in(tokens)
    if words[0] not in ("edit", "modify", "adjust", "alter", "update", "change"):
        return tokens
    for size in (3, 2):
        if len(words) > size + 2 and is_scene(tokens[1:size]):
            if words[size] == "to" and words[size + 1] in lex.EDIT_VERBS:
                return tokens[size + 1 :]
            if words[size : size + 2] == ["so", "that"] or words[size] == "so":
                return as_made(tokens[size + (2 if words[size + 1] == "that" else 1) :])
    return tokens


def as_made(tokens: Tokens) -> Tokens:
    """`the car is red` as a request."""
    for index, token in enumerate(tokens):
        if token.word in ("is", "are", "looks", "look", "has", "have", "wears") and index:
            verb = _BARE.get(token.word, token.word)
            return [Token("make", "make"), *tokens[:index], Token(verb, verb), *tokens[index + 1 :]]
    return []


def as_imperative(tokens: Tokens) -> list[Token] | None:
    """A wish ("the cup should be blue", "what if the man had a hat", "let the cup be blue") as an imperative."""
    words = words_in(tokens)
    make, add, give = Token("make", "make"), Token("add", "add"), Token("give", "give")
    is_wish = words[:2] in (["what", "if"], ["i", "wish"])
    start = next((len(lead) for lead in _WISHES if tuple(words[: len(lead)]) == lead), 0)
    if words[0] in ("can", "could", "would", "should", "will"):
        return _asked(tokens)
    if words[0] == "see" and words[1:2] and words[1] in ("a", "an", "some", *lex.NUMBERS):
        return [Token("put", "put"), *tokens[1:]]  # "I want to see"
    rest = list(tokens[start:])
    after = words[start:]
    there = after[1] if after[:1] == ["there"] and len(after) > 1 else ""
    if (start and there == "be") or (is_wish and there in ("was", "were", "is")):
        return [add, *rest[2:]]
    if is_wish:
        for index, word in enumerate(after):
            if word in ("was", "were") and index:
                return [make, *rest[:index], Token("be", "be"), *rest[index + 1 :]]
            if word == "had" and index:
                return [give, *rest[:index], *rest[index + 1 :]]
        return []
    if words[0] in ("let", "have"):
        return [make, *rest]
    if start:
        for index, (word, verb) in enumerate(pairwise(after)):
            if index and word == "to" and verb in ("be", "have", "wear", "hold", "look"):
                return [make, *rest[:index], *rest[index + 1 :]]
        return [add, *rest] if after[:1] and after[0] in ("a", "an", "another", *lex.NUMBERS) else []
    for modal in (("should",), ("must",), ("needs", "to"), ("need", "to"), ("ought", "to")):
        size = len(modal)
        for index in range(1, min(len(words) - size, 24)):
            if tuple(words[index : index + size]) != modal:
                continue
            if words[:index] == ["there"] and words[index + size] == "be":
                number, *name = words[index + size + 1 :] or [""]
                is_count = len(name) in (1, 2) and (number in lex.NUMBERS or number.isdecimal())
                if is_count and not set(name) & lex.STOPS:  # "three cups"
                    first, *of = tokens[index + size + 1 :]
                    return [*_CHANGE_NUMBER, *of, Token("to", "to"), first]
                return [add, *tokens[index + size + 1 :]]
            if words[0] in ("a", "an", "another", "some") and words[index + size] == "be":
                return [add, *tokens[:index], *tokens[index + size + 1 :]]
            if words[index + size] == "become" and words[0] in lex.DETERMINERS:
                return [Token("turn", "turn"), *tokens[:index], Token("into", "into"), *tokens[index + size + 1 :]]
            if words[0] in lex.DETERMINERS or words[0] in ("all", "both", "it"):
                return [make, *tokens[:index], *tokens[index + size :]]
            return []
    return None
