"""Files of repositories that somebody has cloned, by repository, commit and path."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from editcritic.benchmarks.common.errors import InputError
from editcritic.reward.regular_files import read_regular

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
