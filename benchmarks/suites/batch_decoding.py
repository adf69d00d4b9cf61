"""Parallel decoding of a suite's images: thousands are read before the first is scored."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ...reward import Image, ImageError


def decode_images(paths: Iterable[Path]) -> Mapping[Path, Image | ImageError]:
    """Each image, or the error of its file. Pixels are not kept: an image is decoded again on access."""
    unique_paths = list(dict.fromkeys(paths))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(unique_paths, pool.map(_decode_image, unique_paths), strict=True))


def _decode_image(path: Path) -> Image | ImageError:
    try:
        return Image.open(path)
    except ImageError as error:
        return error
