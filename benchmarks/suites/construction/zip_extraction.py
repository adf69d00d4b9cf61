"""Zips from elsewhere: nothing is written outside of the folder, no links, no more than was allowed."""

from __future__ import annotations

import shutil
import stat
import zipfile
import zlib
from pathlib import Path

from ..inputs import InputError
from .sources import inside

MOST_FILES = 200_000
MOST_BYTES = 64 * 2**30


def unpack(archive: Path, into: Path, *, most_files: int = MOST_FILES, most_bytes: int = MOST_BYTES) -> int:
    """Unpack a zip into a folder, all of it or nothing; how many files. What is there already is replaced.

    Everything is looked at before anything is written, and bytes are counted as they come, whatever the zip says.
    Raises `InputError`.
    """
    half = into.with_name(f".unpacking-{into.name}-{archive.name}")
    shutil.rmtree(half, ignore_errors=True)
    try:
        with zipfile.ZipFile(archive) as file:
            wanted = _checked(file, archive, most_files, most_bytes)
            left = most_bytes
            for member, parts in wanted:
                place = half.joinpath(*parts)
                place.parent.mkdir(parents=True, exist_ok=True)
                left -= _written(file, member, place, left, archive)
        for path in sorted(half.rglob("*")):
            if path.is_file():
                place = into / path.relative_to(half)
                place.parent.mkdir(parents=True, exist_ok=True)
                path.replace(place)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error) as error:
        raise InputError(f"{archive} cannot be unpacked: {error}") from None
    finally:
        shutil.rmtree(half, ignore_errors=True)
    return len(wanted)


def _checked(
    file: zipfile.ZipFile, archive: Path, most_files: int, most_bytes: int
) -> list[tuple[zipfile.ZipInfo, tuple[str, ...]]]:
    members = [member for member in file.infolist() if not member.is_dir()]
    if len(members) > most_files:
        raise InputError(f"{archive} holds {len(members)} files, more than {most_files}: unpack it by hand")
    if (size := sum(member.file_size for member in members)) > most_bytes:
        raise InputError(f"{archive} unpacks to {size} bytes, more than {most_bytes}: unpack it by hand")
    found = []
    for member in members:
        if stat.S_ISLNK(member.external_attr >> 16):
            raise InputError(f"{archive} holds a link, {member.filename!r}: it is not unpacked")
        try:
            found.append((member, inside(member.filename)))
        except ValueError as error:
            raise InputError(f"{archive} is not unpacked: {error}") from None
    return found


def _written(file: zipfile.ZipFile, member: zipfile.ZipInfo, place: Path, left: int, archive: Path) -> int:
    count = 0
    with file.open(member) as source, place.open("wb") as out:
        while chunk := source.read(1 << 20):
            count += len(chunk)
            if count > left:
                raise InputError(f"{archive} unpacks to more bytes than it says: it is not unpacked")
            out.write(chunk)
    return count
