"""Verb frames: what each verb takes, and the operation that it asks for. A frame reads every token or gives nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import pairwise
from types import MappingProxyType

from .additions import add
from .changes import change_of
from .gifts import cover, dress, give, second_object
from .lexicon import ACTIONS, BODY_PARTS, VERBS, word_set
from .makings import color, make
from .moves import move
from .picture_colors import cast_changed, colors_made_vivid, names_cast
from .pictures import (
    apply_look,
    camera,
    change_degree,
    crop,
    duplicate,
    fragment,
    light,
    pose,
    reframe,
    render,
    resize,
    restore,
    rotate,
    soften,
    zoom,
)
from .pixel_requests import pixel_operation
from .places import without_scene
from .removals import extract, remove, take_away, take_out
from .replacements import change_object, replace_object, substitute, swap
from .request import Operations, Request
from .states import kindle, open_or_close, switch
from .texts import with_text_quoted, write
from .tokens import Token, Tokens, text_of, words_in
from .values import color_value, material_value
from .wishes import as_imperative, without_edit_lead

Frame = Callable[[str, Tokens, Request], "Operations | None"]


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
    if _has_misspelt_instead(words):
        return None
    if words[1:2] in (["only"], ["just"]):
        tokens, words = [tokens[0], *tokens[2:]], [words[0], *words[2:]]
    if "instead" in words:
        return _instead(tokens, request)
    change = change_of(tokens[1:]) if words[0] in VERBS["change"] else None
    if change is not None and words[0] == "turn" and change.old and change.new[:1] and change.new[0].word in ACTIONS:
        return make("make", [*change.old, *change.new], request)  # "turn the car to face left"
    if change is not None and change.new and change.new[0].word in ("be", "look", "appear", "have", "wear"):
        return make("make", [*change.old, *change.new], request)  # "edit the shirt to be blue"
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
            if words[index:end] == phrase:
                return [*tokens[:index], Token("instead", "instead"), Token("of", "of"), *tokens[end:]]
    return tokens


_INSTEAD = tuple(
    phrase.split()
    for phrase in ("in place of", "in the place of", "in the spot of", "in stead of", "in lieu of", "rather than")
)


def _has_misspelt_instead(words: list[str]) -> bool:
    """Whether a word before "of" is nearly "instead": what follows it is replaced, and is no part of a name."""
    before = {word for word, after in pairwise(words) if after == "of" and word[:1] == "i"} - {"instead"}
    return any(SequenceMatcher(None, word, "instead").ratio() > 0.75 for word in before)


_PHRASAL: tuple[tuple[tuple[str, ...], str], ...] = tuple(
    (tuple(words.split()), name)
    for words, name in (
        ("get rid of", "remove"),
        ("take away", "remove"),
        ("take off", "remove"),
        ("edit out", "remove"),
        ("photoshop out", "remove"),
        ("take out", "take out"),
        ("crop out", "remove"),
        ("cut out", "extract"),
        ("swap out", "swap"),
        ("zoom in", "zoom"),
        ("zoom out", "zoom"),
        ("scale up", "resize"),
        ("scale down", "resize"),
        ("turn on", "switch"),
        ("turn off", "switch"),
        ("switch on", "switch"),
        ("switch off", "switch"),
        ("bring out", "bring out"),
    )
)


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
    if verb in VERBS["put"] and new and new[0].word == "the":
        return move(verb, new, replace(request, note=request.note or text_of(tokens[index:])))
    target, phrase = request.target(old), request.target(new) if new else None
    if target is None or phrase is None or phrase.pronoun or target.pronoun:
        return None
    return request.operation("subject_replace", target=target.target, new=phrase.target, loose=True)


def _frame_at(words: list[str]) -> tuple[Frame | None, str, int]:
    for phrase, name in _PHRASAL:
        if tuple(words[: len(phrase)]) == phrase:
            return _FRAMES.get(name), " ".join(phrase), len(phrase)
    verb = words[0]
    if words[1:3] == ["the", "camera"] and verb in VERBS["rotate"] | VERBS["move"]:
        return camera, verb, 1
    has_body = not BODY_PARTS.isdisjoint(words[1:])
    if words[-2:] == ["upside", "down"] and verb in VERBS["put"] | VERBS["rotate"] | {"turn", "make"}:
        return rotate, verb, 1
    if verb in ("turn", "spin") and not (has_body or _TURNS.isdisjoint(words)):
        return rotate, verb, 1
    if verb in ("turn", "switch") and words[-1] in ("on", "off"):
        return switch, verb, 1
    if has_body and verb in VERBS["pose"] and (verb != "turn" or (set(words[1:6]) & _HEADS and "into" not in words)):
        return pose, verb, 1
    if verb == "take":
        return take_away, verb, 1
    frame = next((_FRAMES[name] for name, verbs in VERBS.items() if verb in verbs and name in _FRAMES), None)
    return frame, verb, 0 if frame is None else 1


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
        "write": write,
        "open": open_or_close,
        "kindle": kindle,
        "switch": switch,
        "dress": dress,
        "cover": cover,
    }
)
