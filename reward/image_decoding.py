"""Decoding of files, bytes, PIL images, arrays and tensors to upright 8-bit RGB pixels."""

from __future__ import annotations

import base64
import contextlib
import io
import re
import struct
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import PIL.BmpImagePlugin
import PIL.GifImagePlugin
import PIL.Image
import PIL.ImageFile
import PIL.JpegImagePlugin
import PIL.PngImagePlugin
import PIL.TiffImagePlugin
import PIL.WebPImagePlugin
from numpy.typing import NDArray

from .encoded_images import (
    FILE_FORMATS,
    MAX_PIXELS,
    EncodedImage,
    ImageError,
    Size,
    check_size,
    decoding_seconds,
    format_of,
    orientation_of,
    read_header,
)
from .regular_files import read_regular

_PAUSES = 4.0  # seconds that the collector of a large program may take meanwhile, in the same thread
_BLOCK = 2**16  # bytes that a decoder is given at a time
Pixels = NDArray[np.uint8]
"""H x W x 3, uint8, RGB, read-only."""
Reading = Literal["upright", "stored"]
"""How the pixels of a file become RGB. `upright`: turned as EXIF says, alpha over white, 16 bits scaled to 8, and
(by `Image`) in sRGB where the file has another colour profile. `stored`: as PIL's `convert("RGB")` gives them, which
much released code uses: not turned, without alpha or profile, and of 16 bits of grey whatever this version of PIL makes
of them (255 for all that is above)."""
MAX_FILE_BYTES = 512 * 2**20
"""Larger files are refused before they are read: 120 million pixels of 24 bits have 360 MB."""
OVERSHOOT = 1 / 64
"""How far floats may lie outside of [0, 1], and are clipped: twice the step of bfloat16 above 1, four grey levels."""
_ADDRESS = re.compile(r"(?:https?|s3|gs|hf|ftp)://", re.IGNORECASE)
_DATA_URL = re.compile(r"data:[^,]{0,200},", re.IGNORECASE)
_BASE64_START = re.compile(r"[A-Za-z0-9+/\s]{64}")
_MIN_BASE64 = 64
_SHOWN = 1_000  # characters of a path in a message: longer ones are none that a file system has
# What PIL raises on damaged files.
_DECODE_ERRORS = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    Warning,  # of odd TIFFs, where a filter of warnings makes errors of them
    struct.error,
    zlib.error,
)
_UPRIGHT = {
    2: PIL.Image.Transpose.FLIP_LEFT_RIGHT,
    3: PIL.Image.Transpose.ROTATE_180,
    4: PIL.Image.Transpose.FLIP_TOP_BOTTOM,
    5: PIL.Image.Transpose.TRANSPOSE,
    6: PIL.Image.Transpose.ROTATE_270,
    7: PIL.Image.Transpose.TRANSVERSE,
    8: PIL.Image.Transpose.ROTATE_90,
}


def open_image(picture: EncodedImage) -> PIL.ImageFile.ImageFile:
    """The picture as PIL's, not decoded yet; decoding is bounded in time. Raises `ImageError`, and what PIL raises."""
    image = _READERS[picture.format](_WholeFile(picture.content, decoding_seconds(picture) + _PAUSES))
    if image.size != picture.size:
        raise ImageError(f"is damaged: a size of {picture.size} in its header, and of {image.size} further on")
    if not image.tile and picture.format != "WebP":  # which makes its tile when it is loaded
        raise ImageError("is damaged: it has no pixels")
    return image


class _WholeFile(io.BytesIO):
    """Bytes for a decoder, which reads them piece by piece; no more once its thread has used up its time. Who reads on
    after the last byte has not seen the end of the picture."""

    def __init__(self, data: bytes, seconds: float) -> None:
        super().__init__(data)
        self._seconds = seconds
        self._end = time.thread_time() + seconds

    def read(self, size: int | None = -1) -> bytes:
        if time.thread_time() > self._end:
            raise ImageError(f"takes longer than {self._seconds:.1f} s to decode, for its size: save it anew")
        data = super().read(size)
        if not data and size != 0:
            raise ImageError("is damaged: its file was cut off, it ends before the picture does")
        return data


