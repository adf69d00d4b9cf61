"""Files of a split of a data set: parquet shards as on the hub, or a data set saved to disk by `datasets`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..common.errors import InputError
from ..common.optional_imports import bench_library

_SHARD = re.compile(r"(?P<split>.+?)(?:-(?P<number>\d+)-of-(?P<count>\d+))?")
_ROWS_PER_BATCH = 16
"""Rows in memory at once: images are large."""


@dataclass(frozen=True, slots=True)
class SplitFiles:
    """The files of a split, in the order of rows: parquet files, or Arrow streams (`arrow`).

    required: columns that each file must have.
    """

    files: Sequence[Path]
    arrow: bool
    required: Sequence[str]

    def optional(self, *names: str) -> list[str]:
        """Those of these columns that all files have. Raises `InputError` for an unreadable file."""
        return [name for name in names if all(name in self._names(path) for path in self.files)]

    def _names(self, path: Path) -> list[str]:
        try:
            if not self.arrow:
                with bench_library("pyarrow.parquet").ParquetFile(path) as file:
                    return list(file.schema_arrow.names)
            with (
                bench_library("pyarrow").memory_map(str(path)) as source,
                bench_library("pyarrow.ipc").open_stream(source) as stream,
            ):
                return list(stream.schema.names)
        except (OSError, bench_library("pyarrow").ArrowException) as error:
            raise InputError(f"{path} cannot be read: {error}") from None

    def rows(self, *columns: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Location and selected columns of each row. Raises `InputError` for an unreadable file."""
        for path in self.files:
            number = 0
            try:
                for batch in self._batches(path, columns):
                    for start in range(0, batch.num_rows, _ROWS_PER_BATCH):
                        for row in batch.slice(start, _ROWS_PER_BATCH).to_pylist():
                            yield f"{path}, row {number}", row
                            number += 1
            except (OSError, bench_library("pyarrow").ArrowException) as error:
                raise InputError(f"{path} cannot be read: {error}") from None

    def _batches(self, path: Path, columns: Sequence[str]) -> Iterator[Any]:
        if self.arrow:
            with (
                bench_library("pyarrow").memory_map(str(path)) as source,
                bench_library("pyarrow.ipc").open_stream(source) as stream,
            ):
                _check(path, stream.schema.names, self.required)
                for batch in stream:
                    yield batch.select(list(columns))
        else:
            with bench_library("pyarrow.parquet").ParquetFile(path) as file:
                _check(path, file.schema_arrow.names, self.required)
                yield from file.iter_batches(batch_size=_ROWS_PER_BATCH, columns=list(columns))


def _check(path: Path, names: Sequence[str], required: Sequence[str]) -> None:
    missing = [name for name in required if name not in names]
    if missing:
        expected, present = ", ".join(required), ", ".join(names)
        raise InputError(f"{path} lacks the columns {', '.join(missing)}: expected {expected}; it has {present}")


def find_split_files(data: Path, split: str, required: Sequence[str], title: str) -> SplitFiles:
    """The files of a split: `data` is a folder of parquet shards (at any depth), one parquet file, or a data set (with
    or without splits) written by `save_to_disk`. title: of the data set, for messages. Raises `InputError`.
    """
    if data.is_file() and data.suffix == ".parquet":
        return SplitFiles((data,), False, required)
    if not data.is_dir():
        raise InputError(f"{data} does not exist: give the folder of {title}'s parquet files, or one of them")
    if (data / "dataset_dict.json").is_file():
        if not (data / split / "state.json").is_file():
            raise InputError(f"{data} has no split {split!r}: it has {', '.join(_saved_splits(data)) or 'none'}")
        data = data / split
    if (data / "state.json").is_file():
        return SplitFiles(_saved_to_disk(data), True, required)
    return SplitFiles(_shards(data, split), False, required)


def _saved_splits(data: Path) -> list[str]:
    return sorted(path.parent.name for path in data.glob("*/state.json"))


def _saved_to_disk(folder: Path) -> list[Path]:
    path = folder / "state.json"
    try:
        names = [file["filename"] for file in json.loads(path.read_text(encoding="utf-8"))["_data_files"]]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(f"{path} is not written by save_to_disk: {error}") from None
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise InputError(f"{folder} lacks {', '.join(missing)}, which its state.json names: save the data set again")
    return [folder / name for name in names]


def _shards(data: Path, split: str) -> list[Path]:
    files = sorted(data.rglob("*.parquet"))
    if not files:
        raise InputError(f"{data} contains neither parquet files nor a data set written by save_to_disk")
    matches = {path: _SHARD.fullmatch(path.stem) for path in files}
    shards = [path for path, match in matches.items() if match and split in (match["split"], path.parent.name)]
    if not shards:
        names = ", ".join(str(path.relative_to(data)) for path in files[:6])
        raise InputError(
            f"{data} has no parquet files of the split {split!r}: it has {names}; give one file to read that"
        )
    folders = {path.parent for path in shards}
    if len(folders) > 1:
        folder_names = ", ".join(sorted(str(folder.relative_to(data)) for folder in folders))
        raise InputError(f"{data} has the split {split!r} in several folders ({folder_names}): give one of them")
    counts = {int(match["count"]) for path in shards if (match := matches[path]) and match["count"]}
    if counts and (len(counts) > 1 or len(shards) != max(counts)):
        names = ", ".join(path.name for path in shards)
        raise InputError(
            f"the split {split!r} in {data} has {max(counts)} parts, and there are {names}: get the others"
        )
    return shards
