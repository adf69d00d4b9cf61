"""Wishes and questions as imperatives: "the cup should be blue", "can you ...", "what if the man had a hat"."""

from __future__ import annotations

from .clauses import is_scene
from .gifts import may_precede_object
from .lexicon import DETERMINERS, EDIT_VERBS, NUMBERS, STOPS
from .tokens import Token, Tokens, words_in


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
            if words[size] == "to" and words[size + 1] in EDIT_VERBS:
                return tokens[size + 1 :]
            if words[size : size + 2] == ["so", "that"] or words[size] == "so":
                return as_made(tokens[size + (2 if words[size + 1] == "that" else 1) :])
    return tokens


def as_made(tokens: Tokens) -> Tokens:
    """`the car is red` as a request."""
    for index, token in enumerate(tokens):
        if token.word in ("is", "are", "looks", "look", "has", "have", "wears") and index:
            verb = {"is": "be", "are": "be", "looks": "look", "has": "have", "wears": "wear"}.get(
                token.word, token.word
            )
            return [Token("make", "make"), *tokens[:index], Token(verb, verb), *tokens[index + 1 :]]
    return []


_CHANGE_NUMBER = [Token(word, word) for word in ("change", "the", "number", "of")]


def _is_count(words: list[str]) -> bool:
    """Whether words are a number and a name only: "three cups"."""
    return len(words) in (2, 3) and (words[0] in NUMBERS or words[0].isdecimal()) and not set(words[1:]) & STOPS


def as_imperative(tokens: Tokens) -> list[Token] | None:
    """A wish ("the cup should be blue", "what if the man had a hat", "let the cup be blue") as an imperative."""
    words = words_in(tokens)
    make, add, give = Token("make", "make"), Token("add", "add"), Token("give", "give")
    start, is_wish = 0, False
    if words[:2] == ["what", "if"] or words[:2] == ["i", "wish"]:
        start, is_wish = 2, True
    elif words[:2] in (["i", "want"], ["i'd", "like"], ["i", "need"]):
        start = 2
    elif words[:3] == ["i", "would", "like"]:
        start = 3
    elif words[0] in ("let", "have"):
        start = 1
    if words[0] in ("can", "could", "would", "should", "will"):
        return _asked(tokens)
    if words[0] == "see" and words[1:2] and words[1] in ("a", "an", "some", *NUMBERS):
        return [Token("put", "put"), *tokens[1:]]  # "I want to see"
    rest = list(tokens[start:])
    after = words[start:]
    if start and after[:2] == ["there", "be"]:
        return [add, *rest[2:]]
    if is_wish and after[:2] in (["there", "was"], ["there", "were"], ["there", "is"]):
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
        for index, word in enumerate(after):
            if word == "to" and after[index + 1 : index + 2] == ["be"] and index:
                return [make, *rest[:index], *rest[index + 1 :]]
            if (
                word == "to"
                and after[index + 1 : index + 2]
                and after[index + 1] in ("have", "wear", "hold", "look")
                and index
            ):
                return [make, *rest[:index], *rest[index + 1 :]]
        return [add, *rest] if after[:1] and after[0] in ("a", "an", "another", *NUMBERS) else []
    for modal in (("should",), ("must",), ("needs", "to"), ("need", "to"), ("ought", "to")):
        size = len(modal)
        for index in range(1, min(len(words) - size, 24)):
            if tuple(words[index : index + size]) != modal:
                continue
            if words[:index] == ["there"] and words[index + size] == "be" and _is_count(words[index + size + 1 :]):
                number, *of = tokens[index + size + 1 :]
                return [*_CHANGE_NUMBER, *of, Token("to", "to"), number]
            if words[:index] == ["there"] and words[index + size] == "be":
                return [add, *tokens[index + size + 1 :]]
            if words[0] in ("a", "an", "another", "some") and words[index + size] == "be":
                return [add, *tokens[:index], *tokens[index + size + 1 :]]
            if words[index + size] == "become" and words[0] in DETERMINERS:
                return [Token("turn", "turn"), *tokens[:index], Token("into", "into"), *tokens[index + size + 1 :]]
            if words[0] in DETERMINERS or words[0] in ("all", "both", "it"):
                return [make, *tokens[:index], *tokens[index + size :]]
            return []
    return None
