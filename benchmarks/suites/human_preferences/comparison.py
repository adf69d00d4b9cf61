"""The common structure of preference sets: a comparison of edits of one source by one instruction, judged by people.

A reader yields comparisons one by one, with their pictures unread, and a `DataProblem` for a row that is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from ....reward import Image, ImageError
from ....reward.image import FileIndex
from ....reward.plain_text import one_line
from ....reward.strict_json import read_json
from ...common.errors import InputError
from ..rows import DataProblem, Row, read_rows
from ..split_files import LargeCell


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that is not read yet: a file in a folder, or encoded bytes; with neither, `problem` says why."""

    path: Path | None = None
    folder: Path | None = None
    data: bytes | None = field(default=None, repr=False)
    problem: str = ""

    @staticmethod
    def of_file(folder: Path, name: Any) -> Picture:
        """A file of a data set by the name that its rows give, which must lead into the folder."""
        if not isinstance(name, str) or not name.strip():
            return Picture(problem=f"expected the name of a picture, got {name!r:.80}")
        relative = PurePosixPath(name)
        if relative.is_absolute() or ".." in relative.parts:
            return Picture(problem=f"the picture {name!r:.120} is outside of {folder}: names must lead into it")
        try:
            path = folder / relative
            return Picture(path, folder) if path.is_file() else Picture(problem=f"there is no picture {path}")
        except (OSError, ValueError) as error:  # a name that no file can have
            return Picture(problem=f"no file can be named {name!r:.80}: {error}")

    @staticmethod
    def of_cell(folder: Path, value: Any) -> Picture:
        """A cell of a picture column as `datasets` writes it: bytes, a struct of `bytes` and `path`, or a path."""
        if isinstance(value, Mapping):
            value = value["bytes"] if value.get("bytes") else value.get("path")
        if isinstance(value, LargeCell):
            return Picture(problem=f"the picture's cell is not read: it has {value}")
        if isinstance(value, bytes):
            return Picture(data=value) if value else Picture(problem="the picture's cell is empty")
        return Picture.of_file(folder, value) if value is not None else Picture(problem="the picture's cell is empty")

    def open(self, index: FileIndex | None = None) -> Image:
        """Read it. index: file digest -> image digest, to avoid decoding. Raises `ImageError`."""
        if self.path is not None:
            return Image.open(self.path, index=index, inside=self.folder)
        if self.data is not None:
            return Image.of(self.data)
        raise ImageError(self.problem)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Edits of one source by one instruction, and what people say about them.

    id: unique in the set. group: comparisons with the same group belong to one question to people, and count together
    where the set counts groups. candidates: name -> edited picture. preferences: pair of names -> 1 if people prefer
    the first, -1 the second, 0 for a tie. ratings: name -> the mean rating of people, in [0, 1]; for sets that rate
    each edit. others: name -> for each rater, the rating and the mean of those of the others. labels: what tables group
    by, as in {"task": "color_alter"}.
    """

    id: str
    group: str
    instruction: str
    sources: tuple[Picture, ...]
    candidates: Mapping[str, Picture]
    preferences: Mapping[tuple[str, str], int]
    ratings: Mapping[str, float] = field(default_factory=dict)
    others: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


MAX_JSON_VALUES = 2_000_000
"""Values of the largest JSON file that is read: the published ones have some 10,000."""


def json_content(path: Path, *, inside: Path | None = None, expected: str = "") -> Any:
    """The content of a JSON file. expected: what to give if it cannot be opened. Raises `InputError`."""
    try:
        return read_json(path, max_values=MAX_JSON_VALUES, inside=inside)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}){expected and f': {expected}'}") from None
    except ValueError as error:
        raise InputError(f"{path} cannot be read: {one_line(str(error))}") from None


def json_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Location and fields of each object in the list of a JSON file, with their `number`. Raises `InputError`."""
    rows = json_content(path)
    if not isinstance(rows, list) or not rows:
        got = "an empty one" if rows == [] else type(rows).__name__
        raise InputError(f"{path}: expected a list of rows, got {got}")
    return numbered((f"{path}, row {index}", row if isinstance(row, dict) else {}) for index, row in enumerate(rows))


def numbered(rows: Iterable[tuple[str, Row]]) -> Iterator[tuple[str, Row]]:
    """Rows without an id of their own, with their number as `number`."""
    return ((location, {**row, "number": str(index)}) for index, (location, row) in enumerate(rows))


def comparisons(
    rows: Iterable[tuple[str, Row]], read: Callable[[Row], Comparison]
) -> Iterator[Comparison | DataProblem]:
    """Each row read; a problem for one that `read` refuses, and for a second one with the same id."""
    return read_rows(rows, lambda row, location: read(row), lambda comparison: comparison.id)


def entries(row: Row, name: str, count: int) -> list[Any]:
    """A field that is a list of so many entries. Raises ValueError."""
    value = row.get(name)
    if not isinstance(value, list) or len(value) != count:
        got = f"{len(value)} entries" if isinstance(value, list) else f"{value!r:.80}"
        raise ValueError(f"expected a list of {count} entries in {name!r}, got {got}")
    return value
