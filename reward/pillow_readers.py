"""Pillow's decoders without its settings, which any library of the process may have changed for all others.

With `PIL.ImageFile.LOAD_TRUNCATED_IMAGES`, which data loaders set, a file that was cut off is a picture whose rest is
grey. Here it is damaged, whatever is set: nobody reads past its last byte, and an error of a decoder is raised.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from typing import Any, cast

import PIL.BmpImagePlugin
import PIL.GifImagePlugin
import PIL.Image
import PIL.ImageFile
import PIL.JpegImagePlugin
import PIL.PngImagePlugin
import PIL.TiffImagePlugin
import PIL.WebPImagePlugin

from .encoded_images import EncodedImage, ImageError, decoding_seconds

_PAUSES = 4.0
"""Seconds that the collector of a large program may take meanwhile, in the same thread."""

_BLOCK = 2**16
"""Bytes that a decoder is given at a time."""


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


class _Png(PIL.PngImagePlugin.PngImageFile, _Strict):
    pass


class _Jpeg(PIL.JpegImagePlugin.JpegImageFile, _Strict):
    pass


class _WebP(PIL.WebPImagePlugin.WebPImageFile, _Strict):
    pass


class _Gif(PIL.GifImagePlugin.GifImageFile, _Strict):
    pass


class _Bmp(PIL.BmpImagePlugin.BmpImageFile, _Strict):
    def _open(self) -> None:
        super()._open()
        if self.mode == "RGBA" and self.info["compression"] == self.COMPRESSIONS["RAW"]:  # with `USE_RAW_ALPHA`
            tile: Any = self.tile[0]
            self._mode, self.tile = "RGB", cast("Any", [(*tile[:3], ("BGRX", *tile[3][1:]))])


class _Tiff(PIL.TiffImagePlugin.TiffImageFile, _Strict):
    load_prepare = PIL.ImageFile.ImageFile.load_prepare  # its own asks for `MAX_IMAGE_PIXELS`; ours is `check_size`


# Classes instead of `PIL.Image.open`, which may try others, and reads a JPEG's index of further pictures.
_READERS: dict[str, Callable[[io.BytesIO], PIL.ImageFile.ImageFile]] = {
    "PNG": _Png,
    "JPEG": _Jpeg,
    "WebP": _WebP,
    "GIF": _Gif,
    "BMP": _Bmp,
    "TIFF": _Tiff,
}
