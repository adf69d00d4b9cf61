"""The rows of a JSONL or parquet file, one after the other, in bounded memory; and whether the pictures of a row can be
read, and of what size they are. Whoever made the file need not be trusted.
"""

from __future__ import annotations

import hashlib
import itertools
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from ...reward import Image, ImageError
from ...reward.encoded_images import Size, read_header
from ...reward.image_decoding import decode, encoded_in_text, image_errors, read_bytes
from ...reward.plain_text import one_line
from ...reward.regular_files import nonempty_lines, open_regular
from ...reward.strict_json import json_line
from ..dataset_rows import MAX_VALUES, stored_picture

NumberedRow = tuple[int, Mapping[str, Any] | str]
"""The number of a row, and its values, or what is wrong with it."""

_MAGIC = b"PAR1"
_BATCH_BYTES = 16 * 2**20
"""Rows of parquet that are unpacked at once, which may hold pictures."""
_BATCH_ROWS = 1024
_MAX_STRING_BYTES = 64 * 2**20
"""Of the file's own description of itself."""
_VALUE_BYTES = 64
"""Of a value of Python, beside its text."""
_MAX_ROW_BYTES = 256 * 2**20
"""Of a row, unpacked, on average over a row group."""


class BrokenFile(ValueError):
    """A file that is no JSONL or parquet, or is damaged."""


class RowFile:
    """A file of rows.

    Attributes:
        is_parquet: Decided by its first bytes, or its name.

    Raises:
        OSError: For a file that cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with open_regular(path) as file:
            start = file.read(len(_MAGIC))
        self.is_parquet = start == _MAGIC or path.suffix.lower() in (".parquet", ".pq")
        if not start:
            raise BrokenFile(f"{path} is empty: JSONL with one object per line, or parquet, is expected")

    @property
    def unit(self) -> str:
        """What its numbers count: lines from 1, as editors do, or rows from 0, as `datasets` does."""
        return "row" if self.is_parquet else "line"

    def columns(self) -> list[str]:
        """The columns of a parquet file, or the names of the first line that is an object. Raises `BrokenFile`."""
        if self.is_parquet:
            return list(self.schema.names)
        first = next((row for _, row in itertools.islice(self.rows(()), 100) if isinstance(row, Mapping)), {})
        return list(first)

    def rows(self, columns: Sequence[str]) -> Iterator[NumberedRow]:
        """The rows with their numbers; of parquet with these columns only, where it has them. Raises `BrokenFile`."""
        return RowReader(self, columns).read(0, None)

    @cached_property
    def num_rows(self) -> int:
        """Rows, or lines that are not blank, for which the file is read. Raises `BrokenFile`, OSError."""
        return self._group_starts[-1] if self.is_parquet else sum(1 for _ in nonempty_lines(self.path))

    @cached_property
    def schema(self) -> Any:
        """Of parquet, its Arrow schema. Raises `BrokenFile`, OSError."""
        with open_regular(self.path) as file, _parquet(self.path) as parquet:
            return _open(parquet, file).schema_arrow

    @property
    def row_bytes(self) -> int:
        """Of parquet, the bytes of a row, unpacked, on average over the row group where they are most."""
        return self._groups[0]

    @property
    def batch_rows(self) -> int:
        """Of parquet, how many rows are unpacked at once. Each may repeat all of a dictionary, which is stored once."""
        return min(max(_BATCH_BYTES // self._groups[2], 1), _BATCH_ROWS)

    @property
    def _group_starts(self) -> list[int]:
        """The first rows of the row groups of parquet, and the number of rows."""
        return self._groups[1]

    @cached_property
    def _groups(self) -> tuple[int, list[int], int]:
        with open_regular(self.path) as file, _parquet(self.path) as parquet:
            metadata = _open(parquet, file).metadata
            groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
            row_bytes = max((_group_bytes(group) // max(group.num_rows, 1) for group in groups), default=0)
            longest = max(map(_longest_row, groups), default=0)
        if row_bytes > _MAX_ROW_BYTES:
            raise BrokenFile(f"{self.path} claims {row_bytes:,} bytes a row, more than {_MAX_ROW_BYTES:,}")
        starts = list(itertools.accumulate((group.num_rows for group in groups), initial=0))
        return max(row_bytes, 1), starts, max(longest, 1)


class RowReader:
    """Reads ranges of the rows of a file, in any order; one that follows the last, in its row group, goes on there.

    Args:
        columns: Of parquet, where it has them.
    """

    def __init__(self, file: RowFile, columns: Sequence[str]) -> None:
        self.file = file
        self.columns = columns
        self._chunks: Iterator[tuple[int, Any]] = iter(())
        self._chunk: tuple[int, Any] | None = None
        """The chunk that was read last, with the position of its first row."""

    def read(self, first: int, count: int | None) -> Iterator[NumberedRow]:
        """`count` rows, or all, with their numbers;

        Raises `BrokenFile`, and OSError as `open_regular`.

        Args:
            first: Position, from 0, of lines without the blank ones.
        """
        if self._chunk is None or first < self._chunk[0] or self._group(first) != self._group(self._chunk[0]):
            self._chunks, self._chunk = self._open_chunks(first), None
        end = None if count is None else first + count
        while end is None or first < end:
            if self._chunk is None or self._chunk[0] + len(self._chunk[1]) <= first:
                if (chunk := next(self._chunks, None)) is None:
                    return
                self._chunk = chunk
                continue
            start, chunk = self._chunk
            taken = min(len(chunk) - (first - start), len(chunk) if end is None else end - first)
            yield from self._values(first, chunk[first - start : first - start + taken])
            first += taken

    def _group(self, row: int) -> int:
        return bisect_right(self.file._group_starts, row) if self.file.is_parquet else 0

    def _values(self, first: int, chunk: Any) -> Iterator[NumberedRow]:
        if self.file.is_parquet:
            for number, row in enumerate(chunk.to_pylist(), start=first):
                yield number, {name: value for name, value in row.items() if value is not None}
            return
        for number, line in chunk:
            row = json_line(line, max_values=MAX_VALUES)
            if isinstance(row, Mapping):
                yield number, row
            else:
                is_error = isinstance(row, ValueError)
                yield number, str(row) if is_error else f"one JSON object is expected, got {type(row).__name__}"

    def _open_chunks(self, first: int) -> Iterator[tuple[int, Any]]:
        """Batches of parquet from the row group of a row on, or lines, with the positions of their first rows."""
        if not self.file.is_parquet:
            for position, line in enumerate(nonempty_lines(self.file.path)):
                yield position, (line,)
            return
        with open_regular(self.file.path) as file, _parquet(self.file.path) as parquet:
            opened = _open(parquet, file)
            starts = self.file._group_starts
            group = max(self._group(first) - 1, 0)
            position = starts[group]
            for batch in opened.iter_batches(
                batch_size=self.file.batch_rows,
                row_groups=range(group, len(starts) - 1),
                columns=[name for name in self.columns if name in opened.schema_arrow.names],
                use_threads=False,
            ):
                yield position, batch
                position += len(batch)


def _group_bytes(group: Any) -> int:
    """Of a row group as it says, unpacked. Values of no byte, such as a list's millions of nulls, are counted too."""
    values = max((group.column(index).num_values for index in range(group.num_columns)), default=0)
    return max(group.total_byte_size, values * _VALUE_BYTES)


