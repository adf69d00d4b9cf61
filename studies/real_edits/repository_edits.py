"""The project's own set of real edits: addresses, hashes and labels; pictures and sentences are read from clones.

A row of `edits.jsonl` has `id`, `group`, `base`, `repo`, `commit`, `source` and `edited` (`path`, `sha256` of the file,
`crop`: a rectangle or null), `instruction` (`path`, `start`, `end` in bytes, `sha256` of the sentence; or `text`, where
the sentence is ours), `editor`, `operation`, `half`, and `labels`: `followed`, `preserved`, `place`, `boxes` (in pixels
of the cropped source, by name), `target` (names) and `note`. Some have `second`: `followed`, `preserved` and `place` as
another reader says.
"""

from __future__ import annotations

import html
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from editcritic.benchmarks.common.errors import InputError
from editcritic.reward import Image, ImageError
from editcritic.reward.regular_files import read_regular

from .real_edit import RealEdit

MAX_BYTES = 64 * 2**20
"""Of one file."""

_ENVIRONMENT = {"GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
"""Nothing is fetched: what is missing is said."""
_LFS = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True)
class Clones:
    """A folder of clones, bare or with a work tree, as `owner+name` or `owner/name`; also with `.git`, or with the
    repository in a folder `repo` of it.
    """

    folder: Path
    _read: dict[tuple[str, str, str], bytes] = field(default_factory=dict)

    def read(self, repo: str, commit: str, path: str, digest: str = "") -> bytes:
        """A file's bytes: of that commit, or else of the current one, or of the work tree.

        digest: their SHA-256, hex; without one, who reads them checks what it takes from them. Raises `InputError` with
        the command that makes the clone where there is none or it lacks the file, and where all has other bytes.
        """
        key = (repo, path, digest)
        if key not in self._read:
            self._read[key] = self._found(repo, commit, path, digest)
        return self._read[key]

    def _found(self, repo: str, commit: str, path: str, digest: str) -> bytes:
        clone = self._clone(repo, commit)
        found = [_blob(clone, f"{commit}:{path}")]
        if digest:
            found.append(_blob(clone, f"HEAD:{path}"))
        if not (clone / "HEAD").is_file():  # it is not bare
            found.append(_of_work_tree(clone, path))
        known = [data for data in found if data is not None]
        for data in known:
            if not digest or sha256(data).hexdigest() == digest:
                return data
        if not known:
            raise InputError(f"{clone} has no {path} at {commit}: {self._command(repo, commit)}")
        pointer = " (a pointer of Git LFS: `git lfs pull` in the clone)" if known[0].startswith(_LFS) else ""
        raise InputError(f"{path} of {repo} at {commit} has other bytes than expected{pointer}")

    def _clone(self, repo: str, commit: str) -> Path:
        for place in (repo.replace("/", "+"), repo):
            for clone in (self.folder / f"{place}{end}" for end in ("", "/repo", ".git", ".git/repo")):
                if (clone / "HEAD").is_file() or (clone / ".git").exists():
                    return clone
        raise InputError(f"{self.folder} has no clone of {repo}: {self._command(repo, commit)}")

    def _command(self, repo: str, commit: str) -> str:
        place = self.folder / repo.replace("/", "+")
        return (
            f"git init -q {place} && git -C {place} fetch --depth 1 https://github.com/{repo} {commit} && "
            f"git -C {place} checkout -q {commit}"
        )


def _of_work_tree(clone: Path, path: str) -> bytes | None:
    try:
        return read_regular(clone / path, MAX_BYTES, inside=clone)
    except OSError:
        return None


def _blob(clone: Path, name: str) -> bytes | None:
    """The file of a name like `commit:path`; None where there is none, or one above `MAX_BYTES`."""
    header = _git(clone, ["cat-file", "--batch-check"], name).split()
    if len(header) != 3 or header[1] != b"blob" or int(header[2]) > MAX_BYTES:
        return None
    return _git(clone, ["cat-file", "blob", header[0].decode("ascii")])


def _git(clone: Path, arguments: Sequence[str], line: str = "") -> bytes:
    """What git writes; nothing where it fails. The clone may belong to somebody else: nothing of it is run."""
    command = ["git", "-C", str(clone), "-c", "safe.directory=*", "-c", "core.fsmonitor=false", *arguments]
    environment = {**os.environ, **_ENVIRONMENT}
    done = subprocess.run(command, input=f"{line}\n".encode(), capture_output=True, check=False, env=environment)
    return done.stdout if done.returncode == 0 else b""


ROWS = Path(__file__).with_name("edits.jsonl")
_QUOTES = "\"'`\u2018\u2019\u201c\u201d "


def repository_rows() -> list[dict[str, Any]]:
    """All rows of the set."""
    return [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]


def read_edit(row: Mapping[str, Any], clones: Clones) -> RealEdit:
    """The edit of a row with its pictures and its sentence. Raises `InputError` as `Clones.read`, for a picture that is
    none, and for a sentence that is another one.
    """
    labels, second = row["labels"], row.get("second")
    try:
        source, edited = (_picture(row, row[side], clones) for side in ("source", "edited"))
    except ImageError as error:
        raise InputError(f"{row['id']}: {error}") from None
    return RealEdit(
        **{name: row[name] for name in ("id", "group", "base", "editor", "operation", "half")},
        **{name: labels[name] for name in ("followed", "preserved", "place")},
        instruction=_sentence(row, clones),
        source=source,
        edited=edited,
        boxes={name: tuple(map(tuple, boxes)) for name, boxes in (labels["boxes"] or {}).items()},
        target=tuple(labels["target"] or ()),
        second=second and (second["followed"], second["preserved"], second["place"]),
    )


def _picture(row: Mapping[str, Any], file: Mapping[str, Any], clones: Clones) -> Image:
    image = Image.from_encoded(clones.read(row["repo"], row["commit"], file["path"], file["sha256"]))
    return image if file.get("crop") is None else image.crop(*file["crop"])


def _sentence(row: Mapping[str, Any], clones: Clones) -> str:
    at = row["instruction"]
    if "text" in at:
        return str(at["text"])
    data = clones.read(row["repo"], row["commit"], at["path"])[at["start"] : at["end"]]
    try:
        sentence = sentence_of(data)
    except ValueError:
        sentence = ""
    if sha256(sentence.encode()).hexdigest() != at["sha256"]:
        raise InputError(f"{row['id']}: bytes {at['start']} to {at['end']} of {at['path']} are another sentence")
    return sentence


def sentence_of(data: bytes) -> str:
    """The sentence that bytes of a text file hold, without spaces and quotes around it, without escapes of JSON and
    HTML. Raises ValueError for what is no text.
    """
    text = data.decode("utf-8").strip().strip(_QUOTES)
    if "\\" in text:
        text = json.loads(f'"{text}"')
    return html.unescape(text).strip().strip(_QUOTES)
