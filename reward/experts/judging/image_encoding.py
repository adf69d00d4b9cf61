"""Images as a judge is shown them: of a size it takes; base64 for JSON APIs, the most recent cached; or after JPEG."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Sequence
from typing import Literal

import cv2
import numpy as np

from ...encoded_images import MAX_ASPECT
from ...engine.feature_cache import FeatureCache
from ...forks import at_fork, was_held
from ...image import Image

ImageFormat = Literal["png", "jpeg"]


MIN_SIDE = 28
"""Pixels of the shorter side. Smaller pictures, as crops of small objects, crash or are refused by the processors of
Qwen-VL and GLM-V, which see patches of 14 pixels, four at a time, and by APIs in front of them."""

_SMALL_PIXELS, _SMALL_QUALITY = 768 * 768, 85
"""Of a picture that is sent anew because a request was too large: 0.1 to 0.2 MB in base64, so that five fit into a
megabyte, which nginx allows as it comes."""


def fitted(image: Image, max_pixels: int | None = None) -> Image:
    """The image in a size that judges take, in its aspect ratio; itself if it has one.

    A shorter side of less than `MIN_SIDE` is enlarged to it. More pixels than `max_pixels` are resized to at most as
    many, or to the shorter side of `MIN_SIDE`. Beyond an aspect of `MAX_ASPECT`, which judges refuse in any size,
    nothing is enlarged.
    """
    width, height = image.size
    short = min(width, height)
    factor = 1.0 if max_pixels is None else min(1.0, (max_pixels / (width * height)) ** 0.5)
    if short * factor < MIN_SIDE and max(width, height) <= MAX_ASPECT * short:
        return image.resized(round(width * MIN_SIDE / short), round(height * MIN_SIDE / short))
    return image if factor == 1 else image.resized(max(1, int(width * factor)), max(1, int(height * factor)))


def check_max_pixels(max_pixels: int | None) -> None:
    """Raise ValueError for a number of pixels that no image has."""
    if max_pixels is not None and max_pixels < 1:
        raise ValueError(f"max_pixels is a number of pixels, 1 or more, got {max_pixels}")


class Base64ImageCache:
    """Encodes images and caches the most recent ones.

    kind: `png` is lossless, `jpeg` smaller and lossy. quality: of JPEG, 1 to 100. max_pixels: see `fitted`.
    cache_bytes: size of the cache.
    """

    def __init__(
        self,
        kind: ImageFormat = "png",
        quality: int = 95,
        cache_bytes: int = 64 * 2**20,
        *,
        max_pixels: int | None = None,
    ) -> None:
        if kind not in ("png", "jpeg"):
            raise ValueError(f"images are sent as png or jpeg, got {kind!r}")
        check_jpeg_quality(quality)
        check_max_pixels(max_pixels)
        self.kind: ImageFormat = kind
        self.quality = quality
        self.max_pixels = max_pixels
        self._cache: FeatureCache[str] = FeatureCache(cache_bytes, len)
        self._locks = [threading.Lock() for _ in range(16)]
        at_fork(self, Base64ImageCache._in_child)

    def _in_child(self) -> None:
        self._locks = [threading.Lock() if was_held(lock) else lock for lock in self._locks]

    def smaller(self) -> Base64ImageCache:
        """One whose images take less of a request: JPEG, of fewer pixels."""
        quality = min(self.quality, _SMALL_QUALITY) if self.kind == "jpeg" else _SMALL_QUALITY
        return Base64ImageCache("jpeg", quality, max_pixels=min(self.max_pixels or _SMALL_PIXELS, _SMALL_PIXELS))

    @property
    def description(self) -> str:
        """How a picture is sent."""
        kind = self.kind.upper() + (f" of quality {self.quality}" if self.kind == "jpeg" else "")
        return f"as {kind}" + (f" of at most {self.max_pixels:,} pixels" if self.max_pixels else "")

    async def encode(self, images: Sequence[Image]) -> dict[Image, str]:
        """base64 of every image. Raises `ImageError` for unreadable pixels."""
        if not images:
            return {}
        # In a thread: encoding a large image takes as long as a server needs for a small one.
        return await asyncio.to_thread(lambda: {image: self._once(image) for image in images})

    @property
    def encoded(self) -> int:
        """Number of images encoded so far."""
        return self._cache.computed

    def _once(self, image: Image) -> str:
        # Concurrent queries about one image: the first encodes it, other images do not wait.
        with self._locks[int(image.digest[0], 16)]:
            return self._cache.get_or_compute({image.digest: image}, lambda _: [self._encode(image)])[image.digest]

    def _encode(self, image: Image) -> str:
        return base64.b64encode(_encoded(fitted(image, self.max_pixels), self.kind, self.quality)).decode("ascii")


def after_jpeg(image: Image, quality: int | None) -> Image:
    """The image that is decoded from a JPEG of this image, as a judge behind an API sees it; itself for None.

    quality: 1 to 100, with halved chroma, as PIL and other libraries write it.
    """
    return image if quality is None else Image.of(_encoded(image, "jpeg", quality))


def check_jpeg_quality(quality: int | None) -> None:
    """Raise ValueError for a quality that JPEG does not have."""
    if quality is not None and not 1 <= quality <= 100:
        raise ValueError(f"JPEG's quality must lie in [1, 100], got {quality}")


def _encoded(image: Image, kind: ImageFormat, quality: int) -> bytes:
    options = [cv2.IMWRITE_JPEG_QUALITY, quality] if kind == "jpeg" else []
    is_encoded, data = cv2.imencode(f".{kind}", np.ascontiguousarray(image.pixels[:, :, ::-1]), options)
    assert is_encoded
    return bytes(data)
