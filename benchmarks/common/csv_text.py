"""CSV that a spreadsheet shows as it is.

A spreadsheet computes a cell that begins like a formula: `=WEBSERVICE(...)` in the name of an editor would send what
stands beside it. Such a cell gets an apostrophe in front, which a spreadsheet takes as "text follows". No other text
begins with apostrophes before such a letter, so a reader gets every text back by removing the first of them.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV, where texts are quoted as `cell` does."""
    return "".join(map(_line, rows))


def _line(row: Sequence[object]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow([cell(value) for value in row])  # which are quoted in cells
    return out.getvalue().removesuffix("\r\n") + "\n"


def cell(value: object) -> object:
    """A value to be written: an apostrophe before a text that begins like a formula and is no number."""
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value
