"""Tokens of a sentence, and what makes it none of ours before it is parsed: other scripts, markup, orders, errands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...metrics.any_edit.instruction_words import collapsed
from ...sample_limits import MAX_INSTRUCTION
from .lexicon import FIRST_AND_SECOND_PERSON, word_set
from .refused_words import ERRANDS, FOREIGN, ORDERS

_APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "`": "'", "“": '"', "”": '"', "–": "-", "—": "-"})  # noqa: RUF001
_WORD = re.compile(r"[A-Za-zÀ-ÖØ-öø-ÿ0-9]+(?:[-'][A-Za-zÀ-ÖØ-öø-ÿ0-9]+)*")
_ACCENTED = word_set(
    "café cafés décor façade façades crème brûlée purée jalapeño piñata fiancé fiancée naïve rosé entrée"
)
_POSSESSIVE_NAMES = frozenset(("it's", "that's", "there's", "he's", "she's", "what's", "let's", "who's"))


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
    """The tokens of a sentence; None where it has characters or words that no request of ours has.

    Possessive endings are tokens of their own; "." stands for any end of a sentence.
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
    return tokens if not _is_foreign(tokens) else None


_MAX_QUOTED = 200


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


_REFUSED = (ORDERS | FOREIGN | FIRST_AND_SECOND_PERSON) - frozenset(("me", "let's", "us"))


def _is_foreign(tokens: Tokens) -> bool:
    return any(not token.word.isascii() and token.word not in _ACCENTED and not token.is_quote for token in tokens)


def has_refused_word(tokens: Tokens, *, errands: bool = True) -> bool:
    """Whether a word says that this is an order to somebody else, another language or, if `errands`, an errand."""
    words = ["" if token.is_quote else token.word for token in tokens]
    words = words[1:] if words and words[0] in ("i", "i'd") else words  # "I want the wall to be green"
    words = words[2:] if words[:3] in (["can", "we", "have"], ["could", "we", "have"]) else words
    for word, after in zip(words, (*words[1:], ""), strict=False):
        if word in _REFUSED and not (word == "my" and words[0] in _OF_MINE):
            return True
        if errands and word in ERRANDS and not (word in _BINS and after in _BIN_NOUNS and "take" not in words):
            return True
    return False


_OF_MINE = word_set("remove erase delete make turn blur paint color change replace brighten darken extract")
"""Verbs whose object may be "my dog": what is added is not in the picture, and may be nobody's."""
_BINS, _BIN_NOUNS = word_set("trash garbage rubbish recycling"), word_set("can cans bin bins bag bags")
