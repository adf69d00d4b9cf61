"""Rows of published data: each is read, or a problem with its location and the reason; and checks of their fields."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ...reward.plain_text import check_name, check_text, one_line
from ...reward.strict_json import json_lines
from ..common.errors import InputError
from ..common.problems import Problems
from .split_files import LargeCell

T = TypeVar("T")
Row = Mapping[str, Any]

MAX_NAME = 200
"""Characters of a name that outputs are called after: names of files have 255 bytes."""


@dataclass(frozen=True, slots=True)
class DataProblem:
    """A problem of a part of the data: its location, and what to do about it."""

    location: str
    message: str

    def __str__(self) -> str:
        return f"{self.location}: {self.message}"


def read_rows(
    rows: Iterable[tuple[str, Any]], read: Callable[[Row, str], T], name_of: Callable[[T], str] | None = None
) -> Iterator[T | DataProblem]:
    """Each row read; a problem for one that `read` refuses, and for a second one with the same id. rows: with their
    locations. read: called with a row and its location; raises ValueError, or OSError of a name that no file can have.
    name_of: the id of what was read, where they are unique."""
    locations: dict[str, str] = {}
    for location, row in rows:
        try:
            one = read(_object(row), location)
            if name_of is not None:
                name = name_of(one)
                check_name(name)
                if (first := locations.setdefault(name, location)) != location:
                    raise ValueError(f"the id {name!r} is also that of {first}: make it unique")
        except (ValueError, OSError) as error:
            yield DataProblem(location, one_line(str(error)))
        else:
            yield one


def usable(rows: Iterable[T | DataProblem], problems: Problems[DataProblem]) -> list[T]:
    """The rows that could be read; the others are added to the problems."""
    found: list[T] = []
    for row in rows:
        if isinstance(row, DataProblem):
            problems.append(row)
        else:
            found.append(row)
    return found


def object_lines(path: Path, layout: str) -> Iterator[tuple[str, Any]]:
    """Location and value of each line of a JSONL file. layout: what to give, for messages. Raises `InputError`."""
    try:
        for number, row in json_lines(path):
            yield f"{path}:{number}", row
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): {layout}") from None


def _object(row: Any) -> Row:
    if isinstance(row, Mapping):
        return row
    raise ValueError(
        f"is {row if isinstance(row, ValueError) else type(row).__name__}: one object per line is expected"
    )


def reasons(problems: Sequence[DataProblem], otherwise: str) -> str:
    """The first problems in one text, for an error; otherwise: where there are none."""
    return "; ".join(map(str, problems[:3])) or otherwise


Aliases = Mapping[str, Sequence[str]]


def field(row: Row, name: str, aliases: Aliases) -> Any:
    """The row's value under any of the field's names; None if all are absent or empty."""
    return next((row[alias] for alias in aliases[name] if row.get(alias) not in (None, "", [], {})), None)


def lacking(missing: Iterable[str], aliases: Aliases) -> str:
    """What a row lacks, with all names that are accepted."""
    return "lacks " + "; ".join(f"{name} (accepted: {', '.join(aliases[name])})" for name in missing)


def text(row: Row, name: str) -> str:
    """A field that is text, without space around it. Raises ValueError."""
    value = row.get(name)
    if isinstance(value, LargeCell):
        raise ValueError(f"{name} has {value}: it is not read")
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"expected text in {name!r}, got {value!r:.80}")
    try:
        check_text(value)
    except ValueError as error:
        raise ValueError(f"{name!r}: {error}") from None
    return value.strip()


def choice(row: Row, name: str, values: Mapping[str, T]) -> T:
    """The meaning of a field that has one of these values. Raises ValueError."""
    value = row.get(name)
    if not isinstance(value, str) or value not in values:
        raise ValueError(f"expected {' or '.join(map(repr, values))} in {name!r}, got {value!r:.80}")
    return values[value]


def number(row: Row, name: str) -> float:
    """A field that is a finite number. Raises ValueError."""
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise ValueError(f"expected a number in {name!r}, got {value!r:.80}")
    return float(value)


def file_name(name: str, most: int = MAX_NAME) -> str:
    """A name of at most so many characters that a file, the output, can have. Raises ValueError."""
    check_name(name)
    if name != Path(name).name or name == ".." or len(name) > most:
        raise ValueError(
            f"{name[:80]!r} is not a file name, and outputs are named after it: leave out slashes and dots"
        )
    return name
