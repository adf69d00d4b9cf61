"""Opening a suite's images: hundreds or thousands, before the first is scored.

Each file is decoded once on a machine. What a suite needs to know of it (digest, size, padding) is then in an index in
the user's cache, by the digest of the file's bytes; pixels are decoded again where a metric needs them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ...reward import Image, ImageError
from ...reward.atomic_files import write_atomically
from ...reward.cache_folder import cache_folder
from ...reward.digests import record_checksum
from ...reward.image import FileIndex, Reading
from ..common.terminal import progress_bar

SCHEMA = 3
INDEX_FILE = "images.json"

_DARK_LEVEL = 16
"""Maximum grey level of black padding, including JPEG ringing."""
_DARK_SHARE = 0.98
"""Minimum share of dark pixels in a row of padding."""


@dataclass(frozen=True, slots=True)
class SuiteImage:
    """An image of a suite. padded: see `is_padded`."""

    image: Image
    padded: bool


def opened(image: SuiteImage | ImageError) -> Image:
    """Raises the error of a file."""
    if isinstance(image, ImageError):
        raise image
    return image.image


@dataclass
class _ImageIndex:
    """files: see `FileIndex`. padded: digest of an image -> whether it is."""

    files: FileIndex = field(default_factory=dict)
    padded: dict[str, bool] = field(default_factory=dict)

    @staticmethod
    def load() -> _ImageIndex:
        """The index in the user's cache; an empty one if there is none that is intact."""
        try:
            data = json.loads((cache_folder() / INDEX_FILE).read_text(encoding="utf-8"))
            checksum = data.pop("checksum")
            if data["schema"] != SCHEMA or checksum != record_checksum(json.dumps(data)):
                return _ImageIndex()
            files = {str(key): (str(digest), (int(w), int(h))) for key, (digest, w, h) in data["files"].items()}
            return _ImageIndex(files, {str(digest): bool(padded) for digest, padded in data["padded"].items()})
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return _ImageIndex()

    def save(self) -> None:
        """Add the entries to the index in the cache. Without a writable cache the next run decodes again."""
        stored = _ImageIndex.load()  # other processes may have added theirs
        files = {**stored.files, **self.files}
        data = {
            "schema": SCHEMA,
            "files": {key: [digest, *size] for key, (digest, size) in files.items()},
            "padded": {**stored.padded, **self.padded},
        }
        with suppress(OSError):
            folder = cache_folder()
            folder.mkdir(parents=True, exist_ok=True)
            data["checksum"] = record_checksum(json.dumps(data))
            write_atomically(folder / INDEX_FILE, json.dumps(data))

    def open(self, path: Path, inside: Path | None, reading: Reading) -> SuiteImage | ImageError:
        """The image in a file, decoded only if it is not in the index, or the error of the file."""
        try:
            image = Image.open(path, index=self.files, inside=inside, reading=reading)
            if image.digest not in self.padded:
                self.padded[image.digest] = is_padded(image)
            return SuiteImage(image, self.padded[image.digest])
        except ImageError as error:
            return error


def decode_images(
    paths: Iterable[Path], inside: Path | None, reading: Reading = "upright"
) -> Mapping[Path, SuiteImage | ImageError]:
    """Each image, or the error of its file, in parallel and with a progress bar. Pixels are not kept.

    inside: the folder of the data, which images lie in or below, links followed (see `regular_files`). reading: of the
    pixels.
    """
    unique_paths = list(dict.fromkeys(paths))
    index = _ImageIndex.load()
    read = partial(index.open, inside=inside, reading=reading)
    num_known = len(index.files), len(index.padded)
    decoded: dict[Path, SuiteImage | ImageError] = {}
    with progress_bar(len(unique_paths), "reading images") as (advance, _), ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, image in zip(unique_paths, pool.map(read, unique_paths), strict=True):
            decoded[path] = image
            advance()
    if (len(index.files), len(index.padded)) != num_known:
        index.save()
    return decoded


def is_padded(image: Image) -> bool:
    """Whether the image has black bars along two opposite sides, as padding to a square has (EdiVal, appendix P).

    A bar is at least 1 % of the side; an image that is itself that dark along two opposite sides counts as padded.
    """
    pixels = image.pixels
    for lines in (pixels, pixels.swapaxes(0, 1)):
        thickness = max(1, len(lines) // 100)
        bars = (lines[:thickness], lines[-thickness:])  # only these rows are read: there are hundreds of images
        if all((bar <= _DARK_LEVEL).all(axis=2).mean() >= _DARK_SHARE for bar in bars):
            return True
    return False
