"""Pictures as base64 text, for APIs that take them in JSON; each is encoded once while there is room to keep it."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Sequence
from typing import Literal

import cv2
import numpy as np

from ..image import Image
from ..remembered import Remembered

Format = Literal["png", "jpeg"]


class EncodedPictures:
    """Encodes pictures, and keeps the most recent ones.

    kind: `png` changes no pixel, `jpeg` is smaller and does. quality: of JPEG, 1 to 100. limit_bytes: of what is kept.
    """

    def __init__(self, kind: Format = "png", quality: int = 95, limit_bytes: int = 64 * 2**20) -> None:
        if kind not in ("png", "jpeg"):
            raise ValueError(f"pictures are sent as png or jpeg, got {kind!r}")
        if not 1 <= quality <= 100:
            raise ValueError(f"JPEG's quality must lie in [1, 100], got {quality}")
        self.kind = kind
        self.quality = quality
        self._kept: Remembered[str] = Remembered(limit_bytes, len)
        self._locks = [threading.Lock() for _ in range(16)]

    async def of(self, images: Sequence[Image]) -> dict[Image, str]:
        """base64 of every picture. Raises `ImageError` for one whose pixels cannot be had."""
        if not images:
            return {}
        # In a thread: a large picture takes as long as a server needs to answer about a small one.
        return await asyncio.to_thread(lambda: {image: self._once(image) for image in images})

    @property
    def encoded(self) -> int:
        """How many pictures were encoded so far."""
        return self._kept.computed

    def _once(self, image: Image) -> str:
        # Questions about one picture come together: the first one encodes it, different pictures do not wait.
        with self._locks[int(image.digest[0], 16)]:
            return self._kept.of({image.digest: image}, lambda _: [self._encode(image)])[image.digest]

    def _encode(self, image: Image) -> str:
        options = [cv2.IMWRITE_JPEG_QUALITY, self.quality] if self.kind == "jpeg" else []
        done, data = cv2.imencode(f".{self.kind}", np.ascontiguousarray(image.pixels[:, :, ::-1]), options)
        assert done
        return base64.b64encode(data.tobytes()).decode("ascii")
