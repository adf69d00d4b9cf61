"""What is switched on or off, opened or closed."""

from __future__ import annotations

from .lexicon import word_set
from .noun_phrases import Phrase
from .request import Operations, Request
from .tokens import Tokens, text_of, words_in

_SWITCHED = word_set(
    "light lights lamp lamps lantern lanterns headlight headlights taillights flashlight torch candle candles bulb "
    "bulbs chandelier streetlight streetlights streetlamp streetlamps spotlight spotlights sconce tv television "
    "screen monitor computer laptop fire fireplace stove neon sign"
)
"""Things that are seen to be on or off."""
_OPENED = word_set(
    "door doors window windows gate gates curtain curtains blinds blind shutter shutters umbrella umbrellas parasol "
    "box boxes lid book laptop drawer drawers trunk hood garage cabinet cupboard closet fridge oven suitcase bag "
    "backpack purse chest jar bottle jacket coat shirt zipper envelope eye eyes mouth hand hands fist beak wings jaws"
)


def switch(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`turn on the lamp`, `switch the lights off`: the lamp is on or off."""
    state = next((word for word in (*verb.split(), *words_in(tokens[-1:])) if word in ("on", "off")), "")
    if tokens and tokens[-1].word == state and state not in verb.split():
        tokens = tokens[:-1]
    target = _object_of(tokens, request)
    if target is None or target.target.noun.split()[-1] not in _SWITCHED:
        return None
    return request.operation("attribute", target=target.target, value=f"turned {state}")


def kindle(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`light the candles on the cake`."""
    target = _object_of(tokens, request)
    if target is None or target.target.noun.split()[-1] not in _SWITCHED:
        return None
    return request.operation("attribute", target=target.target, value="lit")


def open_or_close(verb: str, tokens: Tokens, request: Request) -> Operations | None:
    """`open the door (slightly)`, `close her eyes`, which is an expression."""
    end = len(tokens)
    while end > 1 and tokens[end - 1].word in _HOW_FAR:
        end -= 1
    target = _object_of(tokens[:end], request)
    if target is None:
        return None
    head = target.target.noun.split()[-1]
    if head not in _OPENED:
        return None
    state = {"open": "open", "close": "closed", "shut": "closed"}[verb]
    value = f"{state} {text_of(tokens[end:])}".strip()
    is_face = head in ("eye", "eyes", "mouth")
    return request.operation("expression" if is_face else "attribute", target=target.target, value=value)


_HOW_FAR = word_set("slightly wide halfway completely fully more partially half")


def _object_of(tokens: Tokens, request: Request) -> Phrase | None:
    target = request.target(tokens) if tokens else None
    return None if target is None or target.article == "a" or target.pronoun == "them" else target
