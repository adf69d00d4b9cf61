"""Tables in GitHub Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


def table_lines(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """The lines of a table: a row for each of `rows`, whose cells are written as text."""
    yield _line(columns)
    yield f"|{'---|' * len(columns)}"
    for row in rows:
        yield _line(row)


def _line(cells: Sequence[object]) -> str:
    return "".join(f"| {cell} " if str(cell) else "| " for cell in cells) + "|"
