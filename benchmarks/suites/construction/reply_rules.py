"""Rules for text of a judge that becomes part of an instruction: deterministic, for reproducible data."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

from ....reward.queries.parsing import parse_json, shorten

_LABEL = re.compile(
    r"\A\W*(?:(?:the|my)\s+)?(?:new|suggested|answer|instruction)[\w ]{0,24}:\s*", re.IGNORECASE
)  # as in "New object: lamp"
_REFUSAL = re.compile(
    r"\b(?:sorry|apologi[sz]e|as an ai|i\s*(?:'|\u2019)?\s*m unable|i am unable"
    r"|i (?:can(?:not|\s?n?['\u2019]t)|won['\u2019]t|do not|don['\u2019]t))\b",
    re.IGNORECASE,
)
_QUOTES = "\"'`\u2018\u2019\u201c\u201d\u00ab\u00bb"
_SURROUNDING: tuple[tuple[Callable[[str], bool], bool], ...] = (
    (str.isspace, True),
    ("*".__contains__, True),
    (".\u3002".__contains__, False),
    (str.isspace, True),
)
"""What is stripped around an answer, and whether before it, too."""
_MARKS = re.compile(r"[\[\]{}<>\\|\n\r\t]")
_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")

TEXT: Mapping[str, Any] = {"type": "string"}
"""JSON schema of a field that is text."""

MAX_WORD_LENGTH = 30
MAX_WORDS = 60
"""Maximum words of an instruction: longer replies are stories or repetitions."""


def object_schema(**properties: Any) -> str:
    """The JSON schema of an object that has all of these fields."""
    return json.dumps({"type": "object", "properties": properties, "required": list(properties)})


def reject_refusals(reply: str) -> None:
    """Raise ValueError if the reply is empty or a refusal."""
    if not reply.strip():
        raise ValueError("the reply is empty")
    if _REFUSAL.search(reply[:200]):
        raise ValueError(f"it refused: {shorten(reply)}")


def parse_fields(schema: str, reply: str) -> Any:
    """Parse the JSON of a schema in a reply. Raises ValueError, also for a refusal."""
    try:
        return parse_json(schema, reply)
    except ValueError:
        reject_refusals(reply)
        raise


def strip_answer(reply: str) -> str:
    """A one-line reply without a leading label, surrounding quotation marks and a final full stop."""
    text = _LABEL.sub("", reply.strip(), count=1).strip()
    start, end = 0, len(text)  # a copy for each mark would take quadratic time
    while True:
        previous = start, end
        for is_mark, is_leading in _SURROUNDING:
            while start < end and is_mark(text[end - 1]):
                end -= 1
            while is_leading and start < end and is_mark(text[start]):
                start += 1
        if end - start > 1 and text[start] in _QUOTES and text[end - 1] in _QUOTES:
            start, end = start + 1, end - 1
        if (start, end) == previous:
            return text[start:end]


def parse_name(reply: str, noun: str, *, max_words: int = 4) -> str:
    """Parse a name of at most `max_words` words, in lower case. Raises ValueError for anything else."""
    reject_refusals(reply)
    text = re.sub(r"\A(?:an?|the)\s+", "", strip_answer(reply), flags=re.IGNORECASE).casefold()
    if not text:
        raise ValueError(f"no {noun} in {shorten(reply)}")
    if _MARKS.search(text) or re.search(r"[.,;:!?()/\"\d]|\b(?:and|or)\b", text):
        raise ValueError(f"more than the name of one {noun}: {shorten(reply)}")
    if len(text.split()) > max_words:
        raise ValueError(f"{len(text.split())} words for a {noun}, at most {max_words} are allowed: {shorten(reply)}")
    if reason := garbled_reason(text):
        raise ValueError(f"{reason}: {shorten(reply)}")
    return text


def parse_rendered_text(reply: str) -> str:
    """Parse text to render in an image: one or two words, or up to four Chinese characters. Raises ValueError."""
    reject_refusals(reply)
    text = strip_answer(reply)
    if not text or _MARKS.search(text) or any(mark in text for mark in _QUOTES):
        raise ValueError(f"more than text to render: {shorten(reply)}")
    if _HAN.search(text):
        if len(text) > 4 or not all(_HAN.match(letter) for letter in text):
            raise ValueError(f"more than four Chinese characters: {shorten(reply)}")
    elif len(text.split()) > 2 or max(map(len, text.split())) > MAX_WORD_LENGTH:
        raise ValueError(f"more than two words: {shorten(reply)}")
    return text


def parse_sentence(reply: str, *, max_words: int = MAX_WORDS) -> str:
    """Parse a one-line instruction of at most `max_words` words. Raises ValueError if it is garbled or empty."""
    text = " ".join(reply.split())
    reject_refusals(text)
    if len(text.split()) > max_words:
        raise ValueError(f"{len(text.split())} words, at most {max_words} are allowed: {shorten(reply)}")
    if reason := garbled_reason(text):
        raise ValueError(f"{reason}: {shorten(reply)}")
    return text


def garbled_reason(text: str) -> str:
    """Why a text looks garbled, as replies at a high temperature can be; empty if it does not.

    Anywhere: control, private or replacement characters. Outside of quotation marks: brackets and back slashes of code;
    no word at all; one of over 30 letters, three times in a row, or with two capitals after small letters; letters of
    two scripts; less than half letters or blanks.
    """
    if any(unicodedata.category(letter) in ("Cc", "Co", "Cs", "Cn") or letter == "\ufffd" for letter in text):
        return "it contains invalid characters"
    unquoted = re.sub(r"([\"'\u2018\u201c\u00ab])(?:(?!\1).){1,60}?[\"'\u2019\u201d\u00bb]", " ", text)
    if _MARKS.search(unquoted):
        return "it contains brackets or code symbols"
    words = re.findall(r"[^\W\d_]+", unquoted)
    if not words and unquoted == text:
        return "it contains no words"
    if long_word := next((word for word in words if len(word) > MAX_WORD_LENGTH), ""):
        return f"it contains a word of {len(long_word)} letters"
    folded = [word.casefold() for word in words]
    if any(a == b == c for a, b, c in zip(folded, folded[1:], folded[2:], strict=False)):
        return "it repeats a word three times in a row"
    if len(scripts := {_script(letter) for word in words for letter in word} - {""}) > 1:
        return f"it mixes {' and '.join(sorted(scripts))} letters"
    if any(len(re.findall(r"[a-z][A-Z]", word)) > 1 for word in words):
        return "it contains a word of mixed capitals"
    if words and sum(letter.isalpha() or letter.isspace() for letter in unquoted) * 2 < len(unquoted):
        return "it is mostly symbols and digits"
    return ""


def _script(letter: str) -> str:
    """LATIN, CYRILLIC, CJK, ...; empty for letters that many scripts share."""
    script = unicodedata.name(letter, "").split(" ")[0]
    return {"HIRAGANA": "CJK", "KATAKANA": "CJK", "MICRO": "", "MODIFIER": "", "MASCULINE": "", "FEMININE": ""}.get(
        script, script
    )
