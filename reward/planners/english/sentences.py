"""Sentences as tokens and clauses: what is polite falls away, requests and kept conditions are told apart."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from ...metrics.any_edit.instruction_words import WITHOUT_WORDS, collapsed, word_set
from ...sample import MAX_INSTRUCTION
from . import lexicon as lex
from .lexicon import phrases

_APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "`": "'", "“": '"', "”": '"', "–": "-", "—": "-"})  # noqa: RUF001
_WORD = re.compile(r"[A-Za-zÀ-ÖØ-öø-ÿ0-9]+(?:[-'][A-Za-zÀ-ÖØ-öø-ÿ0-9]+)*")
_ACCENTED = word_set(
    "café cafés décor façade façades crème brûlée purée jalapeño piñata fiancé fiancée naïve rosé entrée"
)
_POSSESSIVE_NAMES = frozenset(("it's", "that's", "there's", "he's", "she's", "what's", "let's", "who's"))
_MAX_QUOTED = 200
_REFUSED = (lex.ORDERS | lex.FOREIGN | lex.FIRST_AND_SECOND_PERSON) - frozenset(("me", "let's", "us"))
_OF_MINE = word_set("remove erase delete make turn blur paint color change replace brighten darken extract")
"""Verbs whose object may be "my dog": what is added is not in the picture, and may be nobody's."""
_BINS, _BIN_NOUNS = word_set("trash garbage rubbish recycling"), word_set("can cans bin bins bag bags")
_OF_SCENES = word_set("in from of within on to for into across")
_WHOLE = word_set("whole entire given original provided input")
_THIS = ("the", "this", "that", "your", "my", "our")
POLITE_LEADS = phrases(
    """
    please, kindly, pls, plz, hey, hi, ok, okay, could you please, can you please, would you please, will you
    please, could you, can you, would you, will you, i want you to, i would like you to, i'd like you to, i need you
    to, i want to, i would like to, i'd like to, i need to, let's, let us, can we, could we, now, then, next, also,
    finally, first, and, just, simply, afterwards, additionally, only, try to, is it possible to, would it be
    possible to, help me
    """
)
POLITE_ENDS = phrases(
    """
    please, pls, plz, for me, thanks, thx, thank you, instead, now, too, as well, if possible, again
    """
)
_ASKING = tuple(" ".join((*start, *end)) for start in phrases(", could you, can you, would you, will you")
                for end in phrases(", please, kindly") if start or end)  # fmt: skip
