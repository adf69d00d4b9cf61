"""Images: uint8 RGB pixels in sRGB, identified by content.

An `Image` is backed by pixels, by a file or its bytes that are decoded on access, by an operation on other images (such
as a crop), by another image and its colour profile, or by its digest alone (in a replay). All of them compare by
content, so queries about equal pixels are deduplicated, and a long list of files does not pin its pixels in memory.
"""

from __future__ import annotations

import hashlib
import json
import operator
import os
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import PIL.Image

from .colour_profiles import continues_raw_numbers, has_other_colours, to_srgb
from .encoded_images import ImageError, Size
from .image_decoding import (
    PixelFormatError,
    Pixels,
    Reading,
    decode_with_profile,
    encoded_in_text,
    from_array,
    from_pil,
    read_bytes,
    readonly_copy,
    tensor_to_numpy,
)
from .image_operations import RED, WHITE, Canvas, Colour, ImageOperation, apply_operation, tilted_size
from .lru_cache import LruCache

__all__ = ["FileIndex", "Image", "ImageError", "PixelFormatError", "Pixels", "Reading", "Size"]
FileIndex = MutableMapping[str, tuple[str, Size]]
"""Key of a file and a reading -> (content digest, size): avoids decoding files that an earlier run has decoded."""
DerivedDigest = Callable[[str, str], "str | None"]
"""Digest of an image and an operation as JSON -> digest of the derived image; None if that is not recorded."""
Corners = tuple[int, int, int, int]
"""Pixel corners x0, y0, x1, y1: columns x0..x1-1 and rows y0..y1-1."""
_ENTRY_BYTES = 512  # of an entry beside its pixels, about: they are fewer for tiny pictures
PixelCache = LruCache[str, Pixels]
_derivations: LruCache[tuple[str, ImageOperation], str] = LruCache(100_000)
"""(digest, operation) -> digest of the result: a crop used by many programs is hashed once."""


