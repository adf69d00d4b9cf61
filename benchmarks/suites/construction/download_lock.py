"""What was downloaded, beside the data in `sources.toml`: places, revisions and digests, checked at every visit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...reward.toml import tomllib
from ..digests import sha256
from ..inputs import InputError
from .given import write_whole
from .sources import File, read_files

LOCK = "sources.toml"
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Lock:
    """files: each with its digest. revision: the commit that a branch of a repository meant; empty without one."""

    suite: str
    files: Sequence[File]
    revision: str = ""

    def write(self, folder: Path) -> Path:
        """Write it into the folder of the data."""
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
        return write_whole(folder / LOCK, "\n".join(lines) + "\n")

    def check(self, folder: Path) -> list[File]:
        """The files that are not there. Raises `InputError` naming one whose content is another."""
        missing = []
        for file in self.files:
            place = folder / file.path
            if not place.is_file():
                missing.append(file)
            elif (digest := sha256(place)) != file.sha256.lower():
                raise InputError(
                    f"{place} has the digest {digest}, and had {file.sha256} when it was downloaded (see {LOCK}): it "
                    "has changed since; remove it to download it again"
                )
        return missing


def read_lock(folder: Path) -> Lock | None:
    """What the folder was downloaded from; None where nothing was. Raises `InputError`."""
    path = folder / LOCK
    if not path.is_file():
        return None
    files = read_files(path)
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    if table.get("schema") != SCHEMA:
        raise InputError(f"{path} has schema {table.get('schema')}, this version reads {SCHEMA}: prepare a new folder")
    if without := next((file.path for file in files if not file.sha256), ""):
        raise InputError(f"{path} has no sha256 of {without}: prepare a new folder")
    return Lock(str(table.get("suite", "")), files, str(table.get("revision", "")))


def locked(folder: Path, files: Iterable[File]) -> list[File]:
    """The files with the digests and sizes of what lies in the folder."""
    found = []
    for file in files:
        place = folder / file.path
        found.append(File(file.path, file.url, file.revision, place.stat().st_size, sha256(place), unpack=file.unpack))
    return found


def _text(value: str) -> str:
    """As TOML writes it; JSON escapes what TOML does."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
