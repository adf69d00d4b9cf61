"""The rows of a JSONL or parquet file, one after the other, in memory that does not grow with the file.

Whoever made the file need not be trusted: lines are bounded, text is parsed strictly, and nothing in it is run.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...reward.plain_text import one_line
from ...reward.regular_files import open_regular
from ...reward.strict_json import json_lines
from ..row_fields import MAX_VALUES

NumberedRow = tuple[int, Mapping[str, Any] | str]
"""The number of a row, and its values, or what is wrong with it."""

_MAGIC = b"PAR1"
_BATCH_BYTES = 16 * 2**20
"""Rows of parquet that are unpacked at once, which may hold pictures."""
_BATCH_ROWS = 1024
_MAX_STRING_BYTES = 64 * 2**20
"""Of the file's own description of itself."""
_MAX_ROW_BYTES = 256 * 2**20
"""Of a row, unpacked, on average over a row group."""


class BrokenFile(ValueError):
    """A file that is no JSONL or parquet, or is damaged."""


class RowFile:
    """A file of rows. is_parquet: decided by its first bytes, or its name.

    Raises OSError for a file that cannot be opened.
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
            with open_regular(self.path) as file, _parquet(self.path) as parquet:
                return list(_open(parquet, file).schema_arrow.names)
        first = next((row for _, row in itertools.islice(self._lines(), 100) if isinstance(row, Mapping)), {})
        return list(first)

    def rows(self, columns: Sequence[str]) -> Iterator[NumberedRow]:
        """The rows with their numbers; of parquet with these columns only, where it has them. Raises `BrokenFile`."""
        return self._parquet_rows(columns) if self.is_parquet else self._lines()

    def _lines(self) -> Iterator[NumberedRow]:
        for number, row in json_lines(self.path, max_values=MAX_VALUES):
            if isinstance(row, Mapping):
                yield number, row
            elif isinstance(row, ValueError):
                yield number, str(row)
            else:
                yield number, f"one JSON object is expected, got {type(row).__name__}"

    def _parquet_rows(self, columns: Sequence[str]) -> Iterator[NumberedRow]:
        with open_regular(self.path) as file, _parquet(self.path) as parquet:
            opened = _open(parquet, file)
            row_bytes = 1
            for index in range(opened.metadata.num_row_groups):
                group = opened.metadata.row_group(index)
                row_bytes = max(row_bytes, group.total_byte_size // max(group.num_rows, 1))
            if row_bytes > _MAX_ROW_BYTES:
                raise BrokenFile(f"{self.path} claims {row_bytes:,} bytes a row, more than {_MAX_ROW_BYTES:,}")
            size = min(max(_BATCH_BYTES // row_bytes, 1), _BATCH_ROWS)
            present = [name for name in columns if name in opened.schema_arrow.names]
            number = 0
            for batch in opened.iter_batches(batch_size=size, columns=present, use_threads=False):
                for row in batch.to_pylist():
                    yield number, {name: value for name, value in row.items() if value is not None}
                    number += 1


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
