"""The pictures of a row: whether they can be read, and of what size they are."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from ...reward import Image, ImageError
from ...reward.encoded_images import Size, read_header
from ...reward.image_decoding import decode, encoded_in_text, image_errors, read_bytes

PictureCheck = Literal["header", "decode", "none"]
"""Whether pictures are opened: their headers, which have the size and show what is no picture; all of their pixels,
which also shows what breaks off; or not at all."""

PICTURE_CHECKS: tuple[str, ...] = get_args(PictureCheck)

_UNKNOWN_SIZE: Size = (10_900, 10_900)  # about the largest: boxes of any picture fit in


@dataclass(frozen=True, slots=True)
class RowPicture:
    """image: of the right size, without pixels. name: equal for pictures that the file has under one path, or with
    equal bytes. is_measured: whether the size is known.
    """

    image: Image
    name: bytes
    is_measured: bool


class PictureReader:
    """Reads the pictures of rows. folder: where relative paths begin, and the only place where files are opened, unless
    others are trusted; None: nobody knows. turns: whether the size is that of the picture as EXIF turns it.
    """

    def __init__(self, folder: Path | None, check: PictureCheck, *, turns: bool) -> None:
        self.folder = folder
        self.check = check
        self.turns = turns
        self._last: dict[str, Size] = {}

    def read(self, value: Any) -> RowPicture:
        """A path, the bytes of a file, or a table with either, as `datasets` keeps undecoded pictures.

        Raises ImageError with what is wrong.
        """
        if isinstance(value, Mapping):
            value = value["bytes"] if value.get("bytes") is not None else value.get("path")
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
