"""Extracts packed images, from a zip or a data set's tables, to files that many processes can read.

They are extracted once, into the user's cache: see `cache_folder`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from ...reward.cache_folder import CACHE_HINT, cache_folder


def extracted_folder(suite: str, key: str, write: Callable[[Path], None]) -> Path:
    """The cache folder of this key, filled by `write` if it does not exist.

    Atomic: other processes may do the same, and each may be interrupted. Raises OSError if the cache is not writable,
    and errors of `write`; then nothing is left.
    """
    cache = cache_folder() / suite
    folder = cache / key[:16]
    if folder.is_dir():
        return folder
    try:
        cache.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=cache))
    except OSError as error:
        raise OSError(f"{cache} is not writable ({error.strerror}): {CACHE_HINT}") from None
    try:
        write(temporary)
        temporary.chmod(0o755)
        try:
            temporary.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster, with the same images
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder
