"""Files of pictures that families make: equal pixels under another name, and files that cannot be read any more."""

from __future__ import annotations

import io
from pathlib import Path

import PIL.Image
import PIL.PngImagePlugin

from ..image import Image, Size
from .audited_edit import AuditedEdit


def png(image: Image, info: PIL.PngImagePlugin.PngInfo | None = None, exif: PIL.Image.Exif | None = None) -> bytes:
    """A PNG file with these pixels and these metadata, not compressed: it is read once."""
    file = io.BytesIO()
    metadata = {key: value for key, value in (("pnginfo", info), ("exif", exif)) if value is not None}
    PIL.Image.fromarray(image.pixels).save(file, "PNG", compress_level=0, **metadata)
    return file.getvalue()


def opened(folder: Path, name: str, data: bytes) -> Image:
    """The picture in a new file, read as every file of a user's is."""
    path = folder / name
    path.write_bytes(data)
    return Image.open(path)


def unreadable(edit: AuditedEdit, name: str, data: bytes | None, size: Size | None = None) -> Image | None:
    """The edited picture, but for one grey level, as opened from a file that has other bytes since: reading its pixels
    raises ImageError, while its size and digest are known. data: the file's bytes; None: it is gone. size: what the
    picture had, by default the edited one's. None without a folder.
    """
    if edit.folder is None:
        return None
    pixels = edit.after.copy()
    pixels[0, 0, 0] ^= 1  # else its pixels would be known from the edited picture itself
    picture = Image.of(pixels)
    path = edit.folder / f"{name}-{picture.digest[:16]}.png"
    path.unlink(missing_ok=True)
    if data is not None:
        path.write_bytes(data)
    return Image(size or picture.size, digest=picture.digest, path=path)