def _longest_row(group: Any) -> int:
    """Bytes that a row may have: of a column with a dictionary as many as that, which may be one text."""
    columns = [group.column(index) for index in range(group.num_columns)]
    return sum(
        column.total_uncompressed_size
        if any("DICTIONARY" in encoding for encoding in column.encodings)
        else column.total_uncompressed_size // max(group.num_rows, 1)
        for column in columns
    )


@contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    """`pyarrow.parquet`. Raises `BrokenFile` where it is missing, and for all that it says of a file."""
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise BrokenFile(
            f"{path} is parquet, and pyarrow, which reads it, is not installed: pip install pyarrow"
        ) from None
    try:
        yield parquet
    except BrokenFile:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, MemoryError, NotImplementedError) as error:
        problem = one_line(str(error) or type(error).__name__)
        raise BrokenFile(f"{path} cannot be read as parquet: {problem}") from None


def _open(pq: Any, file: Any) -> Any:
    return pq.ParquetFile(
        file,
        buffer_size=2**20,  # else whole row groups are held
        pre_buffer=False,
        thrift_string_size_limit=_MAX_STRING_BYTES,
        thrift_container_size_limit=10**6,
    )


PictureCheck = Literal["header", "decode", "none"]
"""Whether pictures are opened: their headers, which have the size and show what is no picture; all of their pixels,
which also shows what breaks off; or not at all."""

PICTURE_CHECKS: tuple[str, ...] = get_args(PictureCheck)

_UNKNOWN_SIZE: Size = (10_900, 10_900)  # about the largest: boxes of any picture fit in


@dataclass(frozen=True, slots=True)
class RowPicture:
    """image: without pixels. name: equal for one path, or equal bytes. is_measured: whether the size is known."""

    image: Image
    name: bytes
    is_measured: bool


class PictureReader:
    """folder: of relative paths, and the only place unless others are trusted. turns: the size is as EXIF turns it."""

    def __init__(self, folder: Path | None, check: PictureCheck, *, turns: bool) -> None:
        self.folder = folder
        self.check = check
        self.turns = turns
        self._last: dict[str, Size] = {}

    def read(self, value: Any) -> RowPicture:
        """Of a path, bytes, or a table with either, as `datasets` keeps undecoded pictures. Raises ImageError."""
        value = stored_picture(value)
        if isinstance(value, str) and self.check != "none":
            value = encoded_in_text(value) or value
        if isinstance(value, str) and value:
            name = hashlib.sha256(value.encode("utf-8", "surrogatepass")).digest()
            return self._picture(name, self._size_of_file(value))
        if isinstance(value, bytes):
            size = None if self.check == "none" else self._size_of_bytes(value, "the picture")
            return self._picture(hashlib.sha256(value).digest(), size)
        raise ImageError(
            f"a picture is a path, the bytes of a file, or a table with `bytes` or `path`, got {type(value).__name__}"
        )

    def _picture(self, name: bytes, size: Size | None) -> RowPicture:
        return RowPicture(Image.from_digest(name.hex(), size or _UNKNOWN_SIZE), name, size is not None)

    def _size_of_file(self, path: str) -> Size | None:
        if self.check == "none":
            return None
        if self.folder is None:
            raise ImageError(f"{path!r:.80} is relative to a folder that nobody named: give --images FOLDER")
        if path not in self._last:  # rows of one picture follow each other
            data = read_bytes(self.folder / path, inside=self.folder)
            self._last = {path: self._size_of_bytes(data, path)}
        return self._last[path]

    def _size_of_bytes(self, data: bytes, name: str) -> Size:
        if self.check == "decode":
            decode(data, name)
        with image_errors(name):
            picture = read_header(data)
        return picture.size[::-1] if self.turns and picture.orientation > 4 else picture.size
