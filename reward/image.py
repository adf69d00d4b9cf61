"""Pictures: uint8 RGB pixels known by their content.

An `Image` may be backed by pixels, by a file that is decoded when somebody looks, by what is made of other images (a
crop, say), or by nothing but its digest (in a replay). All four compare by content, so experts are never asked twice
about the same pixels, and a long list of files does not pin its pixels in memory.
"""

from __future__ import annotations

import hashlib
import json
import operator
import os
import threading
from collections import OrderedDict
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import PIL.Image

from .decode import ImageError, Pixels, Size, decode, from_array, from_pil, frozen, read_bytes, tensor_to_numpy
from .drawing import RED, WHITE, Colour, Operation, draw

__all__ = ["FileIndex", "Image", "ImageError", "Pixels", "Size"]

FileIndex = MutableMapping[str, tuple[str, Size]]
"""File digest -> (content digest, size): spares decoding what was decoded in an earlier run."""

Corners = tuple[int, int, int, int]
"""Pixel corners x0, y0, x1, y1: columns x0..x1-1 and rows y0..y1-1."""


class Image:
    """One picture. Make it with `Image.of(anything)`; it is immutable and hashable, and equal when the pixels are.

    Attributes: `size` (width, height), `digest` (sha256 over size and pixels, hex), `pixels` (H x W x 3 uint8 RGB).
    """

    __slots__ = ("_derived", "_digest", "_path", "_pixels", "size")

    def __init__(
        self,
        size: Size,
        *,
        pixels: Pixels | None = None,
        digest: str | None = None,
        path: Path | None = None,
        derived: tuple[tuple[Image, ...], Operation] | None = None,
    ) -> None:
        self.size = size
        self._pixels = pixels
        self._digest = digest
        self._path = path
        self._derived = derived

    # -- making one ---------------------------------------------------------------------------------------------------

    @staticmethod
    def of(value: object) -> Image:
        """Make an Image of a path, encoded bytes, a PIL image, a numpy array, a torch tensor, or an Image.

        Arrays: H x W x 3, H x W x 4 (alpha is composited on white), H x W x 1 or H x W. Tensors may also be 3 x H x W.
        uint8 is taken as it is; uint16 is scaled; floats must lie in [0, 1] and become floor(255 x + 0.5), whatever
        route they came by, so that the digest does not depend on it.

        Raises `ImageError`.
        """
        if isinstance(value, Image):
            return value
        if isinstance(value, str | os.PathLike):
            return Image.open(cast("str | os.PathLike[str]", value))
        if isinstance(value, bytes | bytearray | memoryview):
            return Image._held(decode(bytes(value), "encoded image"))
        if isinstance(value, PIL.Image.Image):
            return Image._held(from_pil(value))
        if isinstance(value, np.ndarray):
            return Image._held(from_array(value))
        if hasattr(value, "detach") and hasattr(value, "cpu"):  # a torch tensor, without importing torch
            return Image._held(from_array(tensor_to_numpy(value)))
        raise ImageError(
            f"cannot make an image of {type(value).__name__}: give a path, encoded bytes, a PIL image, "
            "a numpy array or a torch tensor"
        )

    @staticmethod
    def open(path: str | os.PathLike[str], *, index: FileIndex | None = None) -> Image:
        """The picture in a file. The file is read now; it is decoded now unless `index` knows its content digest.

        Raises `ImageError` for a missing, empty, truncated, oversized or foreign file.
        """
        where = Path(path)
        data = read_bytes(where)
        known = index.get(hashlib.sha256(data).hexdigest()) if index is not None else None
        if known is not None:
            return Image(known[1], digest=known[0], path=where)
        pixels = decode(data, str(where))
        image = Image((pixels.shape[1], pixels.shape[0]), digest=_digest(pixels), path=where)
        _cache.put(image.digest, pixels)
        if index is not None:
            index[hashlib.sha256(data).hexdigest()] = (image.digest, image.size)
        return image

    @staticmethod
    def unseen(digest: str, size: Size) -> Image:
        """An image of which only the digest is known, as in a recording. Asking for its pixels raises `ImageError`."""
        return Image(size, digest=digest)

    @staticmethod
    def _held(pixels: Pixels) -> Image:
        return Image((pixels.shape[1], pixels.shape[0]), pixels=pixels)

    # -- looking at it ------------------------------------------------------------------------------------------------

    @property
    def width(self) -> int:
        return self.size[0]

    @property
    def height(self) -> int:
        return self.size[1]

    @property
    def pixels(self) -> Pixels:
        """H x W x 3 uint8 RGB, read-only. Raises `ImageError` if they cannot be had (any more)."""
        if self._pixels is not None:
            return self._pixels
        if self._digest is not None and (cached := _cache.get(self._digest)) is not None:
            return cached
        if self._derived is not None:
            pixels = frozen(draw(self._derived[1], *(parent.pixels for parent in self._derived[0])))
        elif self._path is not None:
            pixels = decode(read_bytes(self._path), str(self._path))
            if _digest(pixels) != self._digest:
                raise ImageError(f"{self._path} has changed since it was first read: start again with a stable copy")
        else:
            raise ImageError(f"only the digest of image {self.digest[:12]} is known here (a recording without pixels)")
        if self._digest is None:
            self._digest = _digest(pixels)
        _cache.put(self._digest, pixels)
        return pixels

    @property
    def digest(self) -> str:
        if self._digest is None:
            if self._pixels is not None:
                self._digest = _digest(self._pixels)
            else:
                parents, op = cast("tuple[tuple[Image, ...], Operation]", self._derived)
                # What a recording says counts only where nobody can look: pixels speak for themselves.
                learned = None if self.seen else _learned.get((parents[0].digest, op))
                self._digest = learned or _derivations.get((parents[0].digest, op))
                if self._digest is None:
                    self._digest = self._derive(parents, op)
        return self._digest

    def _derive(self, parents: tuple[Image, ...], op: Operation) -> str:
        key = (parents[0].digest, op)
        if not self.seen:  # a stable stand-in: a replay still asks the same question twice under the same name
            return hashlib.sha256(repr(key).encode()).hexdigest()
        pixels = frozen(draw(op, *(parent.pixels for parent in parents)))
        digest = _digest(pixels)
        _cache.put(digest, pixels)
        _derivations.put(key, digest)
        return digest

    @property
    def seen(self) -> bool:
        """Whether pixels can be had."""
        if self._derived is not None:
            return all(parent.seen for parent in self._derived[0])
        return self._pixels is not None or self._path is not None

    @property
    def origin(self) -> tuple[Image, str] | None:
        """For a picture made of another: that picture (the first of `parents`), and the operation as JSON."""
        return None if self._derived is None else (self._derived[0][0], json.dumps(self._derived[1]))

    @property
    def parents(self) -> tuple[Image, ...]:
        """The pictures it was made of; none for one that was not."""
        return () if self._derived is None else self._derived[0]

    @staticmethod
    def learn(parent_digest: str, operation: str, digest: str) -> None:
        """Teach what has been made of an unseen image has for a digest, as a recording knows it."""
        _learned[parent_digest, tuple(json.loads(operation))] = digest

    def pil(self) -> PIL.Image.Image:
        """A PIL image (a copy) in mode RGB."""
        return PIL.Image.fromarray(np.array(self.pixels))

    # -- making another -----------------------------------------------------------------------------------------------

    def crop(self, x0: int, y0: int, x1: int, y1: int) -> Image:
        """The pixels in columns x0..x1-1 and rows y0..y1-1. Raises `ImageError` if that is empty or outside."""
        if not (0 <= x0 < x1 <= self.width and 0 <= y0 < y1 <= self.height):
            raise ImageError(f"crop {(x0, y0, x1, y1)} is empty or outside of a {self.width} x {self.height} image")
        if (x0, y0, x1, y1) == (0, 0, *self.size):
            return self
        corners = tuple(map(operator.index, (x0, y0, x1, y1)))  # plain integers, whatever numpy made of them
        return Image((corners[2] - corners[0], corners[3] - corners[1]), derived=((self,), ("crop", *corners)))

    def resized(self, width: int, height: int, resample: Literal["lanczos", "bicubic", "area"] = "lanczos") -> Image:
        """The picture at another size; itself if it has that size already. Raises `ImageError` for an empty size."""
        width, height = operator.index(width), operator.index(height)
        if width < 1 or height < 1:
            raise ImageError(f"cannot resize to {width} x {height}: give at least 1 x 1")
        if self.size == (width, height):
            return self
        return Image((width, height), derived=((self,), ("resize", width, height, resample)))

    def painted(self, *areas: Corners, colour: Colour = WHITE) -> Image:
        """The picture with these areas in one colour; itself without areas. What lies outside of it is left out."""
        if not areas:
            return self
        return Image(self.size, derived=((self,), ("paint", *colour, *_flat(areas))))

    def outlined(self, *areas: Corners, colour: Colour = RED, width: int = 2) -> Image:
        """The picture with a line of `width` pixels along the inside of these areas; itself without areas."""
        if not areas:
            return self
        return Image(self.size, derived=((self,), ("outline", width, *colour, *_flat(areas))))

    def beside(self, right: Image, *, line: int = 0, colour: Colour = RED) -> Image:
        """This picture and another of the same height to its right, with a line of `line` pixels between them.

        Raises `ImageError` for another height.
        """
        if self.height != right.height:
            raise ImageError(f"pictures of {self.size} and {right.size} do not fit side by side: resize one of them")
        operation = ("beside", line, *colour, right.digest)
        return Image((self.width + line + right.width, self.height), derived=((self, right), operation))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Image) and (self is other or self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Image({self.width}x{self.height}, {self.digest[:12]})"

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.seen:
            return Image.unseen, (self.digest, self.size)
        return _rebuild, (np.array(self.pixels), self.digest)


def _rebuild(pixels: Pixels, digest: str) -> Image:
    pixels.setflags(write=False)
    return Image((pixels.shape[1], pixels.shape[0]), pixels=pixels, digest=digest)


def _digest(pixels: Pixels) -> str:
    header = f"editcritic image 1 {pixels.shape[1]}x{pixels.shape[0]} ".encode()
    state = hashlib.sha256(header)
    state.update(np.ascontiguousarray(pixels).data)
    return state.hexdigest()


def _flat(areas: tuple[Corners, ...]) -> tuple[int, ...]:
    return tuple(operator.index(corner) for area in areas for corner in area)


# -- what is worth keeping --------------------------------------------------------------------------------------------


class _PixelCache:
    """Decoded pixels by digest, least recently used out first, bounded in bytes."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._bytes = 0
        self._held: OrderedDict[str, Pixels] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, digest: str) -> Pixels | None:
        with self._lock:
            pixels = self._held.get(digest)
            if pixels is not None:
                self._held.move_to_end(digest)
            return pixels

    def put(self, digest: str, pixels: Pixels) -> None:
        with self._lock:
            if digest in self._held:
                return
            self._held[digest] = pixels
            self._bytes += pixels.nbytes
            while self._bytes > self._limit and len(self._held) > 1:
                self._bytes -= self._held.popitem(last=False)[1].nbytes


class _Derivations:
    """(digest, operation) -> digest of the result, so that a crop asked for by many programs is hashed once."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: OrderedDict[tuple[str, Operation], str] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[str, Operation]) -> str | None:
        with self._lock:
            return self._held.get(key)

    def put(self, key: tuple[str, Operation], digest: str) -> None:
        with self._lock:
            self._held[key] = digest
            if len(self._held) > self._limit:
                self._held.popitem(last=False)


_cache = _PixelCache(limit_bytes=256 * 2**20)
_derivations = _Derivations(limit=100_000)
_learned: dict[tuple[str, Operation], str] = {}