_THANKS = ("please", "thank you", "thanks")
GREETINGS = word_set("hi hello hey please pls plz thanks thank thx you so very much many cheers , a lot in advance")
"""A sentence of them asks for nothing."""
ClauseKind = Literal["request", "keep", "note"]
"""`note`: how something shall be done, as in ", ensuring that it blends in"."""
_ALWAYS_VERBS = lex.CLAUSE_VERBS & word_set(
    "add insert remove delete erase eliminate replace make give extract isolate include introduce convert transform "
    "keep preserve maintain retain leave change enlarge brighten darken apply attach get take put swap turn"
)
"""Verbs that are hardly ever nouns."""
_OBJECT_STARTS = lex.DETERMINERS | lex.QUANTIFIERS | {"it", "them", "him", "everything", '"', "rid"}
_CHANGED = word_set("change alter touch modify affect")
_REST = (["everything", "else"], ["all", "else"], ["the", "rest"])
_STAYING = word_set("should must stays remains stay remain unchanged untouched")
_NOTES = word_set("ensuring making excluding isolating separating including focusing leaving maintaining blending")
_BEFORE_SCENES = lex.DETERMINERS | word_set("whole entire overall full given original")


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a quoted text or a mark. text: as written. word: in lower case; '"' for a quoted text."""

    text: str
    word: str

    @property
    def is_quote(self) -> bool:
        return self.word == '"'

    @property
    def is_mark(self) -> bool:
        return self.word in (",", ";", ".", "(", ")", ":")


Tokens = Sequence[Token]


def words_in(tokens: Tokens) -> list[str]:
    """The words of tokens, in lower case."""
    return [token.word for token in tokens]


def word_at(words: Sequence[str], index: int) -> str:
    """The word at an index; empty after the last one."""
    return words[index] if index < len(words) else ""


def first_at(tokens: Tokens, names: Container[str]) -> int:
    """The index of the first of some words after the first token; the number of tokens without one."""
    return next((index for index in range(1, len(tokens)) if tokens[index].word in names), len(tokens))


def stripped(tokens: Tokens, first: Container[str] = (), last: Container[str] = ()) -> Tokens:
    """The tokens without the words of `last` at their end, and of `first` in front."""
    start, end = 0, len(tokens)
    while end and tokens[end - 1].word in last:
        end -= 1
    while start < end and tokens[start].word in first:
        start += 1
    return tokens[start:end]


def text_of(tokens: Tokens) -> str:
    """The tokens as text again; no blank before a mark or a possessive ending."""
    parts: list[str] = []
    for token in tokens:
        text = f'"{token.text}"' if token.is_quote else token.text
        if parts and not (token.word in (",", ";", ".", ")", "'s", "'", ":") or parts[-1] == "("):
            parts.append(" ")
        parts.append(text)
    return "".join(parts)


def tokens_of(sentence: str) -> list[Token] | None:
    """The tokens of a sentence; None where it has characters or words that no request of ours has. Possessive endings
    are tokens of their own; "." stands for any end of a sentence.
    """
    text = collapsed(sentence).translate(_APOSTROPHES)
    if not text or len(text) > MAX_INSTRUCTION:
        return None
    if text[0] == '"' == text[-1] and text.count('"') == 2 and len(text) > 2:
        text = text[1:-1].strip()
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        character = text[position]
        if character == " ":
            position += 1
        elif character in "\"'" and (quoted := _quoted(text, position)) is not None:
            tokens.append(Token(quoted, '"'))
            position += len(quoted) + 2
        elif match := _WORD.match(text, position):
            tokens += _split_possessive(match.group())
            position = match.end()
        elif character == "'" and tokens and tokens[-1].word.endswith("s"):
            tokens.append(Token("'", "'"))
            position += 1
        elif character in ".!?;,():":
            tokens.append(Token(character, "." if character in "!?" else character))
            position += 1
        else:
            return None
    is_foreign = any(not one.word.isascii() and one.word not in _ACCENTED and not one.is_quote for one in tokens)
    return None if is_foreign else tokens


def _quoted(text: str, start: int) -> str | None:
    """The text between the quote at a position and the next one of its kind that no letter follows; None without."""
    mark = text[start]
    if start and text[start - 1].isalnum():
        return None
    end = start
    while True:
        end = text.find(mark, end + 1, start + _MAX_QUOTED)
        if end < 0:
            return None
        if mark == '"' or not text[end + 1 : end + 2].isalnum():
            quoted = text[start + 1 : end]
            return quoted if quoted.strip() else None


def _split_possessive(word: str) -> list[Token]:
    lower = word.lower()
    if lower.endswith("'s") and lower not in _POSSESSIVE_NAMES:
        return [Token(word[:-2], lower[:-2]), Token("'s", "'s")]
    return [Token(word, lower)]


def has_refused_word(tokens: Tokens, *, errands: bool = True) -> bool:
    """Whether a word says that this is an order to somebody else, another language or, if `errands`, an errand."""
    words = ["" if token.is_quote else token.word for token in tokens]
    words = words[1:] if words and words[0] in ("i", "i'd") else words  # "I want the wall to be green"
    words = words[2:] if words[:3] in (["can", "we", "have"], ["could", "we", "have"]) else words
    for word, after in zip(words, (*words[1:], ""), strict=False):
        if word in _REFUSED and not (word == "my" and words[0] in _OF_MINE):
            return True
        if errands and word in lex.ERRANDS and not (word in _BINS and after in _BIN_NOUNS and "take" not in words):
            return True
    return False


def scene_end(tokens: Tokens, start: int) -> int | None:
    """The index after a phrase such as "in the image" or "visible in this photo"; None without one."""
    words = words_in(tokens[start : start + 6])
    index = 1 if word_at(words, 0) in lex.MENTIONED else 0
    if words[index : index + 2] == ["out", "of"]:
        index += 1
    if word_at(words, index) in _OF_SCENES:
        nouns = lex.SCENES if words[index] in ("on", "for", "across") else lex.SCENES | {"frame"}
        index += 1
        after = word_at(words, index + 1)
        is_last = not after[:1].isalnum() or (after != "of" and after in lex.STOPS)
        if word_at(words, index) in lex.SCENES and is_last and after != "'s":
            return start + index + 1  # "from photo"
        if word_at(words, index) in (*_THIS, "an", "a"):
            index += 2 if word_at(words, index + 1) in _WHOLE else 1
            if word_at(words, index) in nouns and word_at(words, index + 1) not in ("'s", "of"):
                return start + index + 1
    return start + 1 if words in (["visible"], ["present"], ["shown"]) else None


def without_scene(tokens: Tokens) -> tuple[Tokens, bool]:
    """The tokens without "in the image" at their end, and whether there was one."""
    for size in (4, 3):
        start = len(tokens) - size
        is_scene = start > 1 and scene_end(tokens, start) == len(tokens)
        if is_scene and tokens[start].word in ("in", "within", "from") and tokens[start + 1].word in _THIS:
            return tokens[:start], True
    return tokens, False


def plain_request(sentence: str) -> str:
    """The sentence without polite words in front of it, and behind it after a mark; as it is where it has none."""
    words = sentence.strip()
    for start in sorted(_ASKING, key=len, reverse=True):
        if words.casefold().startswith(f"{start} "):
            words = words[len(start) + 1 :].lstrip().rstrip("?").rstrip()
            break
    bare = words.rstrip(" .!")
    for end in _THANKS:
        kept = bare[: -len(end)].rstrip()
        if bare.casefold().endswith(end) and kept.endswith((",", ".", "!")):
            return kept.rstrip(" ,.!")
    return words


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
    sentences = [list(words) for is_end, words in groupby(tokens, lambda token: token.word in (".", ";")) if not is_end]
    return [
        clause
        for number, sentence in enumerate(sentences)
        if not set(words_in(sentence)) <= GREETINGS
        for clause in _split(_without_politeness(sentence), number)
    ]


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


def _split(tokens: list[Token], number: int) -> Iterator[Clause]:
    current: ClauseKind
    current, start = _kind_at(tokens, 0) or ("request", 0)
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
    first, second = word_at(words, 0), word_at(words, 1)
    if words[:2] == ["nothing", "else"] or (words[:2] in _REST and word_at(words, 2) in _STAYING):
        return "keep", index
    if first in lex.KEEP_VERBS | lex.KEEPING | {"staying", "remaining"} and second:
        return "keep", index + 1
    if (first == "without" and second in WITHOUT_WORDS) or (first == "don't" and second in _CHANGED):
        return "keep", index + 2
    return ("keep", index + 3) if words[:2] == ["do", "not"] and word_at(words, 2) in _CHANGED else None


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
    if words[0] in _NOTES or word == "while":
        return "note", begin
    is_request = (
        words[0] in lex.CLAUSE_VERBS and words[1:] and (words[0] in _ALWAYS_VERBS or words[1] in _OBJECT_STARTS)
    )
    return ("request", begin) if is_request else None


def is_scene(tokens: Tokens) -> bool:
    """Whether tokens name the whole picture: "the image", "this whole photo"."""
    words = words_in(stripped(tokens, _BEFORE_SCENES))
    return len(words) == 1 and words[0] in lex.SCENES and "another" not in words_in(tokens)
