"""Pixels in: from files, bytes, PIL images, arrays and tensors to upright 8-bit RGB."""

from __future__ import annotations

import contextlib
import io
import struct
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import PIL.Image
import PIL.ImageOps
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
"""H x W x 3, uint8, RGB, read-only."""

Size = tuple[int, int]
"""Width, height."""

MAX_PIXELS = 150_000_000
"""Larger pictures are refused before they are decoded (PIL itself gives up at 178,956,970)."""


class ImageError(ValueError):
    """A picture that cannot be read or has an unusable shape. The message names the picture and what to do."""


def read_bytes(path: Path) -> bytes:
    """A file's contents. Raises ImageError for one that is missing or empty."""
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a path with a null character in it
        raise ImageError(f"cannot read image {path}: {getattr(error, 'strerror', None) or error}") from None
    if not data:
        raise ImageError(f"image {path} is empty (zero bytes)")
    return data


def decode(data: bytes, name: str) -> Pixels:
    """Encoded bytes to pixels; `name` is for the message. Raises ImageError."""
    with _said_of(name), PIL.Image.open(io.BytesIO(data)) as picture:
        _refuse_bomb(picture.size, name)
        picture.seek(0)  # of an animation, the first frame
        return flatten(picture)


def size_of(data: bytes | memoryview, name: str, formats: tuple[str, ...] | None = None) -> Size:
    """Width and height by the header of encoded bytes; no pixel is decoded. formats: PIL's names of those admitted.

    Raises ImageError.
    """
    with _said_of(name), PIL.Image.open(io.BytesIO(data), formats=formats) as picture:
        return picture.size


def from_pil(picture: PIL.Image.Image) -> Pixels:
    """A PIL image, decoded yet or not, to pixels. Raises ImageError."""
    name = str(getattr(picture, "filename", "")) or "PIL image"
    with _said_of(name):
        _refuse_bomb(picture.size, name)
        return flatten(picture)


@contextlib.contextmanager
def _said_of(name: str) -> Iterator[None]:
    """What goes wrong with a picture is an ImageError that names it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PIL.Image.DecompressionBombWarning)  # MAX_PIXELS is our limit
            yield
    except PIL.Image.DecompressionBombError:
        raise ImageError(f"{name} claims more than {MAX_PIXELS:,} pixels: refused unread") from None
    except PIL.UnidentifiedImageError:
        raise ImageError(f"{name} is not an image this installation can read (PNG, JPEG, WebP, TIFF, ...)") from None
    except ImageError as error:
        raise ImageError(str(error) if name in str(error) else f"{name}: {error}") from None
    except _DAMAGE as error:
        raise ImageError(f"{name} is damaged: {error}") from None


# What PIL raises on damaged files.
_DAMAGE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
)


def _refuse_bomb(size: Size, name: str) -> None:
    if size[0] * size[1] > MAX_PIXELS:
        raise ImageError(f"{name} has {size[0]:,} x {size[1]:,} pixels, more than {MAX_PIXELS:,}: refused unread")


def flatten(picture: PIL.Image.Image) -> Pixels:
    """Any PIL mode to RGB: upright by EXIF, alpha over white, 16 bits scaled to 8."""
    picture = PIL.ImageOps.exif_transpose(picture)
    if picture.mode == "I":  # 16 bits, widened by PIL
        wide = np.asarray(picture)
        if wide.min() < 0 or wide.max() > 65535:
            raise ImageError(f"integer pixels must lie in [0, 65535], got [{wide.min()}, {wide.max()}]")
        return from_array(wide.astype(np.uint16))
    if picture.mode.startswith("I;16") or picture.mode == "F":
        return from_array(np.asarray(picture))
    if picture.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in picture.info:
        picture = picture.convert("RGBA")
        white = PIL.Image.new("RGBA", picture.size, (255, 255, 255, 255))
        picture = PIL.Image.alpha_composite(white, picture)
    return frozen(np.array(picture.convert("RGB")))


def from_array(array: NDArray[Any]) -> Pixels:
    """H x W, or H x W x 1, 3 or 4, of uint8, uint16 or floats in [0, 1]. Raises ImageError."""
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or 0 in array.shape:
        raise ImageError(
            f"expected an array of H x W, H x W x 1, 3 or 4 (or a tensor 3 x H x W), got {tuple(array.shape)}"
        )
    _refuse_bomb((array.shape[1], array.shape[0]), "the array")
    eight = _to_uint8(array)
    if eight.shape[2] == 4:
        alpha = eight[:, :, 3:].astype(np.uint32)
        over_white = eight[:, :, :3].astype(np.uint32) * alpha + 255 * (255 - alpha)
        eight = ((over_white + 127) // 255).astype(np.uint8)
    if eight.shape[2] == 1:
        eight = np.repeat(eight, 3, axis=2)
    return frozen(eight)


def _to_uint8(array: NDArray[Any]) -> NDArray[np.uint8]:
    if array.dtype == np.uint8:
        return cast("NDArray[np.uint8]", array)
    if array.dtype.kind == "f":
        values = array.astype(np.float32)
        low, high = float(values.min()), float(values.max())
        if not (low >= -1e-3 and high <= 1 + 1e-3):  # also false for NaN
            raise ImageError(
                f"float pixels must lie in [0, 1], got [{low:g}, {high:g}]: rescale, or give uint8 "
                "(a pipeline's output_type='pt' or 'np' is in [0, 1])"
            )
        rounded: NDArray[np.float32] = np.floor(np.clip(values, 0, 1) * np.float32(255) + np.float32(0.5))
        return rounded.astype(np.uint8)
    if array.dtype.kind == "u" and array.dtype.itemsize == 2:
        return ((array.astype(np.uint32) * 255 + 32767) // 65535).astype(np.uint8)
    raise ImageError(
        f"expected uint8, uint16 or float pixels, got {array.dtype}: convert it, so that its scale is known"
    )


def tensor_to_numpy(tensor: Any) -> NDArray[Any]:
    """A torch tensor, 3 x H x W or H x W x 3 (or a batch of one), as an array of H x W x channels."""
    tensor = tensor.detach().cpu()
    if tensor.is_floating_point():
        tensor = tensor.float()  # numpy has no bfloat16
    array: NDArray[Any] = tensor.numpy()
    if array.ndim == 4 and array.shape[0] == 1:
        array = array[0]
    if array.ndim == 3 and array.shape[0] in (1, 3, 4) and array.shape[2] not in (1, 3, 4):
        array = array.transpose(1, 2, 0)
    return array


def frozen(pixels: NDArray[Any]) -> Pixels:
    """A private copy, so that a caller who reuses a buffer cannot change a picture behind its digest."""
    held: Pixels = np.array(pixels, dtype=np.uint8, order="C", copy=True)
    held.setflags(write=False)
    return held
