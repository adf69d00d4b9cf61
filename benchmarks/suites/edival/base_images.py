"""EdiVal's base pictures, `{index}_input_raw.jpg`: in a zip, nested or not, or in a folder."""

from __future__ import annotations

import hashlib
import re
import shutil
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

from ....reward import Image
from ...inputs import PICTURES, InputError
from ..suite import Problem
from ..unpacking import unpacked

_NAME = re.compile(r"(\d+)_input_raw")
_OF_OUTPUTS = {"multipass", "singlepass"}
_DARK = 16
"""Grey level that black padding does not exceed, JPEG's ringing included."""
_SHARE = 0.98
"""Of a row's pixels that are dark where the row is padding."""


def find_pictures(place: Path, problems: list[Problem]) -> dict[int, Path]:
    """Index -> file, of a zip or a folder, at any depth.

    A zip is unpacked once, into the user's cache (see `unpacking.py`), by what it holds. Raises `InputError` where the
    place cannot be read.
    """
    if place.is_dir():
        found = sorted(path for path in place.rglob("*") if path.is_file())
        # Outputs have copies of the base pictures: those are not the data, unless they are what was asked for.
        return _by_index((path for path in found if not _OF_OUTPUTS & {*path.relative_to(place).parts}), problems)
    if not place.exists():
        raise InputError(f"{place} does not exist: give the zip or the folder with EdiVal's base pictures")
    if not zipfile.is_zipfile(place):
        raise InputError(f"{place} is neither a folder nor a zip: give the zip or the folder with EdiVal's pictures")
    try:
        return _by_index(sorted(_unpacked(place, problems).iterdir()), problems)
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:  # the last: locked by a password
        raise InputError(f"{place} cannot be unpacked: {error}; unpack it yourself, and give the folder") from None


def _by_index(paths: Iterable[Path], problems: list[Problem]) -> dict[int, Path]:
    found: dict[int, Path] = {}
    for path in paths:
        if (index := _index(path.name)) is None:
            continue
        first = found.setdefault(index, path)
        if first != path:
            problems.append(Problem(str(path), f"{first} is picture {index} already: that one is used"))
    return found


def _index(name: str) -> int | None:
    """The number of a picture by its file's name; None for any other file."""
    match = _NAME.fullmatch(Path(name).stem)
    return int(match[1]) if match and Path(name).suffix.lower() in PICTURES else None


def _unpacked(place: Path, problems: list[Problem]) -> Path:
    with zipfile.ZipFile(place) as archive:
        members: dict[str, zipfile.ZipInfo] = {}
        for member in sorted(archive.infolist(), key=lambda one: one.filename):
            name = member.filename.rpartition("/")[2]
            if member.is_dir() or _index(name) is None:
                continue
            first = members.setdefault(name, member)
            if first is not member and (first.CRC, first.file_size) != (member.CRC, member.file_size):
                what = f"differs from {first.filename}, which is the same picture: that one is used"
                problems.append(Problem(f"{place}, {member.filename}", what))
        said = sorted((name, member.CRC, member.file_size) for name, member in members.items())
        key = hashlib.sha256(repr(said).encode()).hexdigest()

        def write(folder: Path) -> None:
            for name, member in members.items():  # flat, by names we have checked: no path of the archive's is followed
                with archive.open(member) as packed, (folder / name).open("wb") as file:
                    shutil.copyfileobj(packed, file)

        return unpacked("edival", key, write)


def is_padded(image: Image) -> bool:
    """Whether black bars lie along two opposite sides: what makes a square of another shape (appendix P).

    A bar is at least 1 % of the side; a picture that is that dark along two opposite sides by itself counts as padded.
    """
    across = image.pixels
    for lines in (across, across.swapaxes(0, 1)):
        thick = max(1, len(lines) // 100)
        bars = (lines[:thick], lines[-thick:])  # the rest is not looked at: there are hundreds of pictures
        if all((bar <= _DARK).all(axis=2).mean() >= _SHARE for bar in bars):
            return True
    return False
