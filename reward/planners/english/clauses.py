"""Sentences and clauses: what is polite falls away, requests and kept conditions are told apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from .lexicon import (
    CLAUSE_VERBS,
    DETERMINERS,
    KEEP_VERBS,
    KEEPING,
    QUANTIFIERS,
    SCENES,
    WITHOUT,
    word_set,
)
from .places import scene_end
from .politeness import GREETINGS, POLITE_ENDS, POLITE_LEADS
from .tokens import Token, Tokens, text_of, words_in

ClauseKind = Literal["request", "keep", "note"]
"""`note`: how something shall be done, as in ", ensuring that it blends in"."""


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of a sentence that asks for one thing. sentence: number of its sentence. words: its text, with the words
    that say its kind, such as "without changing".
    """

    kind: ClauseKind
    tokens: Tokens
    sentence: int
    words: str


def clauses_of(tokens: Tokens) -> list[Clause]:
    """The clauses of all sentences, in order."""
    clauses: list[Clause] = []
    for number, sentence in enumerate(_sentences(tokens)):
        if set(words_in(sentence)) <= GREETINGS:
            continue
        clauses += _split(_without_politeness(sentence), number)
    return clauses


def _sentences(tokens: Tokens) -> Iterator[list[Token]]:
    sentence: list[Token] = []
    for token in tokens:
        if token.word in (".", ";") and not token.is_quote:
            if sentence:
                yield sentence
            sentence = []
        else:
            sentence.append(token)
    if sentence:
        yield sentence


def _without_politeness(tokens: list[Token]) -> list[Token]:
    """The tokens without what is said around a request. Each phrase falls away once, so that the time is linear."""
    start, end = 0, len(tokens)
    words = words_in(tokens)
    for _ in range(4):
        for lead in POLITE_LEADS:
            after = start + len(lead)
            is_wish = lead[-1:] == ("we",) and words[after : after + 1] == ["have"]  # "could we have a boat"
            if tuple(words[start:after]) == lead and after < end and not is_wish:
                start += len(lead)
        scene = scene_end(tokens, start) if words[start : start + 1] in (["in"], ["on"], ["for"], ["from"]) else None
        if scene is not None and scene < end:
            start = scene
        if start < end and words[start] == ",":
            start += 1
    for _ in range(2):
        for close in POLITE_ENDS:
            if tuple(words[max(start, end - len(close)) : end]) == close and end - len(close) > start:
                end -= len(close)
        if end > start and words[end - 1] == ",":
            end -= 1
    return tokens[start:end]


_ALWAYS_VERBS = CLAUSE_VERBS & word_set(
    "add insert remove delete erase eliminate replace make give extract isolate include introduce convert "
    "transform keep preserve maintain retain leave change enlarge brighten darken apply attach get take put "
    "swap turn"
)
"""Verbs that are hardly ever nouns."""
_OBJECT_STARTS = DETERMINERS | QUANTIFIERS | {"it", "them", "him", "everything", '"', "rid"}


def _split(tokens: list[Token], number: int) -> Iterator[Clause]:
    start, kind = 0, _kind_at(tokens, 0)
    if kind is not None and tokens:
        start = kind[1]
    current: ClauseKind = kind[0] if kind is not None else "request"
    index, lead = start, 0
    while index < len(tokens):
        found = _boundary(tokens, index) if index > start else None
        if found is None:
            index += 1
            continue
        following, begin = found
        yield Clause(current, _trimmed(tokens[start:index]), number, text_of(_trimmed(tokens[lead:index])))
        start, current, lead = begin, following, index + 1
        index = max(begin, index + 1)
    if start < len(tokens):
        yield Clause(current, _trimmed(tokens[start:]), number, text_of(_trimmed(tokens[lead:])))


def _trimmed(tokens: list[Token]) -> list[Token]:
    end = len(tokens)
    while end and tokens[end - 1].word in (",", "and", "but", "then", "while"):
        end -= 1
    return tokens[:end]


def _kind_at(tokens: list[Token], index: int) -> tuple[ClauseKind, int] | None:
    """The kind of a clause that begins at an index, if its first words say so, and the index of its content."""
    words = words_in(tokens[index : index + 4])
    if not words:
        return None
    if words[:2] == ["nothing", "else"] or (words[:2] in _REST and words[2:3] and words[2] in _STAYING):
        return "keep", index
    if words[0] in KEEP_VERBS | KEEPING | {"staying", "remaining"} and len(words) > 1:
        return "keep", index + 1
    if words[0] == "without" and len(words) > 1 and words[1] in WITHOUT:
        return "keep", index + 2
    if (
        words[:2] in (["do", "not"],)
        and len(words) > 2
        and words[2] in ("change", "alter", "touch", "modify", "affect")
    ):
        return "keep", index + 3
    if words[0] == "don't" and len(words) > 1 and words[1] in ("change", "alter", "touch", "modify", "affect"):
        return "keep", index + 2
    return None


_REST = (["everything", "else"], ["all", "else"], ["the", "rest"])
_STAYING = word_set("should must stays remains stay remain unchanged untouched")
_NOTES = word_set("ensuring making excluding isolating separating including focusing leaving maintaining blending")


def _boundary(tokens: list[Token], index: int) -> tuple[ClauseKind, int] | None:
    """The kind of the clause that begins at an index, and the index of its content; None where none begins."""
    word = tokens[index].word
    if tokens[index].is_quote:
        return None
    if word == "without":
        return _kind_at(tokens, index)
    if word not in ("and", "then", ",", "but", "while"):
        return None
    begin = index + 1
    words = words_in(tokens[begin : begin + 5])
    while words and words[0] in ("and", "then", "but", "please", "also", "while", ",", "finally", "next", "to", "just"):
        if words[0] == "to" and word != "and":
            return None
        begin += 1
        words = words[1:]
    kind = _kind_at(tokens, begin)
    if kind is not None:
        return kind
    if not words:
        return None
    if words[0] in _NOTES:
        return "note", begin
    if word == "while":
        return "note", begin
    if len(words) < 2 or words[0] not in CLAUSE_VERBS:
        return None
    if words[0] in _ALWAYS_VERBS or words[1] in _OBJECT_STARTS:
        return "request", begin
    return None


def is_scene(tokens: Tokens) -> bool:
    """Whether tokens name the whole picture: "the image", "this whole photo"."""
    words = words_in(tokens)
    while words and (
        words[0] in DETERMINERS or words[0] in ("whole", "entire", "overall", "full", "given", "original")
    ):
        words = words[1:]
    return len(words) == 1 and words[0] in SCENES and "another" not in words_in(tokens)
