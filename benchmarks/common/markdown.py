"""Tables in GitHub Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from ...reward.plain_text import one_line


def table_lines(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """The lines of a table: a row for each of `rows`, whose cells are written as Markdown. A `|` in them is escaped."""
    yield _line(columns)
    yield f"|{'---|' * len(columns)}"
    for row in rows:
        yield _line(row)


def markdown_text(text: str) -> str:
    """A stranger's name or words, as Markdown that shows them: neither HTML, nor a link or picture, nor a new line."""
    return _ACTIVE.sub(_escape, one_line(text))


_ACTIVE = re.compile(r"[\\\\<>|]|\]\(|\]\[|\]:")


def _escape(match: re.Match[str]) -> str:
    return {"<": "&lt;", ">": "&gt;"}.get(match[0], f"\\{match[0]}")


def _line(cells: Sequence[object]) -> str:
    return "".join(f"| {cell} " if str(cell) else "| " for cell in cells) + "|"
