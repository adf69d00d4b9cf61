"""Tables of edits: parquet or JSONL files whose columns are the fields of sample files. A picture is the bytes of an
image file, also in base64, the `{bytes, path}` of `datasets`, or a path in the table's folder or below. Columns of
other names are named by `columns`, field -> column. Whoever made a table need not be trusted."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from ...integrations.dataset_rows import METADATA_FIELDS, is_absent, sample_from_row, stored_picture
from ...integrations.row_check import BrokenFile, RowFile, RowReader
from ...reward import EditSample, Image
from ...reward.image import FileIndex
from ...reward.image_decoding import encoded_in_text
from ...reward.plain_text import check_name
from ...reward.regular_files import open_regular
from ...reward.sample_files import sample_of_stranger, sample_problem
from .errors import InputError, input_errors

_PICTURES: Final = ("source", "edited", "mask", "reference")
FIELDS: Final = (
    "id", "group", "instruction", "sources", *_PICTURES, "editcritic",
    *(name for name in METADATA_FIELDS if name != "metadata"),
)  # fmt: skip
"""Fields that a column of a table may be. `metadata` is a name that many data sets have for something else."""

_SUFFIXES = (".parquet", ".pq")
_CHUNK = 2**20


@dataclass(frozen=True)
class TableFile:
    """A file of a table. name: below the table's folder."""

    rows: RowFile
    name: str

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What changes when the file does: size, time of change, and the digest of a parquet's footer or of all lines.
        Raises OSError."""
        with open_regular(self.rows.path) as file:
            status = os.fstat(file.fileno())
            if self.rows.is_parquet:
                file.seek(max(status.st_size - 8, 0))
                file.seek(max(status.st_size - 8 - int.from_bytes(file.read(4), "little"), 0))
            digest = hashlib.sha256()
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
        state = {"bytes": status.st_size, "changed_ns": status.st_mtime_ns}
        return {"name": self.name, **state, "digest": digest.hexdigest()[:32], "rows": self.rows.num_rows}

    def require_unchanged(self) -> None:
        """Raise `BrokenFile` if the file has changed since its `identity` was asked for, and OSError."""
        status = self.rows.path.stat()
        if (status.st_size, status.st_mtime_ns) != (self.identity["bytes"], self.identity["changed_ns"]):
            raise BrokenFile(f"{self.rows.path} has changed since the run began")


@dataclass(frozen=True)
class TableRow:
    """A row: its number in its file, and its sample, or what is wrong with it. kept: the values of `keep`."""

    number: int
    location: str
    sample: EditSample | None = None
    problem: str = ""
    kept: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SampleTable:
    """The files of a table in order. columns: field -> column. keep: columns that are handed on."""

    path: Path
    files: tuple[TableFile, ...]
    columns: Mapping[str, str] = field(default_factory=dict)
    keep: tuple[str, ...] = ()

    @staticmethod
    def open(path: Path, columns: Mapping[str, str] | None = None, keep: Sequence[str] = ()) -> SampleTable:
        """path: a file, a folder of parquet files (in it, or if there are none, below), or a pattern such as
        `shards/*.parquet`.

        Raises `InputError` if there is none, or if one lacks a column or cannot be read.
        """
        columns = dict(columns or {})
        if unknown := sorted(columns.keys() - {*FIELDS}):
            raise InputError(f"--columns {unknown[0]}=...: no field has this name; known are {', '.join(FIELDS)}")
        paths = _paths(path)
        if not paths:
            raise InputError(
                f"{path} is no table: give a parquet or JSONL file, a folder of parquet files or a pattern"
            )
        folder = Path(os.path.commonpath([found.parent for found in paths]))
        try:
            files = tuple(TableFile(RowFile(found), found.relative_to(folder).as_posix()) for found in paths)
            table = SampleTable(path, files, columns, tuple(keep))
            for file in files:
                table._require_columns(file.rows)
        except BrokenFile as error:
            raise InputError(str(error)) from None
        except OSError as error:
            raise InputError(f"cannot read {error.filename or path}: {error.strerror}") from None
        return table

    def absolute(self) -> SampleTable:
        """The same with paths that do not depend on the working folder, for other processes."""
        files = tuple(TableFile(RowFile(file.rows.path.absolute()), file.name) for file in self.files)
        return replace(self, path=self.path.absolute(), files=files)

    @cached_property
    def count(self) -> int:
        """The number of rows; lines of JSONL are counted. Raises `InputError`."""
        with input_errors(BrokenFile):
            return sum(file.rows.num_rows for file in self.files)

    def rows(self, index: FileIndex | None = None) -> Iterator[TableRow]:
        """All rows, in memory that does not grow. Raises `InputError` for a file that is damaged further on."""
        for file in self.files:
            with input_errors(BrokenFile):
                yield from self.read(RowReader(file.rows, self.read_columns), file, 0, None, index)

    def read(
        self,
        reader: RowReader,
        file: TableFile,
        first: int,
        count: int | None,
        index: FileIndex | None,
        only: Container[int] | None = None,
    ) -> Iterator[TableRow]:
        """`count` rows of a file from the position `first`; only: of these numbers. Raises `BrokenFile`."""
        path, unit = file.rows.path, file.rows.unit
        for number, row in reader.read(first, count):
            if only is not None and number not in only:
                continue
            location = f"{path}, row {number}" if unit == "row" else f"{path}:{number}"
            if isinstance(row, str):
                yield TableRow(number, location, problem=row)
                continue
            kept = {name: row.get(name) for name in self.keep}
            try:
                sample = self._sample(row, file.rows, f"{path.stem}:{number}", index)
            except ValueError as error:
                yield TableRow(number, location, problem=sample_problem(error), kept=kept)
            else:
                yield TableRow(number, location, sample, kept=kept)

    @property
    def read_columns(self) -> list[str]:
        """The columns of parquet that are read, of those that there are."""
        return list(dict.fromkeys([*(self.columns.get(name, name) for name in FIELDS), "history", *self.keep]))

    def _sample(self, row: Mapping[str, Any], file: RowFile, name: str, index: FileIndex | None) -> EditSample:
        if file.is_parquet:
            return _sample_of_columns(self._fields(row), file.path.parent, name, index)
        if self.columns or self.keep:  # a line may have no fields but a sample's
            left_out = {*self.columns.values(), *self.keep} - {*FIELDS}
            row = {name: value for name, value in row.items() if name not in left_out} | self._fields(row)
        return sample_of_stranger(row, folder=file.path.parent, name=name, index=index)

    def _fields(self, row: Mapping[str, Any]) -> dict[str, Any]:
        named = {name: row.get(self.columns.get(name, name)) for name in (*FIELDS, "history")}
        return {name: value for name, value in named.items() if not is_absent(value)}

    def _require_columns(self, file: RowFile) -> None:
        if not file.is_parquet:
            return
        there = set(file.schema.names)
        for name, column in self.columns.items():
            if column not in there:
                raise InputError(f"--columns {name}={column}: {file.path} has no column {column!r:.80}: {_list(there)}")
        for column in self.keep:
            if column not in there:
                raise InputError(f"keep: {file.path} has no column {column!r:.80}: {_list(there)}")
            if file.schema.field(column).type != self.files[0].rows.schema.field(column).type:
                raise InputError(f"keep: {file.path} has {column!r:.80} in another type than {self.files[0].rows.path}")
        required = {"instruction": ("instruction",), "edited": ("edited",), "source": ("source", "sources")}
        for name, names in required.items():
            if not any(self.columns.get(one, one) in there for one in names):
                raise InputError(
                    f"{file.path} has no column `{name}`: {_list(there)}. Name the one that holds it, as in "
                    f"--columns {name}=COLUMN"
                )


def is_table(path: Path) -> bool:
    """Whether a path is a parquet file, a folder of some, or a pattern; JSONL is a table where one is asked for."""
    if path.is_file():
        try:
            return path.suffix.lower() in _SUFFIXES or RowFile(path).is_parquet
        except (BrokenFile, OSError):
            return False
    return bool(_paths(path))


def parse_columns(items: Sequence[str]) -> dict[str, str]:
    """Parse `field=column` items, also several with commas between. Raises `InputError`."""
    columns: dict[str, str] = {}
    for item in (part for text in items for part in text.split(",")):
        name, equals, column = item.partition("=")
        if not (equals and name.strip() and column.strip()):
            raise InputError(
                f"--columns is FIELD=COLUMN, as in source=input_image,instruction=prompt, got {item!r:.80}"
            )
        columns[name.strip()] = column.strip()
    return columns


def _paths(path: Path) -> list[Path]:
    if path.is_dir():
        below = [found for suffix in _SUFFIXES for found in path.rglob(f"*{suffix}") if found.is_file()]
        return sorted([found for found in below if found.parent == path] or below)
    if not path.exists() and glob.has_magic(str(path)):
        root = Path(path.anchor)
        return sorted(found for found in root.glob(str(path.relative_to(root))) if found.is_file())
    return [path] if path.is_file() else []


def _sample_of_columns(fields: dict[str, Any], folder: Path, name: str, index: FileIndex | None) -> EditSample:
    """Raises ValueError."""
    if "history" in fields:
        raise ValueError("a chain (`history`) cannot be read from parquet: give it as a line of JSONL")
    if not str(fields.get("instruction", "")).strip():
        raise ValueError("the instruction is empty")
    if "source" not in fields and not fields.get("sources"):
        raise ValueError("there is no source picture")
    if "edited" not in fields:
        raise ValueError("there is no edited picture")
    for key in _PICTURES:
        if key in fields:
            fields[key] = _picture(fields[key], key, folder, index)
    if "sources" in fields:
        fields["sources"] = [_picture(one, "sources", folder, index) for one in _as_list(fields["sources"])]
    sample = sample_from_row({"id": name, **fields})
    check_name(sample.id)
    check_name(sample.group)
    return sample


def _picture(value: Any, column: str, folder: Path, index: FileIndex | None) -> Image:
    value = stored_picture(value)
    if isinstance(value, str):
        value = encoded_in_text(value) or value
    if isinstance(value, bytes):
        return Image.from_encoded(value, index=index)
    if isinstance(value, str):
        return Image.open(folder / value, index=index, inside=folder)
    raise ValueError(
        f"`{column}` is {type(value).__name__}: a picture is the bytes of its file, {{bytes, path}}, or a path"
    )


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _list(names: set[str]) -> str:
    shown = sorted(names)
    more = f" and {len(shown) - 20} more" if len(shown) > 20 else ""
    return f"it has {', '.join(f'{name:.80}' for name in shown[:20])}{more}"
