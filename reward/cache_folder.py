"""Where this user's caches are."""

from __future__ import annotations

import os
from pathlib import Path

CACHE_HINT = "set the environment variable XDG_CACHE_HOME to a writable folder"


def cache_folder() -> Path:
    """`editcritic` in `$XDG_CACHE_HOME` or `~/.cache`; it may not exist. Raises OSError for a user without a home."""
    if configured := os.environ.get("XDG_CACHE_HOME"):
        return Path(configured) / "editcritic"
    try:
        return Path.home() / ".cache" / "editcritic"
    except RuntimeError:
        raise OSError(f"this user has no home folder: {CACHE_HINT}") from None
