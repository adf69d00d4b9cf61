"""Images as a judge is shown them: base64 for JSON APIs, of which the most recent are cached, or after JPEG."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Sequence
from typing import Literal

import cv2
import numpy as np

from ...engine.feature_cache import FeatureCache
from ...forks import at_fork, was_held
from ...image import Image

ImageFormat = Literal["png", "jpeg"]


class Base64ImageCache:
    """Encodes images and caches the most recent ones.

    kind: `png` is lossless, `jpeg` smaller and lossy. quality: of JPEG, 1 to 100. cache_bytes: size of the cache.
    """

    def __init__(self, kind: ImageFormat = "png", quality: int = 95, cache_bytes: int = 64 * 2**20) -> None:
        if kind not in ("png", "jpeg"):
            raise ValueError(f"images are sent as png or jpeg, got {kind!r}")
        check_jpeg_quality(quality)
        self.kind = kind
        self.quality = quality
        self._cache: FeatureCache[str] = FeatureCache(cache_bytes, len)
        self._locks = [threading.Lock() for _ in range(16)]
        at_fork(self, Base64ImageCache._in_child)

    def _in_child(self) -> None:
        self._locks = [threading.Lock() if was_held(lock) else lock for lock in self._locks]

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
        return base64.b64encode(_encoded(image, self.kind, self.quality)).decode("ascii")


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
