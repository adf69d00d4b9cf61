"""Digest of a file of any size."""

from __future__ import annotations

import hashlib
from pathlib import Path

_CHUNK = 1 << 20


def sha256(path: Path) -> str:
    """SHA-256 of a file, hex. Raises OSError."""
    state = hashlib.sha256()
    chunk = memoryview(bytearray(_CHUNK))
    with path.open("rb", buffering=0) as file:
        while size := file.readinto(chunk):
            state.update(chunk[:size])
    return state.hexdigest()
