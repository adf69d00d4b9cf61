"""Digests of large files of weights, of which every byte is read once per machine.

sha256 takes 10 s for 16 GiB of weights where the CPU has instructions for it. So digests are kept in the user's cache,
by path, and hold for as long as the file's size, times, inode and device are the same. A cache that is damaged or
cannot be written costs the time of reading again.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from ...atomic_files import write_atomically
from ...cache_folder import cache_folder
from ...file_digest import sha256
from ...record_checksum import record_checksum

_SETTLED_S = 2.0
"""A file that was changed this recently may change again without another time: its digest is not kept."""


def large_file_digests(paths: Sequence[Path]) -> Mapping[Path, str]:
    """sha256 of each file, hex. Raises OSError."""
    with ThreadPoolExecutor(os.cpu_count()) as threads:  # hashing needs no interpreter lock
        return dict(zip(paths, threads.map(_digest, paths), strict=True))


def _digest(path: Path) -> str:
    path = path.resolve()
    stamp = _stamp(path)
    digest = _kept_digest(path, stamp)
    if digest is None:
        started_at = time.time_ns()
        digest = sha256(path)
        last_changed = max(stamp[1:3])
        if _stamp(path) == stamp and started_at - last_changed > _SETTLED_S * 1e9:
            _keep(path, stamp, digest)
    return digest


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    # The time of the last change of the inode cannot be set, unlike that of the content, which copies may keep.
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev]


def _kept_digest(path: Path, stamp: Sequence[int]) -> str | None:
    with suppress(OSError, ValueError, LookupError, TypeError):
        record = json.loads(_record_file(path).read_text(encoding="utf-8"))
        digest = str(record["sha256"])
        if record["checksum"] == _checksum(path, stamp, digest):
            return digest
    return None


def _keep(path: Path, stamp: Sequence[int], digest: str) -> None:
    with suppress(OSError):
        file = _record_file(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        record = {"path": str(path), "sha256": digest, "checksum": _checksum(path, stamp, digest)}
        write_atomically(file, json.dumps(record))


def _record_file(path: Path) -> Path:
    return cache_folder() / "weights" / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:32]}.json"


def _checksum(path: Path, stamp: Sequence[int], digest: str) -> str:
    return record_checksum("weights", os.fsencode(path), json.dumps(stamp), digest)
