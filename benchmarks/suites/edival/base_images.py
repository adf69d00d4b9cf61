"""EdiVal's base images, `{index}_input_raw.jpg`: in a zip, nested or not, or in a folder."""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Iterable
from pathlib import Path

from ...common.errors import InputError
from ...common.inputs import IMAGE_SUFFIXES
from ...common.problems import Problems
from ..construction.zip_extraction import ZIP_ERRORS, extract_members
from ..extraction_cache import extracted_folder
from ..suite import DataProblem

_NAME = re.compile(r"(\d+)_input_raw")
_OUTPUT_FOLDERS = {"multipass", "singlepass"}


def find_base_images(location: Path, problems: Problems[DataProblem]) -> dict[int, Path]:
    """Index -> file, of a zip or a folder, at any depth.

    A zip is extracted once, into the user's cache (see `extraction_cache`), by its content. Raises `InputError` if the
    location cannot be read.
    """
    if location.is_dir():
        files = sorted(path for path in location.rglob("*") if path.is_file())
        # Folders of outputs have copies of the base images, which count only if `location` is such a folder.
        return _by_index(
            (path for path in files if not _OUTPUT_FOLDERS & {*path.relative_to(location).parts}), problems
        )
    if not location.exists():
        raise InputError(f"{location} does not exist: give the zip or the folder with EdiVal's base images")
    if not zipfile.is_zipfile(location):
        raise InputError(f"{location} is neither a folder nor a zip: give the zip or the folder with EdiVal's images")
    try:
        return _by_index(sorted(_extracted(location, problems).iterdir()), problems)
    except InputError:
        raise
    except ZIP_ERRORS as error:
        raise InputError(f"{location} cannot be extracted: {error}; extract it yourself, and give the folder") from None


def _by_index(paths: Iterable[Path], problems: Problems[DataProblem]) -> dict[int, Path]:
    path_by_index: dict[int, Path] = {}
    for path in paths:
        if (index := _index(path.name)) is None:
            continue
        first = path_by_index.setdefault(index, path)
        if first != path:
            problems.append(DataProblem(str(path), f"{first} is already image {index}: that one is used"))
    return path_by_index


def _index(name: str) -> int | None:
    """The index of an image by its file name; None for other files."""
    match = _NAME.fullmatch(Path(name).stem)
    return int(match[1]) if match and Path(name).suffix.lower() in IMAGE_SUFFIXES else None


def _extracted(location: Path, problems: Problems[DataProblem]) -> Path:
    with zipfile.ZipFile(location) as archive:
        members: dict[str, zipfile.ZipInfo] = {}
        for member in sorted(archive.infolist(), key=lambda member: member.filename):
            name = member.filename.rpartition("/")[2]
            if member.is_dir() or _index(name) is None:
                continue
            first = members.setdefault(name, member)
            if first is not member and (first.CRC, first.file_size) != (member.CRC, member.file_size):
                message = f"differs from {first.filename}, which has the same index: that one is used"
                problems.append(DataProblem(f"{location}, {member.filename}", message))
        contents = sorted((name, member.CRC, member.file_size) for name, member in members.items())
        key = hashlib.sha256(repr(contents).encode()).hexdigest()

        def write(folder: Path) -> None:
            # flat, by checked names: paths of the archive are ignored
            extract_members(archive, {folder / name: member for name, member in members.items()})

        return extracted_folder("edival", key, write)
