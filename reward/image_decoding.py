"""Decoding of files, bytes, PIL images, arrays and tensors to upright 8-bit RGB pixels."""

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

from .regular_files import read_regular

Pixels = NDArray[np.uint8]
"""H x W x 3, uint8, RGB, read-only."""

Size = tuple[int, int]
"""Width, height."""

MAX_PIXELS = 150_000_000
"""Larger images are refused before they are decoded (PIL's own limit is 178,956,970)."""

MAX_FILE_BYTES = 512 * 2**20
"""Larger files are refused before they are read: 150 million pixels of 24 bits have 450 MB."""

OVERSHOOT = 1 / 64
"""How far floats may lie outside of [0, 1], and are clipped: twice the step of bfloat16 above 1, four grey levels."""


class ImageError(ValueError):
    """An image that cannot be read or has an unusable shape. The message names the image and what to do."""


class PixelFormatError(ImageError):
    """An array of a shape, type or scale that is none of an image: a mistake of the caller, not of one image."""


def read_bytes(path: Path, *, inside: Path | None = None) -> bytes:
    """The contents of a regular file, which lies in the folder `inside` if that is given (see `open_regular`).

    Raises ImageError if it is missing, empty, larger than `MAX_FILE_BYTES`, of another kind, or lies elsewhere.
    """
    try:
        data = read_regular(path, MAX_FILE_BYTES, inside=inside)
    except OSError as error:
        raise ImageError(f"cannot read image {path}: {error.strerror or error}") from None
    if not data:
        raise ImageError(f"image {path} is empty (zero bytes)")
    return data


def decode(data: bytes, name: str) -> Pixels:
    """Encoded bytes to pixels; `name` is for error messages. Raises ImageError."""
    with _image_errors(name), PIL.Image.open(io.BytesIO(data)) as image:
        _check_decompression_bomb(image.size, name)
        image.seek(0)  # of an animation, the first frame
        return flatten(image)


def size_of(data: bytes | memoryview, name: str, formats: tuple[str, ...] | None = None) -> Size:
    """Width and height from the header of encoded bytes; no pixel is decoded. formats: allowed formats, by PIL's names.

    Raises ImageError.
    """
    with _image_errors(name), PIL.Image.open(io.BytesIO(data), formats=formats) as image:
        return image.size


def from_pil(image: PIL.Image.Image) -> Pixels:
    """A PIL image, lazily loaded or not, to pixels. Raises ImageError."""
    name = str(getattr(image, "filename", "")) or "PIL image"
    with _image_errors(name):
        _check_decompression_bomb(image.size, name)
        return flatten(image)


@contextlib.contextmanager
def _image_errors(name: str) -> Iterator[None]:
    """Convert decoding errors to an ImageError that names the image."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PIL.Image.DecompressionBombWarning)  # MAX_PIXELS is our limit
            yield
    except PIL.Image.DecompressionBombError:
        raise ImageError(f"{name} claims more than {MAX_PIXELS:,} pixels: refused without decoding") from None
    except PIL.UnidentifiedImageError:
        raise ImageError(f"{name} is not an image this installation can read (PNG, JPEG, WebP, TIFF, ...)") from None
    except ImageError as error:
        raise type(error)(str(error) if name in str(error) else f"{name}: {error}") from None
    except _DECODE_ERRORS as error:
        raise ImageError(f"{name} is damaged: {error}") from None


# What PIL raises on damaged files.
_DECODE_ERRORS = (
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


def _check_decompression_bomb(size: Size, name: str) -> None:
    if size[0] * size[1] > MAX_PIXELS:
        raise ImageError(
            f"{name} has {size[0]:,} x {size[1]:,} pixels, more than {MAX_PIXELS:,}: refused without decoding"
        )


def flatten(image: PIL.Image.Image) -> Pixels:
    """Any PIL mode to RGB: upright by EXIF, alpha over white, 16 bits scaled to 8."""
    image = PIL.ImageOps.exif_transpose(image)
    if image.mode == "I":  # 16 bits, widened by PIL
        wide = np.asarray(image)
        if wide.min() < 0 or wide.max() > 65535:
            raise ImageError(f"integer pixels must lie in [0, 65535], got [{wide.min()}, {wide.max()}]")
        return from_array(wide.astype(np.uint16))
    if image.mode.startswith("I;16") or image.mode == "F":
        return from_array(np.asarray(image))
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = PIL.Image.new("RGBA", image.size, (255, 255, 255, 255))
        image = PIL.Image.alpha_composite(white, image)
    return readonly_copy(np.array(image.convert("RGB")))


def from_array(array: NDArray[Any]) -> Pixels:
    """H x W, or H x W x 1, 3 or 4, of uint8, uint16 or floats in [0, 1]. Raises ImageError for a NaN or an infinity,
    and PixelFormatError."""
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or 0 in array.shape:
        raise PixelFormatError(
            f"expected an array of H x W, H x W x 1, 3 or 4 (or a tensor 3 x H x W), got {tuple(array.shape)}"
        )
    _check_decompression_bomb((array.shape[1], array.shape[0]), "the array")
    pixels = _to_uint8(array)
    if pixels.shape[2] == 4:
        alpha = pixels[:, :, 3:].astype(np.uint32)
        over_white = pixels[:, :, :3].astype(np.uint32) * alpha + 255 * (255 - alpha)
        pixels = ((over_white + 127) // 255).astype(np.uint8)
    if pixels.shape[2] == 1:
        pixels = np.repeat(pixels, 3, axis=2)
    return readonly_copy(pixels)


def _to_uint8(array: NDArray[Any]) -> NDArray[np.uint8]:
    if array.dtype == np.uint8:
        return cast("NDArray[np.uint8]", array)
    if array.dtype.kind == "f":
        values = array.astype(np.float32)
        if count := values.size - int(np.isfinite(values).sum()):
            raise ImageError(
                f"{count:,} of {values.size:,} values are NaN or infinite: what made the picture has failed (half "
                "precision often overflows in an autoencoder)"
            )
        low, high = float(values.min()), float(values.max())
        if low < -OVERSHOOT or high > 1 + OVERSHOOT:
            raise PixelFormatError(
                f"float pixels must lie in [0, 1], got [{low:g}, {high:g}]: convert [-1, 1] with (x + 1) / 2, and "
                "[0, 255] with x / 255 or to uint8 (a pipeline's output_type='pt' or 'np' is in [0, 1])"
            )
        rounded: NDArray[np.float32] = np.floor(np.clip(values, 0, 1) * np.float32(255) + np.float32(0.5))
        return rounded.astype(np.uint8)
    if array.dtype.kind == "u" and array.dtype.itemsize == 2:
        return ((array.astype(np.uint32) * 255 + 32767) // 65535).astype(np.uint8)
    raise PixelFormatError(
        f"expected uint8, uint16 or float pixels, got {array.dtype}: convert it, to make its scale explicit"
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


def readonly_copy(pixels: NDArray[Any]) -> Pixels:
    """A private copy: a caller who reuses its buffer must not change an image whose digest is known."""
    copy: Pixels = np.array(pixels, dtype=np.uint8, order="C", copy=True)
    copy.setflags(write=False)
    return copy
