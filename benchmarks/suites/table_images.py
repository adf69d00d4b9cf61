"""The pictures of a column of tables, extracted once to files of the user's cache."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...reward import Image, ImageError
from ...reward.file_digest import sha256
from ...reward.image_decoding import read_bytes
from ..common.errors import InputError
from .construction.zip_extraction import most_extracted
from .extraction_cache import extracted_folder
from .split_files import LargeCell, SplitFiles

_INDEX = "images.json"


def extracted_images(suite: str, tables: SplitFiles, column: str = "image") -> Sequence[Image | ImageError]:
    """The picture of each row, or what is wrong with it; they are decoded on demand.

    suite: the folder of the cache. Raises `InputError` if a file cannot be read, or the cache cannot be written.
    """
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
    """Digest of the files' content and the column, independent of paths."""
    state = hashlib.sha256()
    for path in tables.files:
        state.update(bytes.fromhex(sha256(path)))
    if column != "image":
        state.update(column.encode())
    return state.hexdigest()


def _name(number: int) -> str:
    return f"{number:05}"


def _unpack(tables: SplitFiles, column: str, folder: Path) -> None:
    """Extract the encoded images to files, with an index of sizes and digests that saves decoding later."""
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
