"""Where a split of Complex-Edit lies: parquet shards as on the hub, or what `datasets` has saved to disk."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...extras import bench
from ...inputs import InputError

COLUMNS = ("image", "edit")
_SHARD = re.compile(r"(?P<split>.+?)(?:-(?P<number>\d+)-of-(?P<count>\d+))?")
_AT_ONCE = 16
"""Rows that are held at once: pictures are large."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The files of one split, in the order of their rows: parquet files, or Arrow streams (`arrow`)."""

    files: Sequence[Path]
    arrow: bool

    def rows(self, *columns: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Where a row stands, and these of its columns. Raises `InputError` for what cannot be read."""
        for path in self.files:
            number = 0
            try:
                for batch in self._batches(path, columns):
                    for start in range(0, batch.num_rows, _AT_ONCE):
                        for row in batch.slice(start, _AT_ONCE).to_pylist():
                            yield f"{path}, row {number}", row
                            number += 1
            except (OSError, bench("pyarrow").ArrowException) as error:
                raise InputError(f"{path} cannot be read: {error}") from None

    def _batches(self, path: Path, columns: Sequence[str]) -> Iterator[Any]:
        if self.arrow:
            with bench("pyarrow").memory_map(str(path)) as source, bench("pyarrow.ipc").open_stream(source) as stream:
                _check(path, stream.schema.names)
                for batch in stream:
                    yield batch.select(list(columns))
        else:
            with bench("pyarrow.parquet").ParquetFile(path) as file:
                _check(path, file.schema_arrow.names)
                yield from file.iter_batches(batch_size=_AT_ONCE, columns=list(columns))


def _check(path: Path, names: Sequence[str]) -> None:
    lacking = [name for name in COLUMNS if name not in names]
    if lacking:
        wanted, there = ", ".join(COLUMNS), ", ".join(names)
        raise InputError(f"{path} lacks the columns {', '.join(lacking)}: expected {wanted}; it has {there}")


def find_tables(data: Path, split: str) -> Tables:
    """The files of a split: `data` is a folder of parquet shards (at any depth), one parquet file, or what
    `save_to_disk` has written, of a data set or of its splits. Raises `InputError`, which says what was found.
    """
    if data.is_file() and data.suffix == ".parquet":
        return Tables((data,), arrow=False)
    if not data.is_dir():
        raise InputError(f"{data} does not exist: give the folder of Complex-Edit's parquet files, or one of them")
    if (data / "dataset_dict.json").is_file():
        if not (data / split / "state.json").is_file():
            raise InputError(f"{data} has no split {split!r}: it has {', '.join(_saved_splits(data)) or 'none'}")
        data = data / split
    if (data / "state.json").is_file():
        return Tables(_saved(data), arrow=True)
    return Tables(_shards(data, split), arrow=False)


def _saved_splits(data: Path) -> list[str]:
    return sorted(path.parent.name for path in data.glob("*/state.json"))


def _saved(folder: Path) -> list[Path]:
    path = folder / "state.json"
    try:
        names = [file["filename"] for file in json.loads(path.read_text(encoding="utf-8"))["_data_files"]]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(f"{path} is not what save_to_disk writes: {error}") from None
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise InputError(f"{folder} lacks {', '.join(missing)}, which its state.json names: save the data set again")
    return [folder / name for name in names]


def _shards(data: Path, split: str) -> list[Path]:
    found = sorted(data.rglob("*.parquet"))
    if not found:
        raise InputError(f"{data} holds neither parquet files nor a data set that save_to_disk has written")
    named = {path: _SHARD.fullmatch(path.stem) for path in found}
    ours = [path for path, match in named.items() if match and split in (match["split"], path.parent.name)]
    if not ours:
        there = ", ".join(str(path.relative_to(data)) for path in found[:6])
        raise InputError(
            f"{data} has no parquet files of the split {split!r}: it has {there}; give one file to read that"
        )
    folders = {path.parent for path in ours}
    if len(folders) > 1:
        places = ", ".join(sorted(str(folder.relative_to(data)) for folder in folders))
        raise InputError(f"{data} has the split {split!r} in several folders ({places}): give one of them")
    counts = {int(match["count"]) for path in ours if (match := named[path]) and match["count"]}
    if counts and (len(counts) > 1 or len(ours) != max(counts)):
        names = ", ".join(path.name for path in ours)
        raise InputError(
            f"the split {split!r} in {data} has {max(counts)} parts, and there are {names}: get the others"
        )
    return ours