class Image:
    """An image. Create it with `Image.of(anything)`. Immutable, hashable, and equal when the pixels are.

    Attributes: `size` (width, height), `digest` (sha256 over size and pixels, hex), `pixels` (H x W x 3 uint8, sRGB).
    """

    __slots__ = (
        "_derived",
        "_digest",
        "_encoded",
        "_path",
        "_pixels",
        "_profile",
        "_raw",
        "_reading",
        "_recorded",
        "size",
    )

    def __init__(
        self,
        size: Size,
        *,
        pixels: Pixels | None = None,
        digest: str | None = None,
        path: Path | None = None,
        encoded: bytes | None = None,
        reading: Reading = "upright",
        derived: tuple[tuple[Image, ...], ImageOperation] | None = None,
        recorded: DerivedDigest | None = None,
        raw: Image | None = None,
        profile: bytes = b"",
    ) -> None:
        self.size = size
        self._raw = raw
        self._profile = profile
        self._pixels = pixels
        self._digest = digest
        self._path = path
        self._encoded = encoded
        self._reading: Reading = reading
        self._derived = derived
        self._recorded: DerivedDigest | None = recorded if derived is None else derived[0][0]._recorded

    # -- construction -------------------------------------------------------------------------------------------------

    @staticmethod
    def of(value: object) -> Image:
        """An Image from a path, encoded bytes (also in base64, or as a data URL), a PIL image, a numpy array, a torch
        tensor, or an Image.

        Arrays: H x W x 3, H x W x 4 (alpha is composited on white), H x W x 1 or H x W. Tensors may also be 3 x H x W.
        uint8 is used unchanged; uint16 is scaled; floats must lie in [0, 1] and become floor(255 x + 0.5); rounding up
        to 1/64 outside is clipped. The digest does not depend on the input type. What has another colour profile than
        sRGB is converted (see `raw`).

        Raises `ImageError`; its subclass `PixelFormatError` for an array of another shape, type or scale.
        """
        if isinstance(value, Image):
            return value
        if isinstance(value, str) and (encoded := encoded_in_text(value)) is not None:
            value = encoded
        if isinstance(value, str | os.PathLike):
            return Image.open(cast("str | os.PathLike[str]", value))
        if isinstance(value, bytes | bytearray | memoryview):
            pixels, profile = decode_with_profile(bytes(value), "encoded image")
            return Image._from_pixels(pixels).read_by(profile, "an encoded image")
        if isinstance(value, PIL.Image.Image):
            embedded: object = value.info.get("icc_profile")
            name = str(getattr(value, "filename", "")) or "a PIL image"
            return Image._from_pixels(from_pil(value)).read_by(embedded if isinstance(embedded, bytes) else b"", name)
        if isinstance(value, np.ndarray):
            return Image._from_pixels(from_array(value))
        if hasattr(value, "detach") and hasattr(value, "cpu"):  # a torch tensor, without importing torch
            return Image._from_pixels(from_array(tensor_to_numpy(value)))
        raise ImageError(
            f"cannot make an image from {type(value).__name__}: give a path, encoded bytes, a PIL image, "
            "a numpy array or a torch tensor"
        )

    @staticmethod
    def open(
        path: str | os.PathLike[str],
        *,
        index: FileIndex | None = None,
        inside: Path | None = None,
        reading: Reading = "upright",
    ) -> Image:
        """The image in a file. Reads the file now, and decodes it now unless `index` has its content digest; it gets
        none of files with another colour profile than sRGB.

        Args:
            inside: A folder that the file has to lie in or below, links followed, where a stranger has named it.
            reading: `upright`, or `stored` for the pixels that released code sees; see `Reading`.

        Raises:
            ImageError: For a file that is missing, empty, truncated, oversized, not regular or not an image.
        """
        path = Path(path)
        data = read_bytes(path, inside=inside)
        key = "" if index is None else _index_key(data, reading)
        entry = index.get(key) if index is not None else None
        if entry is not None:
            return Image(entry[1], digest=entry[0], path=path, reading=reading)
        pixels, profile = decode_with_profile(data, str(path), reading=reading)
        raw = Image((pixels.shape[1], pixels.shape[0]), digest=_digest(pixels), path=path, reading=reading)
        return raw._decoded(pixels, profile, str(path), index, key)

    @staticmethod
    def from_encoded(data: bytes, *, index: FileIndex | None = None) -> Image:
        """The image in the bytes of a file, which are kept in place of its pixels: for many at a time, as in tables.

        Decodes them now, as `open` does, unless `index` has their content digest. Raises `ImageError`.
        """
        key = "" if index is None else _index_key(data, "upright")
        if index is not None and (entry := index.get(key)) is not None:
            return Image(entry[1], digest=entry[0], encoded=data)
        pixels, profile = decode_with_profile(data, "encoded image")
        raw = Image((pixels.shape[1], pixels.shape[0]), digest=_digest(pixels), encoded=data)
        return raw._decoded(pixels, profile, "an encoded image", index, key)

    def _decoded(self, pixels: Pixels, profile: bytes, name: str, index: FileIndex | None, key: str) -> Image:
        """This image, whose pixels were decoded just now, by its profile."""
        _cache.put(self.digest, pixels)
        image = self.read_by(profile, name)
        if index is not None and image is self:
            index[key] = (self.digest, self.size)
        return image

    @staticmethod
    def from_digest(digest: str, size: Size, recorded: DerivedDigest | None = None, raw: str = "") -> Image:
        """An image known by its digest only, as in a recording. Access to its pixels raises `ImageError`.

        Args:
            recorded: Knows the digests of images derived from it.
            raw: The digest of its `raw`, if that is another.
        """
        raw_image = Image(size, digest=raw, recorded=recorded) if raw else None
        return Image(size, digest=digest, recorded=recorded, raw=raw_image)

    @staticmethod
    def _from_pixels(pixels: Pixels) -> Image:
        return Image((pixels.shape[1], pixels.shape[0]), pixels=pixels)

    # -- pixels and digest --------------------------------------------------------------------------------------------

    @property
    def width(self) -> int:
        """In pixels."""
        return self.size[0]

    @property
    def height(self) -> int:
        """In pixels."""
        return self.size[1]

    @property
    def pixels(self) -> Pixels:
        """H x W x 3 uint8 RGB, read-only.

        Raises:
            ImageError: If they are not (or no longer) available.
        """
        if self._pixels is not None:
            return self._pixels
        if self._digest is not None and (cached := _cache.get(self._digest)) is not None:
            return cached
        if self._raw is not None and self._profile:
            pixels = to_srgb(self._raw.pixels, self._profile)
        elif self._derived is not None:
            pixels = readonly_copy(apply_operation(self._derived[1], *(parent.pixels for parent in self._derived[0])))
        elif self._path is not None or self._encoded is not None:
            name = "the encoded image" if self._path is None else str(self._path)
            data = self._encoded if self._path is None else read_bytes(self._path)
            pixels, _ = decode_with_profile(cast("bytes", data), name, reading=self._reading)
            if _digest(pixels) != self._digest or pixels.shape[1::-1] != self.size:  # or the index of files is wrong
                raise ImageError(f"{name} has changed since it was first read: start again with a stable copy")
        else:
            raise ImageError(f"only the digest of image {self.digest[:12]} is known here (a recording without pixels)")
        if self._digest is None:
            self._digest = _digest(pixels)
        _cache.put(self._digest, pixels)
        return pixels

    @property
    def digest(self) -> str:
        """Of size and RGB values, hex: equal for equal pixels, whatever the file was."""
        if self._digest is None:
            if self._pixels is not None:
                self._digest = _digest(self._pixels)
            elif self._raw is not None:
                key = (self._raw.digest, ("profile", hashlib.sha256(self._profile).hexdigest()))
                self._digest = _derivations.get(key) or _digest(self.pixels)
                _derivations.put(key, self._digest)
            else:
                parents, op = cast("tuple[tuple[Image, ...], ImageOperation]", self._derived)
                # Recorded digests count only where pixels are not available.
                recorded = None
                if self._recorded is not None and not self.seen:
                    recorded = self._recorded(parents[0].digest, json.dumps(op))
                self._digest = recorded or _derivations.get((parents[0].digest, op))
                if self._digest is None:
                    self._digest = self._derive(parents, op)
        return self._digest

    def _derive(self, parents: tuple[Image, ...], op: ImageOperation) -> str:
        key = (parents[0].digest, op)
        if not self.seen:  # a stable placeholder: equal queries of a replay keep equal digests
            return hashlib.sha256(repr(key).encode()).hexdigest()
        pixels = readonly_copy(apply_operation(op, *(parent.pixels for parent in parents)))
        digest = _digest(pixels)
        _cache.put(digest, pixels)
        _derivations.put(key, digest)
        return digest

    @property
    def seen(self) -> bool:
        """Whether pixels are available."""
        if self._raw is not None:
            return self._raw.seen
        if self._derived is not None:
            return all(parent.seen for parent in self._derived[0])
        return self._pixels is not None or self._path is not None or self._encoded is not None

    @property
    def origin(self) -> tuple[Image, str] | None:
        """For a derived image: the first of its `parents`, and the operation as JSON."""
        return None if self._derived is None else (self._derived[0][0], json.dumps(self._derived[1]))

    @property
    def parents(self) -> tuple[Image, ...]:
        """The images it was derived from; empty for an image that is not derived."""
        return () if self._derived is None else self._derived[0]

    def pil(self) -> PIL.Image.Image:
        """A PIL image (a copy) in mode RGB."""
        return PIL.Image.fromarray(np.array(self.pixels))

    # -- colours ------------------------------------------------------------------------------------------------------

    @property
    def raw(self) -> Image:
        """The picture as programs read it that ignore colour profiles, as released code and most pipelines do: the
        numbers that were stored. Itself, where they are sRGB."""
        return self if self._raw is None else self._raw

    @property
    def profile(self) -> bytes:
        """The colour profile (ICC) by which `raw` is read; empty where that is sRGB, and for `from_digest`."""
        return self._profile

    def read_by(self, profile: bytes, name: str) -> Image:
        """The picture that these numbers are by a colour profile (ICC). Itself by that of sRGB, and, with a warning
        that has the picture's name, by one that cannot be used."""
        if profile and has_other_colours(self.pixels, profile, name):
            return Image(self.size, raw=self, profile=profile)
        return self

    def as_edit_of(self, source: Image) -> Image:
        """An edit as it is to be compared with a source that has a colour profile.

        Pipelines ignore profiles, so that an edit without one may have the source's raw numbers in place of sRGB: where
        it has (`continues_raw_numbers`), it is read by the source's profile.
        """
        if not source.profile or self.profile or not (self.seen and source.seen):
            return self
        key = (self.digest, ("as edit of", source.digest, source.raw.digest))
        found = _derivations.get(key)
        if found is None:
            found = "raw" if continues_raw_numbers(self.pixels, source.raw.pixels, source.pixels) else "shown"
            _derivations.put(key, found)
        return Image(self.size, raw=self, profile=source.profile) if found == "raw" else self

    # -- derived images -----------------------------------------------------------------------------------------------

    def crop(self, x0: int, y0: int, x1: int, y1: int) -> Image:
        """The pixels in columns x0..x1-1 and rows y0..y1-1.

        Raises:
            ImageError: If the crop is empty or outside.
        """
        if not (0 <= x0 < x1 <= self.width and 0 <= y0 < y1 <= self.height):
            raise ImageError(f"crop {(x0, y0, x1, y1)} is empty or outside of a {self.width} x {self.height} image")
        if (x0, y0, x1, y1) == (0, 0, *self.size):
            return self
        corners = tuple(map(operator.index, (x0, y0, x1, y1)))  # plain integers instead of numpy's
        return Image((corners[2] - corners[0], corners[3] - corners[1]), derived=((self,), ("crop", *corners)))

    def resized(self, width: int, height: int, resample: Literal["lanczos", "bicubic", "area"] = "lanczos") -> Image:
        """The image at another size; itself if it has that size already.

        Raises:
            ImageError: For an empty size.
        """
        width, height = operator.index(width), operator.index(height)
        if width < 1 or height < 1:
            raise ImageError(f"cannot resize to {width} x {height}: give at least 1 x 1")
        if self.size == (width, height):
            return self
        return Image((width, height), derived=((self,), ("resize", width, height, resample)))

    def turned(self, quarters: int, *, mirrored: bool = False) -> Image:
        """The image turned clockwise by quarters, after left and right were swapped if `mirrored`."""
        quarters = operator.index(quarters) % 4
        if not quarters and not mirrored:
            return self
        size = self.size[::-1] if quarters % 2 else self.size
        return Image(size, derived=((self,), ("turn", bool(mirrored), quarters)))

    def tilted(self, degrees: float, canvas: Canvas = "same") -> Image:
        """The image turned clockwise about its middle by any angle, white where it does not reach."""
        if not degrees:
            return self
        size, scale = tilted_size(*self.size, degrees, canvas)
        return Image(size, derived=((self,), ("tilt", float(degrees), *size, float(scale))))

    def painted(self, *areas: Corners, colour: Colour = WHITE) -> Image:
        """The image with these areas in one colour; itself without areas. Areas are clipped to the image."""
        if not areas:
            return self
        return Image(self.size, derived=((self,), ("paint", *colour, *_flat(areas))))

    def stretched(self, quantile: float = 0.005) -> Image:
        """The image with its contrast stretched to all levels, except for this share of the darkest and lightest."""
        return Image(self.size, derived=((self,), ("stretch", quantile)))

    def outlined(self, *areas: Corners, colour: Colour = RED, width: int = 2) -> Image:
        """The image with a line of `width` pixels along the inside of these areas; itself without areas."""
        if not areas:
            return self
        return Image(self.size, derived=((self,), ("outline", width, *colour, *_flat(areas))))

    def beside(self, right: Image, *, line: int = 0, colour: Colour = RED) -> Image:
        """This image and another of the same height to its right, with a line of `line` pixels between them.

        Raises:
            ImageError: For another height.
        """
        if self.height != right.height:
            raise ImageError(f"images of {self.size} and {right.size} do not fit side by side: resize one of them")
        operation = ("beside", line, *colour, right.digest)
        return Image((self.width + line + right.width, self.height), derived=((self, right), operation))

    def pasted(self, part: Image, x: int, y: int) -> Image:
        """This image with another one over it, whose upper left corner is at (x, y).

        Raises:
            ImageError: Where it does not lie inside.
        """
        if min(x, y) < 0 or x + part.width > self.width or y + part.height > self.height:
            raise ImageError(f"an image of {part.size} at {x}, {y} does not lie inside one of {self.size}")
        return Image(self.size, derived=((self, part), ("paste", x, y, part.digest)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Image) and (self is other or self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Image({self.width}x{self.height}, {self.digest[:12]})"

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.seen:
            return Image.from_digest, (self.digest, self.size, None, "" if self._raw is None else self._raw.digest)
        if self._raw is not None:
            return _rebuild_by_profile, (self._raw, self._profile)
        return _rebuild, (np.array(self.pixels), self.digest)


def _rebuild(pixels: Pixels, digest: str) -> Image:
    pixels.setflags(write=False)
    return Image((pixels.shape[1], pixels.shape[0]), pixels=pixels, digest=digest)


def _rebuild_by_profile(raw: Image, profile: bytes) -> Image:
    return Image(raw.size, raw=raw, profile=profile)


def _digest(pixels: Pixels) -> str:
    header = f"editcritic image 1 {pixels.shape[1]}x{pixels.shape[0]} ".encode()
    state = hashlib.sha256(header)
    state.update(np.ascontiguousarray(pixels).data)
    return state.hexdigest()


def _index_key(data: bytes, reading: Reading) -> str:
    """Of a file in a `FileIndex`: its digest; in another reading, whose pixels may differ, another digest."""
    digest = hashlib.sha256(data).hexdigest()
    return digest if reading == "upright" else hashlib.sha256(f"{reading} {digest}".encode()).hexdigest()


def _flat(areas: tuple[Corners, ...]) -> tuple[int, ...]:
    return tuple(operator.index(corner) for area in areas for corner in area)


# -- caches -----------------------------------------------------------------------------------------------------------


def pixel_cache(limit_bytes: int) -> PixelCache:
    """Of decoded pixels by digest."""
    return LruCache(limit_bytes, lambda pixels: pixels.nbytes + _ENTRY_BYTES, least=1)


_cache = pixel_cache(256 * 2**20)
