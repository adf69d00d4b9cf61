"""Photographs in the wheels of Python packages, found without importing the packages."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from ....reward import Image
from ...common.errors import InputError
from ...demo.photographs import AnnotatedPhoto, Corners, Pixels, fitted


@dataclass(frozen=True)
class PackagedPhoto(AnnotatedPhoto):
    """A photograph in any package. package: its name for pip. file: how its path in the wheel ends."""

    package: str = field(kw_only=True)

    @property
    def pixels(self) -> Pixels:
        """The picture; the array is shared and read-only. Raises `InputError` without its package."""
        return _load(self.package, self.file, self.crop)


@cache
def _load(package: str, file: str, crop: Corners | None) -> Pixels:
    try:
        paths = [path for path in files(package) or () if f"/{path.as_posix()}".endswith(f"/{file}")]
        found = next((place for path in paths if (place := Path(path.locate())).is_file()), None)
    except PackageNotFoundError:
        found = None
    if found is None:
        raise InputError(
            f"the photograph {file} comes with {package}, of which no installation has it: "
            f"pip install --no-deps {package}"
        )
    return fitted(Image.of(found.read_bytes()).pil(), crop)
