"""Files of a split of a data set: parquet shards as on the hub, or a data set saved to disk by `datasets`. The pictures
of a column, and packed images (zips without paths out of the folder or links, bounded in files and bytes), are
extracted once for all processes, to files of the user's cache: see `cache_folder`."""

from __future__ import annotations

import hashlib
import json
import lzma
import re
import shutil
import stat
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...reward import Image, ImageError
from ...reward.cache_folder import CACHE_HINT, cache_folder
from ...reward.digests import sha256
from ...reward.image_decoding import read_bytes
from ...reward.plain_text import check_name
from ...reward.regular_files import open_regular
from ...reward.strict_json import read_json
from ..common.errors import InputError
from ..common.optional_imports import bench_library

MAX_FILES = 200_000
MAX_BYTES = 64 * 2**30
MAX_RATIO, MIN_BYTES = 100, 2**30
"""How many times its own size a zip extracts to at most, and what small ones may."""


def extract_zip(archive: Path, into: Path) -> int:
    """Extract a zip into a folder, completely or not at all; return the number of files. Existing files are replaced.
    All members are checked first, and bytes are counted during extraction, whatever sizes the zip declares. Raises
    `InputError`."""
    count = 0
    temporary = into.with_name(f".unpacking-{into.name}-{archive.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        with zipfile.ZipFile(archive) as file:
            members = _checked_members(file, archive)
            count = len(members)
            extract_members(file, {temporary.joinpath(*parts): member for parts, member in members.items()})
        for path in sorted(temporary.rglob("*")):
            if path.is_file():
                target = into / path.relative_to(temporary)
                target.parent.mkdir(parents=True, exist_ok=True)
                path.replace(target)
    except InputError:
        raise
    except ZIP_ERRORS as error:
        raise InputError(f"{archive} cannot be extracted: {error}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return count


ZIP_ERRORS = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(ArithmeticError, EOFError, LookupError, NotImplementedError, OSError, RuntimeError, ValueError),
)
"""What zipfile raises for damaged, encrypted and odd zips; OSError also of bzip2, and for names of no file."""


def extract_members(file: zipfile.ZipFile, members: Mapping[Path, zipfile.ZipInfo]) -> None:
    """Extract these members to these files. Bytes are counted, whatever sizes the zip declares. Raises `InputError` for
    more than `MAX_BYTES`, or for so many that only a zip made for this has them."""
    archive = Path(file.filename or "")
    size = sum(member.file_size for member in members.values())
    remaining = most_extracted(archive.stat().st_size)
    if size > remaining:
        raise InputError(f"{archive} extracts to {size:,} bytes, more than {remaining:,}: extract it by hand")
    for target, member in members.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        remaining -= _extract_member(file, member, target, remaining, archive)


def most_extracted(packed: int) -> int:
    """Bytes that a zip or tables of so many bytes may extract to: more come of a file made to fill the disk."""
    return min(MAX_BYTES, max(MIN_BYTES, MAX_RATIO * packed))


def _checked_members(file: zipfile.ZipFile, archive: Path) -> Mapping[tuple[str, ...], zipfile.ZipInfo]:
    members = [member for member in file.infolist() if not member.is_dir()]
    if len(members) > MAX_FILES:
        raise InputError(f"{archive} contains {len(members)} files, more than {MAX_FILES}: extract it by hand")
    checked: dict[tuple[str, ...], zipfile.ZipInfo] = {}
    for member in members:
        if stat.S_ISLNK(member.external_attr >> 16):
            raise InputError(f"{archive} contains a link, {member.filename!r}: it is not extracted")
        try:
            parts = safe_path_parts(member.filename)
            for part in parts:
                check_name(part)
        except ValueError as error:
            raise InputError(f"{archive} is not extracted: {error}") from None
        if parts in checked:
            raise InputError(f"{archive} contains {member.filename!r:.200} twice: it is not extracted")
        checked[parts] = member
    return checked


def _extract_member(file: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path, remaining: int, archive: Path) -> int:
    count = 0
    with file.open(member) as source, target.open("wb") as out:
        while chunk := source.read(1 << 20):
            count += len(chunk)
            if count > remaining:
                raise InputError(f"{archive} extracts to more bytes than it declares: it is not extracted")
            out.write(chunk)
    return count


def extracted_folder(suite: str, key: str, write: Callable[[Path], None]) -> Path:
    """The cache folder of this key, filled by `write` if it does not exist. Atomic: other processes may do the same,
    and each may be interrupted. Raises OSError if the cache is not writable, and errors of `write`; then nothing is
    left."""
    cache = cache_folder() / suite
    folder = cache / key[:16]
    if folder.is_dir():
        return folder
    try:
        cache.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=cache))
    except OSError as error:
        raise OSError(f"{cache} is not writable ({error.strerror}): {CACHE_HINT}") from None
    try:
        write(temporary)
        temporary.chmod(0o755)
        try:
            temporary.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster, with the same images
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def safe_path_parts(name: str) -> tuple[str, ...]:
    """The parts of a relative path. Raises ValueError for an empty path, or one that leaves its folder."""
    parts = tuple(part for part in name.replace("\\", "/").split("/") if part not in ("", "."))
    if not parts or name.startswith(("/", "\\")) or ".." in parts or ":" in parts[0] or "\0" in name:
        raise ValueError(f"{name!r} leaves its folder")
    return parts