class _Strict(PIL.ImageFile.ImageFile):
    """Decodes as `ImageFile.load` does without that setting. It stands between a format's class and `ImageFile`."""

    def load(self) -> Any:
        if self.tile:
            self.load_prepare()
            for codec, area, offset, options in sorted(self.tile, key=lambda tile: tile[2]):
                self._decode(codec, area, offset, options)
            self.tile = []
            self.load_end()
            self.fp = None
        return PIL.Image.Image.load(self)

    def _decode(self, codec: str, area: Any, offset: int, options: Any) -> None:
        file: Any = self.fp
        getattr(self, "load_seek", file.seek)(offset)
        read = getattr(self, "load_read", file.read)
        decoder = PIL.Image._getdecoder(self.mode, codec, options, self.decoderconfig)
        try:
            decoder.setimage(self.im, area)
            pending, used, error = b"", 0, 0
            while used >= 0:
                block = read(_BLOCK)
                if not block:
                    raise ImageError("is damaged: its pixels end too early")
                pending += block
                used, error = decoder.decode(pending)
                pending = pending[used:]
        finally:
            decoder.cleanup()
        if error < 0:
            raise ImageError(f"is damaged: its pixels cannot be decoded ({codec}, error {error})")


class _Bmp(PIL.BmpImagePlugin.BmpImageFile, _Strict):
    def _open(self) -> None:
        super()._open()
        if self.mode == "RGBA" and self.info["compression"] == self.COMPRESSIONS["RAW"]:  # with `USE_RAW_ALPHA`
            tile: Any = self.tile[0]
            self._mode, self.tile = "RGB", cast("Any", [(*tile[:3], ("BGRX", *tile[3][1:]))])


class _Tiff(PIL.TiffImagePlugin.TiffImageFile, _Strict):
    load_prepare = PIL.ImageFile.ImageFile.load_prepare  # its own asks for `MAX_IMAGE_PIXELS`; ours is `check_size`


def _strict(reader: type[PIL.ImageFile.ImageFile]) -> type[PIL.ImageFile.ImageFile]:
    return type(reader.__name__, (reader, _Strict), {})


# Classes instead of `PIL.Image.open`, which may try others, and reads a JPEG's index of further pictures.
_READERS: dict[str, Callable[[io.BytesIO], PIL.ImageFile.ImageFile]] = {
    "PNG": _strict(PIL.PngImagePlugin.PngImageFile),
    "JPEG": _strict(PIL.JpegImagePlugin.JpegImageFile),
    "WebP": _strict(PIL.WebPImagePlugin.WebPImageFile),
    "GIF": _strict(PIL.GifImagePlugin.GifImageFile),
    "BMP": _Bmp,
    "TIFF": _Tiff,
}


class PixelFormatError(ImageError):
    """An array of a shape, type or scale that is none of an image: a mistake of the caller, not of one image."""


def read_bytes(path: Path, *, inside: Path | None = None) -> bytes:
    """The contents of a regular file, which lies in the folder `inside` if that is given (see `open_regular`). Raises
    ImageError if it is missing, empty, larger than `MAX_FILE_BYTES`, of another kind, or lies elsewhere.
    """
    try:
        data = read_regular(path, MAX_FILE_BYTES, inside=inside)
    except OSError as error:
        raise ImageError(f"cannot read image {_shown(str(path))}: {error.strerror or error}") from None
    if not data:
        raise ImageError(f"image {path} is empty (zero bytes)")
    return data


def encoded_in_text(text: str) -> bytes | None:
    """The bytes of a picture that a text holds: a data URL in base64, or base64 alone, as tables have them. None for
    any other text, which is a path: base64 has no dot, and its bytes have to begin as those of a picture. Raises
    ImageError for an address on a network, and for a data URL of anything else.
    """
    if _ADDRESS.match(text):
        raise ImageError(f"{text!r:.80} is an address, and no file: pictures are read from files")
    url = _DATA_URL.match(text)
    if url is None and (len(text) < _MIN_BASE64 or not _BASE64_START.match(text)):
        return None
    try:
        data = base64.b64decode("".join(text[url.end() if url else 0 :].split()), validate=True)
    except ValueError:  # also for letters that are not ASCII
        data = b""
    if format_of(data):
        return data
    if url is not None:
        raise ImageError(f"{text!r:.80} is a data URL that holds no picture in base64")
    return None


def _shown(name: str) -> str:
    return name if len(name) <= _SHOWN else f"{name[:80]}… ({len(name):,} characters)"


def decode(
    data: bytes | memoryview,
    name: str,
    formats: Sequence[str] = FILE_FORMATS,
    max_pixels: int = MAX_PIXELS,
    *,
    reading: Reading = "upright",
) -> Pixels:
    """Encoded bytes to pixels, whatever their colour profile; `name` is for error messages. Raises ImageError; for the
    limits, which hold in each `reading`, see `encoded_images`. Raises ValueError for another reading."""
    return decode_with_profile(data, name, formats, max_pixels, reading=reading)[0]


