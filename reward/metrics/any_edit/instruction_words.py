"""The words of an instruction: clauses, quoted texts, stems. Everything here takes time linear in the text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from .english_words import FUNCTION_WORDS, NOT_LEADING, NUMBERS, REQUEST_WORDS, SCENE_WORDS, SPELLINGS, VERBS

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_MARK = re.compile(r"[,;:.!?，；：。！？]")  # noqa: RUF001  (of Chinese)
_OPENING = "\"'“‘«「『„"  # noqa: RUF001
_CLOSING: Mapping[str, str] = MappingProxyType(dict(zip(_OPENING, "\"'”’»」』“", strict=True)))
_QUOTE = re.compile(f"[{_OPENING}]")
_APOSTROPHES = "'‘’"  # noqa: RUF001


def collapsed(text: str) -> str:
    """The text with single blanks, and with compatibility characters, such as full-width letters, replaced."""
    return " ".join(unicodedata.normalize("NFKC", text).split())


def words_of(text: str) -> list[str]:
    """The words and numbers of a text, in lower case; a run of letters of a script without blanks is one word."""
    return [word.casefold().replace("’", "'") for word in _WORD.findall(text)]


def clauses_of(sentence: str) -> list[list[str]]:
    """The words of the parts of a sentence between punctuation marks and the words "and", "then", "while", "but"."""
    clauses: list[list[str]] = []
    for part in _MARK.split(sentence):
        clauses.append([])
        for word in words_of(part):
            if word in ("and", "then", "while", "but"):
                clauses.append([])
            else:
                clauses[-1].append(word)
    return [clause for clause in clauses if clause]


def split_quotes(sentence: str) -> tuple[str, list[str]]:
    """A sentence with quoted texts blanked out, and these texts. Quotes around the whole sentence are none.

    Single quotes open after a blank or a mark only, and close before one only: they are apostrophes otherwise.
    """
    sentence = _unwrapped(sentence)
    if _QUOTE.search(sentence) is None:
        return sentence, []
    ends = {closing: _next_positions(sentence, closing) for mark, closing in _CLOSING.items() if mark in sentence}
    plain: list[str] = []
    quoted: list[str] = []
    position = 0
    while position < len(sentence):
        mark = sentence[position]
        end = ends[_CLOSING[mark]][position + 1] if mark in _CLOSING and _opens(sentence, position) else -1
        if end < 0:
            plain.append(mark)
            position += 1
        else:
            quoted.append(sentence[position + 1 : end])
            plain.append(" ")
            position = end + 1
    return "".join(plain), [text for text in quoted if text.strip()]


def _unwrapped(sentence: str) -> str:
    sentence = sentence.strip()
    is_wrapped = len(sentence) > 1 and sentence[0] in '"“' and sentence[-1] in '"”'
    return sentence[1:-1] if is_wrapped and not set(sentence[1:-1]) & set('"“”') else sentence


def _opens(sentence: str, position: int) -> bool:
    if sentence[position] not in _APOSTROPHES:
        return True
    return position == 0 or not sentence[position - 1].isalnum()


def _next_positions(sentence: str, mark: str) -> list[int]:
    """For each position, that of the next closing mark at or after it; -1 without one."""
    positions = [-1] * (len(sentence) + 2)
    for position in range(len(sentence) - 1, -1, -1):
        is_apostrophe = mark in _APOSTROPHES and sentence[position + 1 : position + 2].isalnum()
        positions[position] = position if sentence[position] == mark and not is_apostrophe else positions[position + 1]
    return positions


def is_english(sentence: str, language: str) -> bool:
    """Whether the lists of English words apply: by the plan's language, if at least half of the letters are Latin."""
    if language.lower().split("-")[0] != "en":
        return False
    if sentence.isascii():
        return True
    letters = [character for character in sentence if character.isalpha()]
    return 2 * sum(one.isascii() for one in letters) >= len(letters)


_ENGLISH_SHARE = 0.3
"""Share of words that are English function words or verbs of editing from which on a sentence reads as English. They
make half of an English request; other languages share few of them ("in", "die", "change")."""


def reads_as_english(sentence: str) -> bool:
    """Whether a sentence is English by its own words, whatever a planner says."""
    words = [word for word in words_of(sentence) if word.isascii()]
    known = FUNCTION_WORDS | SCENE_WORDS
    count = sum(word in known or stem(word) in VERB_GROUPS for word in words)
    return is_english(sentence, "en") and count >= max(1.0, _ENGLISH_SHARE * len(words))


# -- stems -------------------------------------------------------------------------------------------------------------

_SUFFIXES = ("ingly", "edly", "ing", "ed", "es", "s", "ly", "est", "er", "en", "y", "ish")


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """A crude English stem: plurals, -ing, -ed, -er, -est, -ly, -y, -en and British spellings make no difference."""
    word = word.removesuffix("'s").removesuffix("'")
    word = SPELLINGS.get(word, word)
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3 and not word.endswith("ss"):
            word = word[: -len(suffix)]
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiouls":
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def stems(text: str) -> set[str]:
    """The stems of all words of a text."""
    return {stem(word) for word in words_of(text)}


def stems_of(words: Iterable[str]) -> frozenset[str]:
    """The stems of words."""
    return frozenset(map(stem, words))


VERB_GROUPS: Mapping[str, str] = MappingProxyType(
    {stem(verb): group for group, verbs in VERBS.items() for verb in verbs.split()}
)
"""Stem of a verb of editing -> its group in `VERBS`."""
VERB_FORMS: Mapping[str, str] = MappingProxyType(
    {
        form: group
        for group, verbs in VERBS.items()
        for verb in verbs.split()
        for form in (verb, f"{verb}ing", f"{verb.removesuffix('e')}ing", f"{verb}{verb[-1]}ing")
        if form not in NOT_LEADING
    }
)
"""Form of a verb that begins a request inside a sentence -> its group; not "painted", as in "a painted wall"."""
_NO_CONTENT = stems_of(SCENE_WORDS | REQUEST_WORDS) | VERB_GROUPS.keys()


def content_stems(words: Iterable[str]) -> set[str]:
    """Stems of words with a meaning of their own: no function words, words of the scene, or verbs of editing."""
    return {stem(word) for word in words if word not in FUNCTION_WORDS} - _NO_CONTENT


def without_image_numbers(words: Sequence[str]) -> list[str]:
    """The words without those that tell source images apart, as in "of the second picture" and "into the first one"."""
    return [
        word
        for word, after in zip(words, [*words[1:], ""], strict=False)
        if not (word in _ORDINALS and (after in SCENE_WORDS or after == "one"))
    ]


_ORDINALS = frozenset(("first", "second", "third", "fourth"))


def number_of(word: str) -> int | None:
    """The value of a number in digits ("3", "3rd"), or of an English word for it from two to twelve; else None."""
    digits = word.removesuffix("st").removesuffix("nd").removesuffix("rd").removesuffix("th")
    return int(digits) if digits.isdecimal() and len(digits) <= 9 else NUMBERS.get(word)
