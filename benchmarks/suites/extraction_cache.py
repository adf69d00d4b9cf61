"""Pictures that come packed, in a zip or a data set's tables, as files that many processes read when they look at them.

They are unpacked once, into the user's cache: `$XDG_CACHE_HOME` or `~/.cache`, under `editcritic`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

_ANOTHER = "name a folder that can be written to in the environment variable XDG_CACHE_HOME"


def unpacked(suite: str, key: str, write: Callable[[Path], None]) -> Path:
    """The folder of what is known by this key, filled by `write` where it is not there yet.

    All or nothing: other processes may be at it, and any of us may be stopped. Raises OSError where it cannot be
    written, and whatever `write` raises; then nothing is left.
    """
    cache = _cache() / "editcritic" / suite
    folder = cache / key[:16]
    if folder.is_dir():
        return folder
    try:
        cache.mkdir(parents=True, exist_ok=True)
        half = Path(tempfile.mkdtemp(dir=cache))
    except OSError as error:
        raise OSError(f"{cache} cannot be written to ({error.strerror}): {_ANOTHER}") from None
    try:
        write(half)
        half.chmod(0o755)
        try:
            half.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster, with the same pictures
                raise
    finally:
        shutil.rmtree(half, ignore_errors=True)
    return folder


def _cache() -> Path:
    if named := os.environ.get("XDG_CACHE_HOME"):
        return Path(named)
    try:
        return Path.home() / ".cache"
    except RuntimeError:
        raise OSError(f"this user has no home to keep it in: {_ANOTHER}") from None
