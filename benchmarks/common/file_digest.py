"""The digest of a file, whatever its size."""

from __future__ import annotations

import hashlib
from pathlib import Path

_CHUNK = 1 << 20


def sha256(path: Path) -> str:
    """Of a file, hex. Raises OSError."""
    state = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(_CHUNK):
            state.update(part)
    return state.hexdigest()