def decode_with_profile(
    data: bytes | memoryview,
    name: str,
    formats: Sequence[str] = FILE_FORMATS,
    max_pixels: int = MAX_PIXELS,
    *,
    reading: Reading = "upright",
) -> tuple[Pixels, bytes]:
    """As `decode`, with the colour profile by which the pixels are to be read: empty where there is none, or in the
    reading `stored`."""
    if reading not in get_args(Reading):
        raise ValueError(f"pictures are read as {' or '.join(get_args(Reading))}, got {reading!r}")
    with image_errors(name):
        picture = read_header(data, formats, max_pixels)
        return (pixels_of(picture), picture.profile) if reading == "upright" else (_stored_pixels_of(picture), b"")


def pixels_of(picture: EncodedImage, orientation: int | None = None) -> Pixels:
    """Decode a picture whose limits were checked. Raises ImageError, and what PIL raises: see `image_errors`."""
    with open_image(picture) as image:
        return flatten(image, picture.orientation if orientation is None else orientation)


def _stored_pixels_of(picture: EncodedImage) -> Pixels:
    with open_image(picture) as image:
        image.load()
        image.info.pop("transparency", None)  # it decides no pixel here, and PIL warns of some kinds of it
        pixels: Pixels = np.asarray(image.convert("RGB"))
    pixels.setflags(write=False)  # of bytes that nobody else has
    return pixels


def size_of(
    data: bytes | memoryview, name: str, formats: Sequence[str] = FILE_FORMATS, max_pixels: int = MAX_PIXELS
) -> Size:
    """Width and height, as stored, from the header of encoded bytes; no pixel is decoded. Raises ImageError."""
    with image_errors(name):
        return read_header(data, formats, max_pixels).size


def from_pil(image: PIL.Image.Image) -> Pixels:
    """A PIL image to pixels. One of a format that is read here, and not decoded yet, is decoded as a file would be.
    Raises ImageError.
    """
    name = str(getattr(image, "filename", "")) or "PIL image"
    with image_errors(name):
        check_size(image.size)
        picture = _undecoded(image)
        if picture is None:
            return flatten(image, orientation_of(image.info))
        return pixels_of(picture)


def _undecoded(image: PIL.Image.Image) -> EncodedImage | None:
    """A picture that the caller has opened and not used: PIL would decode it without our limits."""
    file = getattr(image, "fp", None)
    is_used = not (getattr(image, "tile", None) or image.format == "WEBP") or getattr(image, "decoderconfig", None)
    if file is None or is_used or image.tell() != 0:
        return None
    file.seek(0)
    data = file.read(MAX_FILE_BYTES)
    return read_header(data) if format_of(data) else None


@contextlib.contextmanager
def image_errors(name: str) -> Iterator[None]:
    """Convert decoding errors to an ImageError that names the image."""
    try:
        yield
    except ImageError as error:
        separator = " " if str(error).startswith(("cannot ", "has ", "is ", "takes ")) else ": "
        raise type(error)(str(error) if str(error).startswith(name) else f"{name}{separator}{error}") from None
    except MemoryError:
        raise ImageError(f"{name} takes more memory than there is: resize it") from None
    except _DECODE_ERRORS as error:
        raise ImageError(f"{name} is damaged: {error}") from None


def flatten(image: PIL.Image.Image, orientation: int = 1) -> Pixels:
    """Any PIL mode to RGB: upright by EXIF's orientation, alpha over white, 16 bits scaled to 8."""
    image.load()
    if orientation in _UPRIGHT:
        image = image.transpose(_UPRIGHT[orientation])
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
    pixels: Pixels = np.asarray(image if image.mode == "RGB" else image.convert("RGB"))
    pixels.setflags(write=False)  # of bytes that nobody else has
    return pixels


def from_array(array: NDArray[Any]) -> Pixels:
    """H x W, or H x W x 1, 3 or 4, of uint8, uint16 or floats in [0, 1]. Raises ImageError for a NaN or an infinity,
    and PixelFormatError."""
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or 0 in array.shape:
        raise PixelFormatError(
            f"expected an array of H x W, H x W x 1, 3 or 4 (or a tensor 3 x H x W), got {tuple(array.shape)}"
        )
    if array.shape[0] * array.shape[1] > MAX_PIXELS:
        raise ImageError(f"the array has {array.shape[1]:,} x {array.shape[0]:,} pixels, more than {MAX_PIXELS:,}")
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