_SHARD = re.compile(r"(?P<split>.+?)(?:-(?P<number>\d+)-of-(?P<count>\d+))?")
MAX_CELL_BYTES = 64 * 2**20
"""Larger cells are not read: encoded images have some MB."""


class LargeCell(str):
    """Stands for a cell of more than `MAX_CELL_BYTES`; its text says how many."""

    __slots__ = ()

    @staticmethod
    def of(size: int) -> LargeCell:
        return LargeCell(f"{size:,} bytes, more than {MAX_CELL_BYTES:,}")


@dataclass(frozen=True, slots=True)
class SplitFiles:
    """The files of a split, in the order of rows: parquet files, or Arrow streams (`arrow`). folder: of the data, which
    the files lie in once links are followed. required: columns that each file must have."""

    folder: Path
    files: Sequence[Path]
    arrow: bool
    required: Sequence[str]

    def optional(self, *names: str) -> list[str]:
        """Those of these columns that all files have. Raises `InputError` for an unreadable file."""
        return [name for name in names if all(name in self._names(path) for path in self.files)]

    def _names(self, path: Path) -> list[str]:
        try:
            self._require_regular(path)
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
        """Location and selected columns of each row, one in memory at a time; `LargeCell` for a cell that is too large.
        Raises `InputError` for an unreadable file."""
        for path in self.files:
            try:
                self._require_regular(path)
                for number, row in enumerate(self._rows(path, columns)):
                    yield f"{path}, row {number}", row
            except (OSError, bench_library("pyarrow").ArrowException) as error:
                raise InputError(f"{path} cannot be read: {error}") from None

    def _require_regular(self, path: Path) -> None:
        """Raise OSError for a FIFO or a device, and for a link out of the folder."""
        open_regular(path, inside=self.folder).close()

    def _rows(self, path: Path, columns: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        if self.arrow:
            with (
                bench_library("pyarrow").memory_map(str(path)) as source,
                bench_library("pyarrow.ipc").open_stream(source) as stream,
            ):
                _check(path, stream.schema.names, self.required)
                for batch in stream:
                    yield from _rows_of(batch.select(list(columns)))
        else:
            with bench_library("pyarrow.parquet").ParquetFile(path) as file:
                _check(path, file.schema_arrow.names, self.required)
                for group in range(file.num_row_groups):
                    large = _large_columns(file.metadata.row_group(group), columns)  # not even unpacked
                    names = [name for name in columns if name not in large]
                    if not names:
                        yield from (dict(large) for _ in range(_num_rows(file.metadata.row_group(group))))
                        continue
                    for batch in file.iter_batches(batch_size=1, row_groups=[group], columns=names):
                        for row in _rows_of(batch):
                            yield {**row, **large}


def _num_rows(group: Any) -> int:
    """The rows that a group is said to have. Raises OSError for more than any real one has."""
    if group.num_rows > _MAX_GROUP_ROWS:
        raise OSError(f"a group of {group.num_rows:,} rows without a cell that can be read")
    return int(group.num_rows)


_MAX_GROUP_ROWS = 100_000


def _large_columns(group: Any, columns: Sequence[str]) -> Mapping[str, LargeCell]:
    """The columns of a row group with a cell that is too large, since all have more bytes than such cells may."""
    large = {}
    for number in range(group.num_columns):
        chunk = group.column(number)
        name, mean = chunk.path_in_schema.partition(".")[0], chunk.total_uncompressed_size // max(group.num_rows, 1)
        if name in columns and mean > MAX_CELL_BYTES:
            large[name] = LargeCell.of(mean)
    return large


def _rows_of(batch: Any) -> Iterator[Mapping[str, Any]]:
    for number in range(batch.num_rows):
        row = batch.slice(number, 1)
        cells = zip(row.schema.names, row.columns, strict=True)
        yield {
            name: LargeCell.of(cell.nbytes) if cell.nbytes > MAX_CELL_BYTES else cell[0].as_py() for name, cell in cells
        }


def _check(path: Path, names: Sequence[str], required: Sequence[str]) -> None:
    missing = [name for name in required if name not in names]
    if missing:
        expected, present = ", ".join(required), ", ".join(names)
        raise InputError(f"{path} lacks the columns {', '.join(missing)}: expected {expected}; it has {present}")


def find_split_files(data: Path, split: str, required: Sequence[str], title: str) -> SplitFiles:
    """The files of a split: `data` is a folder of parquet shards (at any depth), one parquet file, or a data set (with
    or without splits) written by `save_to_disk`. title: of the data set, for messages. Raises `InputError`."""
    if data.is_file() and data.suffix == ".parquet":
        return SplitFiles(data.parent, (data,), False, required)
    if not data.is_dir():
        raise InputError(f"{data} does not exist: give the folder of {title}'s parquet files, or one of them")
    if (data / "dataset_dict.json").is_file():
        if not (data / split / "state.json").is_file():
            splits = sorted(path.parent.name for path in data.glob("*/state.json"))
            raise InputError(f"{data} has no split {split!r}: it has {', '.join(splits) or 'none'}")
        data = data / split
    if (data / "state.json").is_file():
        return SplitFiles(data, _saved_to_disk(data), True, required)
    return SplitFiles(data, _shards(data, split), False, required)


def _saved_to_disk(folder: Path) -> list[Path]:
    path = folder / "state.json"
    try:
        names = [Path(file["filename"]) for file in read_json(path, inside=folder)["_data_files"]]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(f"{path} is not written by save_to_disk: {error}") from None
    missing = [str(name) for name in names if not (folder / name).is_file()]
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


_INDEX = "images.json"


def extracted_images(suite: str, tables: SplitFiles, column: str = "image") -> Sequence[Image | ImageError]:
    """The picture of each row, or what is wrong with it; they are decoded on demand. suite: the folder of the cache.
    Raises `InputError` if a file cannot be read, or the cache cannot be written."""
    try:
        folder = extracted_folder(suite, _key(tables, column), lambda into: _unpack(tables, column, into))
        index_text = (folder / _INDEX).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"the images of {tables.files[0].parent} cannot be extracted: {error}") from None
    try:
        entries = json.loads(index_text)
    except ValueError as error:
        raise InputError(f"{folder} is damaged: delete it, and it is extracted again ({error})") from None
    return [
        ImageError(entry["problem"])
        if "problem" in entry
        else Image(tuple(entry["size"]), digest=entry["digest"], path=folder / _name(number))
        for number, entry in enumerate(entries)
    ]


