"""Texts and names that a stranger chose, before they are stored or shown."""

from __future__ import annotations

import re
from unicodedata import category

MAX_NAME = 1_000
"""Characters of an id, a group or another name."""
MAX_LINE = 1_500
"""Characters of a message, about."""
_DIRECTIONS = frozenset(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))))
_SHOWN = frozenset("\n\t")
_ODD = re.compile(r"[^\t\n\x20-\x7e]")  # what `is_control` has to look at


def is_control(letter: str) -> bool:
    """Whether a character acts on a terminal or page rather than being shown: escapes, line breaks, directions of
    writing; and lone surrogates."""
    return category(letter) in ("Cc", "Cs", "Zl", "Zp") or letter in _DIRECTIONS


def printable(text: str) -> str:
    """A text as it can be printed: control characters but line breaks and tabs are written as in Python."""
    return _escaped(text, _SHOWN) if _ODD.search(text) else text


def one_line(text: str) -> str:
    """A message with words of a stranger, as one line of at most `MAX_LINE` characters, the middle left out."""
    if len(text) > MAX_LINE:
        text = f"{text[: MAX_LINE * 3 // 4]} [...] {text[-MAX_LINE // 4 :]}"
    return text if text.isprintable() else _escaped(text, frozenset())


def _escaped(text: str, kept: frozenset[str]) -> str:
    return "".join(ascii(letter)[1:-1] if letter not in kept and is_control(letter) else letter for letter in text)


def check_text(text: str) -> None:
    """Raise ValueError for a lone surrogate, which no file, terminal or database can store."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        shown = text[max(error.start - 20, 0) : error.start + 20]
        raise ValueError(f"{shown!a} has a lone surrogate, which is no character") from None


def check_name(name: str) -> None:
    """Raise ValueError for a name that is long, or has a control character, a line break or a lone surrogate."""
    if len(name) > MAX_NAME:
        raise ValueError(f"the name {name[:40]!a}... has {len(name):,} characters, more than {MAX_NAME:,}")
    if not name.isprintable() and (odd := [letter for letter in name if is_control(letter)]):
        raise ValueError(f"the name {name!a:.200} has the control character U+{ord(odd[0]):04X}: write it without")
