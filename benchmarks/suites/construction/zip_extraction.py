"""Safe extraction of zips: no paths outside of the folder, no links, limits on files and bytes."""

from __future__ import annotations

import shutil
import stat
import zipfile
import zlib
from pathlib import Path

from ...common.errors import InputError
from .dataset_sources import safe_path_parts

MAX_FILES = 200_000
MAX_BYTES = 64 * 2**30


def extract_zip(archive: Path, into: Path, *, max_files: int = MAX_FILES, max_bytes: int = MAX_BYTES) -> int:
    """Extract a zip into a folder, completely or not at all; return the number of files. Existing files are replaced.

    All members are checked first, and bytes are counted during extraction, whatever sizes the zip declares.
    Raises `InputError`.
    """
    temporary = into.with_name(f".unpacking-{into.name}-{archive.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        with zipfile.ZipFile(archive) as file:
            members = _checked_members(file, archive, max_files, max_bytes)
            remaining = max_bytes
            for member, parts in members:
                target = temporary.joinpath(*parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                remaining -= _extract_member(file, member, target, remaining, archive)
        for path in sorted(temporary.rglob("*")):
            if path.is_file():
                target = into / path.relative_to(temporary)
                target.parent.mkdir(parents=True, exist_ok=True)
                path.replace(target)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error) as error:
        raise InputError(f"{archive} cannot be extracted: {error}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return len(members)


def _checked_members(
    file: zipfile.ZipFile, archive: Path, max_files: int, max_bytes: int
) -> list[tuple[zipfile.ZipInfo, tuple[str, ...]]]:
    members = [member for member in file.infolist() if not member.is_dir()]
    if len(members) > max_files:
        raise InputError(f"{archive} contains {len(members)} files, more than {max_files}: extract it by hand")
    if (size := sum(member.file_size for member in members)) > max_bytes:
        raise InputError(f"{archive} extracts to {size} bytes, more than {max_bytes}: extract it by hand")
    checked = []
    for member in members:
        if stat.S_ISLNK(member.external_attr >> 16):
            raise InputError(f"{archive} contains a link, {member.filename!r}: it is not extracted")
        try:
            checked.append((member, safe_path_parts(member.filename)))
        except ValueError as error:
            raise InputError(f"{archive} is not extracted: {error}") from None
    return checked


def _extract_member(file: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path, remaining: int, archive: Path) -> int:
    count = 0
    with file.open(member) as source, target.open("wb") as out:
        while chunk := source.read(1 << 20):
            count += len(chunk)
            if count > remaining:
                raise InputError(f"{archive} extracts to more bytes than it declares: it is not extracted")
            out.write(chunk)
    return count