def _key(tables: SplitFiles, column: str) -> str:
    state = hashlib.sha256()
    for path in tables.files:
        state.update(bytes.fromhex(sha256(path)))
    if column != "image":
        state.update(column.encode())
    return state.hexdigest()


def _name(number: int) -> str:
    return f"{number:05}"


def _unpack(tables: SplitFiles, column: str, folder: Path) -> None:
    index: list[dict[str, Any]] = []
    limit = remaining = most_extracted(sum(path.stat().st_size for path in tables.files))
    for number, (_, row) in enumerate(tables.rows(column)):
        try:
            data = _encoded(row[column], tables.folder)
            image = Image.of(data)
            remaining -= len(data)
            if remaining < 0:
                raise InputError(f"{tables.folder} holds pictures of more than {limit:,} bytes: extract it by hand")
            (folder / _name(number)).write_bytes(data)
            index.append({"size": list(image.size), "digest": image.digest})
        except ImageError as error:
            index.append({"problem": str(error)})
    (folder / _INDEX).write_text(json.dumps(index), encoding="utf-8")


def _encoded(value: Any, folder: Path) -> bytes:
    """The bytes of an image: direct, in a struct, or in a file named by the struct. Raises `ImageError`."""
    if isinstance(value, Mapping):
        if value.get("bytes"):
            return bytes(value["bytes"])
        if name := value.get("path"):
            return read_bytes(folder / str(name), inside=folder)
        raise ImageError("expected the image's bytes or the name of its file, got neither")
    if isinstance(value, LargeCell):
        raise ImageError(f"the image is not read: it has {value}")
    if isinstance(value, bytes) and value:
        return value
    raise ImageError(f"expected an image (a struct with bytes), got {type(value).__name__}")
