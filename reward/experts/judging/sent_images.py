"""Images as a judge is shown them: of a size it takes, in base64, after JPEG, or by an id alone.

In a chat completion for vLLM, an image may have a `uuid` beside its `image_url`; the server keeps it under that id, and
takes a later one with the id and no data, as long as it has it. A request with an id that it does not have is rejected.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import cv2
import numpy as np

from ...encoded_images import MAX_ASPECT
from ...forks import ForkSafeLock
from ...image import Image
from ...lru_cache import FeatureCache, LruCache

ImageFormat = Literal["png", "jpeg"]


MIN_SIDE = 28
"""Pixels of the shorter side. Smaller pictures, as crops of small objects, crash or are refused by the processors of
Qwen-VL and GLM-V, which see patches of 14 pixels, four at a time, and by APIs in front of them."""

_SMALL_PIXELS, _SMALL_QUALITY = 768 * 768, 85
"""Of a picture that is sent anew because a request was too large: 0.1 to 0.2 MB in base64, so that five fit into a
megabyte, which nginx allows as it comes."""


def fitted(image: Image, max_pixels: int | None = None) -> Image:
    """The image in a size that judges take, in its aspect ratio; itself if it has one. A shorter side of less than
    `MIN_SIDE` is enlarged to it. More pixels than `max_pixels` are resized to at most as many, or to the shorter side
    of `MIN_SIDE`. Beyond an aspect of `MAX_ASPECT`, which judges refuse in any size, nothing is enlarged."""
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
    """Encodes images and caches the most recent ones. kind: `png` is lossless, `jpeg` smaller and lossy. quality: of
    JPEG, 1 to 100. max_pixels: see `fitted`. cache_bytes: size of the cache."""

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
        self._locks = [ForkSafeLock() for _ in range(16)]

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
    """The image that is decoded from a JPEG of this image, as a judge behind an API sees it; itself for None. quality:
    1 to 100, with halved chroma, as PIL and other libraries write it."""
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


_MAX_IMAGES = 20_000  # ids that are kept for all servers together


def image_ids(encoded: Mapping[Image, str]) -> dict[Image, str]:
    """The id of every image, of what is sent of it. encoded: base64."""
    return {image: hashlib.sha256(text.encode("ascii")).hexdigest()[:40] for image, text in encoded.items()}


class SentImages:
    """What servers have answered about, by address: the most recent images. Thread-safe. left_out: images of which only
    the id was sent. missed: those of them in requests that were not answered."""

    def __init__(self) -> None:
        self.left_out = 0
        self.missed = 0
        self._known: LruCache[tuple[str, str], bool] = LruCache(_MAX_IMAGES)
        self._lock = ForkSafeLock()

    def known(self, address: str, ids: set[str]) -> set[str]:
        """Those of the ids that the server at this address has been sent."""
        return {one for one in ids if (address, one) in self._known}

    def add(self, address: str, ids: set[str]) -> None:
        """The server has answered about these."""
        self.remove(address, ids)
        for one in ids:
            self._known.put((address, one), True)

    def remove(self, address: str, ids: set[str]) -> None:
        """The server may not have these any more."""
        for one in ids:
            self._known.pop((address, one))

    def count(self, *, left_out: int = 0, missed: int = 0) -> None:
        with self._lock:
            self.left_out += left_out
            self.missed += missed

    def corrected(self, counts: Mapping[str, float]) -> dict[str, float]:
        """Counters of an endpoint: `images_sent` with their data, `images_by_id` without, `image_id_misses` of those in
        requests that were not answered, and hence sent again with their data."""
        with self._lock:
            left_out, missed = self.left_out, self.missed
        sent = counts["images_sent"] - left_out
        return {**counts, "images_sent": sent, "images_by_id": left_out, "image_id_misses": missed}


class RequestByIds:
    """The body of one request, for every attempt. Images that the server is known to have are left out at the first. A
    context manager: a server whose answer does not arrive inside may not have what was left out. left_out: ids of
    images that the last attempt has left out."""

    def __init__(self, body: Mapping[str, Any], sent: SentImages) -> None:
        self.left_out: set[str] = set()
        self._body = body
        self._sent = sent
        self._address = ""
        self._ids = {part["uuid"] for part in _image_parts(body)}

    def __call__(self, address: str) -> dict[str, Any]:
        """The body for an attempt at an address."""
        self._forget_left_out()
        first = not self._address
        self._address = address
        self.left_out = self._sent.known(address, self._ids) if first else set()
        number = sum(part["uuid"] in self.left_out for part in _image_parts(self._body))
        self._sent.count(left_out=number)
        return {**self._body, "messages": [self._message(message) for message in self._body["messages"]]}

    def was_answered(self) -> None:
        """The server has all images now."""
        self._sent.add(self._address, self._ids)
        self.left_out = set()

    def __enter__(self) -> RequestByIds:
        return self

    def __exit__(self, *error: object) -> None:
        self._forget_left_out()

    def _forget_left_out(self) -> None:
        number = sum(part["uuid"] in self.left_out for part in _image_parts(self._body))
        self._sent.remove(self._address, self.left_out)
        self._sent.count(missed=number)
        self.left_out = set()

    def _message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        content = message["content"]
        if not isinstance(content, list):
            return dict(message)
        parts = [{**part, "image_url": None} if part.get("uuid") in self.left_out else part for part in content]
        return {**message, "content": parts}


def _image_parts(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for message in body["messages"]:
        if isinstance(message["content"], list):
            yield from (part for part in message["content"] if "uuid" in part)
