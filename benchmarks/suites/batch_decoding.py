"""The pictures of a suite, decoded side by side: thousands of them are read before the first is judged."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ...reward import Image, ImageError


def opened(paths: Iterable[Path]) -> Mapping[Path, Image | ImageError]:
    """Each picture, or what is wrong with its file. A picture is decoded again when somebody looks at it later."""
    wanted = list(dict.fromkeys(paths))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(wanted, pool.map(_opened, wanted), strict=True))


def _opened(path: Path) -> Image | ImageError:
    try:
        return Image.open(path)
    except ImageError as error:
        return error
