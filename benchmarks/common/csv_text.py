"""CSV that a spreadsheet shows as it is: a cell that begins like a formula, such as `=WEBSERVICE(...)` in an editor's
name, gets an apostrophe in front. Where lists are separated by semicolons or tabs, these and breaks begin cells too.
No other text has an apostrophe before such a letter there, so `plain` gives every text back."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

_FORMULA = re.compile(r"\A(?='*[=+\-@\t\r\n])|(?<=[;\t\r\n])(?='*[=+\-@])")
_QUOTED = re.compile(r"\A'(?='*[=+\-@\t\r\n])|(?<=[;\t\r\n])'(?='*[=+\-@])")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV, where texts are quoted as `cell` does."""
    return "".join(map(_line, rows))


def _line(row: Sequence[object]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow([cell(value) for value in row])  # which are quoted in cells
    return out.getvalue().removesuffix("\r\n") + "\n"


def cell(value: object) -> object:
    """A value to be written: an apostrophe before what begins like a formula, unless the text is a number."""
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        return _FORMULA.sub("'", value)
    return value


def plain(text: str) -> str:
    """The text that `cell` wrote so."""
    return _QUOTED.sub("", text)
