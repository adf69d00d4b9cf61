"""The lock file `sources.toml` of downloaded data: URLs, revisions and digests, verified by each `bench prepare`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ....reward.atomic_files import write_atomically
from ....reward.file_digest import sha256
from ....reward.toml_files import read_toml
from ...common.errors import InputError
from .dataset_sources import DatasetFile, read_files

LOCK_FILE = "sources.toml"
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class DownloadLock:
    """files: with their digests. revision: the commit of a repository's branch; empty without a repository."""

    suite: str
    files: Sequence[DatasetFile]
    revision: str = ""

    def write(self, folder: Path) -> Path:
        """Write it into the data folder."""
        lines = [
            f"# What `editcritic bench prepare {self.suite}` has downloaded.",
            f"schema = {SCHEMA}",
            f"suite = {_text(self.suite)}",
            f"revision = {_text(self.revision)}",
        ]
        for file in self.files:
            lines += ["", "[[file]]", f"path = {_text(file.path)}", f"url = {_text(file.url)}"]
            lines += [f"revision = {_text(file.revision)}"] if file.revision else []
            lines += [f"size = {file.size}"] if file.size is not None else []
            lines += [f"sha256 = {_text(file.sha256)}"]
            lines += ["unpack = true"] if file.unpack else []
        return write_atomically(folder / LOCK_FILE, "\n".join(lines) + "\n")

    def check(self, folder: Path) -> list[DatasetFile]:
        """The missing files. Raises `InputError` naming a file whose content has changed."""
        missing = []
        for file in self.files:
            path = folder / file.path
            if not path.is_file():
                missing.append(file)
            elif (digest := sha256(path)) != file.sha256.lower():
                raise InputError(
                    f"{path} has the digest {digest}, and had {file.sha256} when it was downloaded (see {LOCK_FILE}): "
                    "it has changed since; remove it to download it again"
                )
        return missing


def read_lock(folder: Path) -> DownloadLock | None:
    """The lock of a data folder; None if nothing was downloaded. Raises `InputError`."""
    path = folder / LOCK_FILE
    if not path.is_file():
        return None
    files = read_files(path)
    table = read_toml(path)
    if table.get("schema") != SCHEMA:
        raise InputError(f"{path} has schema {table.get('schema')}, this version reads {SCHEMA}: prepare a new folder")
    if without := next((file.path for file in files if not file.sha256), ""):
        raise InputError(f"{path} has no sha256 of {without}: prepare a new folder")
    return DownloadLock(str(table.get("suite", "")), files, str(table.get("revision", "")))


def lock_files(folder: Path, files: Iterable[DatasetFile]) -> list[DatasetFile]:
    """The files with the digests and sizes of their copies in the folder."""
    locked = []
    for file in files:
        path = folder / file.path
        locked.append(
            DatasetFile(file.path, file.url, file.revision, path.stat().st_size, sha256(path), unpack=file.unpack)
        )
    return locked


def _text(value: str) -> str:
    """A TOML string; JSON escapes the same characters."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
