"""Extraction of packed images: zips without paths out of the folder or links, bounded in files and bytes; the cache.

What is extracted lies in the user's cache, once for all processes: see `cache_folder`.
"""

from __future__ import annotations

import lzma
import shutil
import stat
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

from ...reward.cache_folder import CACHE_HINT, cache_folder
from ...reward.plain_text import check_name
from ..common.errors import InputError
from .construction.dataset_sources import safe_path_parts

MAX_FILES = 200_000
MAX_BYTES = 64 * 2**30
MAX_RATIO, MIN_BYTES = 100, 2**30
"""How many times its own size a zip extracts to at most, and what small ones may."""


def extract_zip(archive: Path, into: Path) -> int:
    """Extract a zip into a folder, completely or not at all; return the number of files. Existing files are replaced.

    All members are checked first, and bytes are counted during extraction, whatever sizes the zip declares.
    Raises `InputError`.
    """
    count = 0
    temporary = into.with_name(f".unpacking-{into.name}-{archive.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        with zipfile.ZipFile(archive) as file:
            members = _checked_members(file, archive)
            count = len(members)
            extract_members(file, {temporary.joinpath(*parts): member for parts, member in members.items()})
        for path in sorted(temporary.rglob("*")):
            if path.is_file():
                target = into / path.relative_to(temporary)
                target.parent.mkdir(parents=True, exist_ok=True)
                path.replace(target)
    except InputError:
        raise
    except ZIP_ERRORS as error:
        raise InputError(f"{archive} cannot be extracted: {error}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return count


ZIP_ERRORS = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(ArithmeticError, EOFError, LookupError, NotImplementedError, OSError, RuntimeError, ValueError),
)
"""What zipfile raises for damaged, encrypted and odd zips; OSError also of bzip2, and for names of no file."""


def extract_members(file: zipfile.ZipFile, members: Mapping[Path, zipfile.ZipInfo]) -> None:
    """Extract these members to these files. Bytes are counted, whatever sizes the zip declares.

    Raises `InputError` for more than `MAX_BYTES`, or for so many that only a zip made for this has them.
    """
    archive = Path(file.filename or "")
    size = sum(member.file_size for member in members.values())
    remaining = most_extracted(archive.stat().st_size)
    if size > remaining:
        raise InputError(f"{archive} extracts to {size:,} bytes, more than {remaining:,}: extract it by hand")
    for target, member in members.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        remaining -= _extract_member(file, member, target, remaining, archive)


def most_extracted(packed: int) -> int:
    """Bytes that a zip or tables of so many bytes may extract to: more come of a file made to fill the disk."""
    return min(MAX_BYTES, max(MIN_BYTES, MAX_RATIO * packed))


def _checked_members(file: zipfile.ZipFile, archive: Path) -> Mapping[tuple[str, ...], zipfile.ZipInfo]:
    """Members by the parts of their paths."""
    members = [member for member in file.infolist() if not member.is_dir()]
    if len(members) > MAX_FILES:
        raise InputError(f"{archive} contains {len(members)} files, more than {MAX_FILES}: extract it by hand")
    checked: dict[tuple[str, ...], zipfile.ZipInfo] = {}
    for member in members:
        if stat.S_ISLNK(member.external_attr >> 16):
            raise InputError(f"{archive} contains a link, {member.filename!r}: it is not extracted")
        try:
            parts = safe_path_parts(member.filename)
            for part in parts:
                check_name(part)
        except ValueError as error:
            raise InputError(f"{archive} is not extracted: {error}") from None
        if parts in checked:
            raise InputError(f"{archive} contains {member.filename!r:.200} twice: it is not extracted")
        checked[parts] = member
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


def extracted_folder(suite: str, key: str, write: Callable[[Path], None]) -> Path:
    """The cache folder of this key, filled by `write` if it does not exist.

    Atomic: other processes may do the same, and each may be interrupted. Raises OSError if the cache is not writable,
    and errors of `write`; then nothing is left.
    """
    cache = cache_folder() / suite
    folder = cache / key[:16]
    if folder.is_dir():
        return folder
    try:
        cache.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=cache))
    except OSError as error:
        raise OSError(f"{cache} is not writable ({error.strerror}): {CACHE_HINT}") from None
    try:
        write(temporary)
        temporary.chmod(0o755)
        try:
            temporary.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster, with the same images
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder
