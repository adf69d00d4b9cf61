"""EdiVal's base pictures, `{index}_input_raw.jpg`: in a zip, nested or not, or in a folder."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from ....reward import Image
from ...inputs import PICTURES, InputError
from ..suite import Problem

_NAME = re.compile(r"(\d+)_input_raw")
_DARK = 16
"""Grey level that black padding does not exceed, JPEG's ringing included."""
_SHARE = 0.98
"""Of a row's pixels that are dark where the row is padding."""


def find_pictures(place: Path, problems: list[Problem]) -> dict[int, Path]:
    """Index -> file, of a zip or a folder, at any depth.

    A zip is unpacked once, into the user's cache (`$XDG_CACHE_HOME` or `~/.cache`, under `editcritic/edival`), by what
    it holds; so the pictures are files that many processes read when they look at them. Raises `InputError` where the
    place cannot be read.
    """
    if place.is_dir():
        return _by_index(sorted(path for path in place.rglob("*") if path.is_file()), problems)
    if not place.exists():
        raise InputError(f"{place} does not exist: give the zip or the folder with EdiVal's base pictures")
    if not zipfile.is_zipfile(place):
        raise InputError(f"{place} is neither a folder nor a zip: give the zip or the folder with EdiVal's pictures")
    try:
        return _by_index(sorted(_unpacked(place, problems).iterdir()), problems)
    except (OSError, zipfile.BadZipFile) as error:
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
        folder = _cache() / hashlib.sha256(repr(said).encode()).hexdigest()[:16]
        if not folder.is_dir():
            _unpack(archive, members, folder)
    return folder


def _unpack(archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], folder: Path) -> None:
    """All or nothing: other processes may be at it, and any of us may be stopped."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    half = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        for name, member in members.items():  # flat, by names we have checked: no path of the archive's is followed
            with archive.open(member) as packed, (half / name).open("wb") as file:
                shutil.copyfileobj(packed, file)
        half.chmod(0o755)
        try:
            half.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(half, ignore_errors=True)


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "editcritic" / "edival"


def is_padded(image: Image) -> bool:
    """Whether black bars lie along two opposite sides: what makes a square of another shape (appendix P).

    A bar is at least 1 % of the side; a picture that is that dark along two opposite sides by itself counts as padded.
    """
    dark = image.pixels.max(axis=2) <= _DARK
    for rows in (dark, dark.T):
        thick = max(1, len(rows) // 100)
        if rows[:thick].mean() >= _SHARE and rows[-thick:].mean() >= _SHARE:
            return True
    return False
