"""Digests of files, and checksums of stored records, so that one that is not what was written is not taken for it."""

from __future__ import annotations

import hashlib
from pathlib import Path

_CHUNK = 1 << 20


def record_checksum(*fields: str | bytes) -> str:
    """64 bits of sha256 over the fields and their lengths, as 16 hex digits. Give all that the record is looked up by,
    too: then a record in another one's place is also found. Text counts as its UTF-8 bytes.
    """
    state = hashlib.sha256()
    for item in fields:
        data = item.encode() if isinstance(item, str) else item
        state.update(b"%d:" % len(data))
        state.update(data)
    return state.hexdigest()[:16]


def sha256(path: Path) -> str:
    """SHA-256 of a file, hex. Raises OSError."""
    state = hashlib.sha256()
    chunk = memoryview(bytearray(_CHUNK))
    with path.open("rb", buffering=0) as file:
        while size := file.readinto(chunk):
            state.update(chunk[:size])
    return state.hexdigest()
