"""Images as base64 for JSON APIs; encodings of recent images are cached."""

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
        if not 1 <= quality <= 100:
            raise ValueError(f"JPEG's quality must lie in [1, 100], got {quality}")
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
        options = [cv2.IMWRITE_JPEG_QUALITY, self.quality] if self.kind == "jpeg" else []
        is_encoded, data = cv2.imencode(f".{self.kind}", np.ascontiguousarray(image.pixels[:, :, ::-1]), options)
        assert is_encoded
        return base64.b64encode(data.tobytes()).decode("ascii")
