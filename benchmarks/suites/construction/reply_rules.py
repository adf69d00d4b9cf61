"""What a judge's words must be like to stand in an instruction: rules, so that the same answer is always read alike."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from ...reward.reading import said_json, short

_LABEL = re.compile(
    r"\A\W*(?:(?:the|my)\s+)?(?:new|suggested|answer|instruction)[\w ]{0,24}:\s*", re.IGNORECASE
)  # as in "New object: lamp"
_REFUSAL = re.compile(
    r"\b(?:sorry|apologi[sz]e|as an ai|i\s*(?:'|\u2019)?\s*m unable|i am unable"
    r"|i (?:can(?:not|\s?n?['\u2019]t)|won['\u2019]t|do not|don['\u2019]t))\b",
    re.IGNORECASE,
)
_QUOTES = "\"'`\u2018\u2019\u201c\u201d\u00ab\u00bb"
_MARKS = re.compile(r"[\[\]{}<>\\|\n\r\t]")
_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")

LONGEST_WORD = 30
MOST_WORDS = 60
"""Of an instruction: what is longer has a story in it, or got stuck."""


def refuse_refusals(said: str) -> None:
    """Raise ValueError where a judge says that it will not or cannot answer."""
    if not said.strip():
        raise ValueError("it said nothing")
    if _REFUSAL.search(said[:200]):
        raise ValueError(f"it refused: {short(said)}")


def fields(schema: str, said: str) -> Any:
    """The JSON of a schema in an answer. Raises ValueError, which says so where the judge refused."""
    try:
        return said_json(schema, said)
    except ValueError:
        refuse_refusals(said)
        raise


def bare(said: str) -> str:
    """An answer of one line without a label before it, quotation marks around it and a full stop behind it."""
    text = _LABEL.sub("", said.strip(), count=1).strip()
    while True:
        before = text
        text = text.strip().strip("*").rstrip(".\u3002").strip()
        if len(text) > 1 and text[0] in _QUOTES and text[-1] in _QUOTES:
            text = text[1:-1]
        if text == before:
            return text


def name(said: str, what: str, *, most: int = 4) -> str:
    """A name of at most so many words, in lower case. Raises ValueError for anything else."""
    refuse_refusals(said)
    text = re.sub(r"\A(?:an?|the)\s+", "", bare(said), flags=re.IGNORECASE).casefold()
    if not text:
        raise ValueError(f"no {what} in {short(said)}")
    if _MARKS.search(text) or re.search(r"[.,;:!?()/\"\d]|\b(?:and|or)\b", text):
        raise ValueError(f"more than the name of one {what}: {short(said)}")
    if len(text.split()) > most:
        raise ValueError(f"{len(text.split())} words for a {what}, at most {most} are wanted: {short(said)}")
    if reason := garbled(text):
        raise ValueError(f"{reason}: {short(said)}")
    return text


def lettering(said: str) -> str:
    """Words to be written in a picture: one or two, or one to four Chinese characters. Raises ValueError."""
    refuse_refusals(said)
    text = bare(said)
    if not text or _MARKS.search(text) or any(mark in text for mark in _QUOTES):
        raise ValueError(f"more than letters to write: {short(said)}")
    if _HAN.search(text):
        if len(text) > 4 or not all(_HAN.match(letter) for letter in text):
            raise ValueError(f"more than four Chinese characters: {short(said)}")
    elif len(text.split()) > 2 or max(map(len, text.split())) > LONGEST_WORD:
        raise ValueError(f"more than two words: {short(said)}")
    return text


def sentence(said: str, *, most: int = MOST_WORDS) -> str:
    """An instruction in one line, of at most so many words. Raises ValueError for one that is garbled or empty."""
    text = " ".join(said.split())
    refuse_refusals(text)
    if len(text.split()) > most:
        raise ValueError(f"{len(text.split())} words, at most {most} are wanted: {short(said)}")
    if reason := garbled(text):
        raise ValueError(f"{reason}: {short(said)}")
    return text


def garbled(text: str) -> str:
    """Why a text looks like what a judge writes at a high temperature once it has lost its way; empty if it does not.

    Rules, outside of what stands in quotation marks: no control or private characters and no replacement character
    anywhere; no brackets and back slashes of code; no word longer than 30 letters; no word three times in a row; no
    letters of two scripts; no capital letter behind a small one in the same word twice over (`cAmElcAsE`); at least
    half of the characters letters or blanks.
    """
    if any(unicodedata.category(letter) in ("Cc", "Co", "Cs", "Cn") or letter == "\ufffd" for letter in text):
        return "it holds characters that nobody writes"
    plain = re.sub(r"([\"'\u2018\u201c\u00ab])(?:(?!\1).){1,60}?[\"'\u2019\u201d\u00bb]", " ", text)
    if _MARKS.search(plain):
        return "it holds brackets or marks of code"
    words = re.findall(r"[^\W\d_]+", plain)
    if not words and plain == text:
        return "it holds no words"
    if long := next((word for word in words if len(word) > LONGEST_WORD), ""):
        return f"it holds a word of {len(long)} letters"
    folded = [word.casefold() for word in words]
    if any(a == b == c for a, b, c in zip(folded, folded[1:], folded[2:], strict=False)):
        return "it says the same word three times in a row"
    if len(scripts := {_script(letter) for word in words for letter in word} - {""}) > 1:
        return f"it mixes {' and '.join(sorted(scripts))} letters"
    if any(len(re.findall(r"[a-z][A-Z]", word)) > 1 for word in words):
        return "it holds a word of mixed capitals"
    if words and sum(letter.isalpha() or letter.isspace() for letter in plain) * 2 < len(plain):
        return "it is mostly signs and digits"
    return ""


def _script(letter: str) -> str:
    """LATIN, CYRILLIC, CJK, ...; empty for letters that many scripts share."""
    found = unicodedata.name(letter, "").split(" ")[0]
    return {"HIRAGANA": "CJK", "KATAKANA": "CJK", "MICRO": "", "MODIFIER": "", "MASCULINE": "", "FEMININE": ""}.get(
        found, found
    )
