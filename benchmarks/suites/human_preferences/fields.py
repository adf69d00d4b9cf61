"""Rows of preference sets and their fields, read within bounds and checked."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ....reward.plain_text import check_name, check_text, one_line
from ....reward.strict_json import read_json
from ...common.errors import InputError
from .comparison import Comparison, InvalidRow

Row = Mapping[str, Any]
Read = TypeVar("Read")

MAX_JSON_VALUES = 2_000_000
"""Values of the largest JSON file that is read: the published ones have some 10,000."""


class RowError(ValueError):
    """A row that is no comparison; the message says why."""


def json_rows(path: Path) -> list[tuple[str, Row]]:
    """Location and fields of each row of a JSON file with a list of objects. Raises `InputError`."""
    try:
        rows = read_json(path, max_values=MAX_JSON_VALUES)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{path} cannot be read: {one_line(str(error))}") from None
    if not isinstance(rows, list) or not rows:
        got = "an empty one" if rows == [] else type(rows).__name__
        raise InputError(f"{path}: expected a list of rows, got {got}")
    return [(f"{path}, row {index}", row if isinstance(row, dict) else {}) for index, row in enumerate(rows)]


def numbered(rows: Iterable[tuple[str, Row]]) -> Iterator[tuple[str, Row]]:
    """Rows without an id of their own, with their number as `number`."""
    return ((location, {**row, "number": index}) for index, (location, row) in enumerate(rows))


def comparisons(
    rows: Iterable[tuple[str, Row]], read: Callable[[Row, str], Comparison]
) -> Iterator[Comparison | InvalidRow]:
    """Each row read; `InvalidRow` for those that raise `RowError`, and for a second one with the same id.

    read: called with a row and its location.
    """
    locations: dict[str, str] = {}
    for location, row in rows:
        try:
            comparison = read(row, location)
            check_name(comparison.id)
        except ValueError as error:
            yield InvalidRow(location, one_line(str(error)))
            continue
        if (first := locations.setdefault(comparison.id, location)) != location:
            yield InvalidRow(location, f"the id {comparison.id!r} is also that of {first}")
        else:
            yield comparison


def text(row: Row, name: str) -> str:
    """A field that is text, without space around it. Raises `RowError`."""
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise RowError(f"expected text in {name!r}, got {value!r:.80}")
    try:
        check_text(value)
    except ValueError as error:
        raise RowError(f"{name!r}: {error}") from None
    return value.strip()


def choice(row: Row, name: str, values: Mapping[str, Read]) -> Read:
    """The meaning of a field that has one of these values. Raises `RowError`."""
    value = row.get(name)
    if not isinstance(value, str) or value not in values:
        raise RowError(f"expected {' or '.join(map(repr, values))} in {name!r}, got {value!r:.80}")
    return values[value]


def number(row: Row, name: str) -> float:
    """A field that is a finite number. Raises `RowError`."""
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise RowError(f"expected a number in {name!r}, got {value!r:.80}")
    return float(value)


def names(row: Row, name: str, count: range) -> list[Any]:
    """A field that is a list of so many entries. Raises `RowError`."""
    value = row.get(name)
    if not isinstance(value, list) or len(value) not in count:
        got = f"{len(value)} entries" if isinstance(value, list) else f"{value!r:.80}"
        raise RowError(f"expected a list of {count.start} to {count.stop - 1} entries in {name!r}, got {got}")
    return value
