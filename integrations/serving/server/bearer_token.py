"""The token of a server, from where nobody else sees it."""

from __future__ import annotations

import os
from pathlib import Path

_MAX_TOKEN_BYTES = 2**16


def read_token(variable: str | None, path: Path | None) -> str:
    """The token in an environment variable or a file; empty if neither is given.

    Raises ValueError if there is none in it, or if both are given, and OSError if the file cannot be read.
    """
    if variable and path is not None:
        raise ValueError("give either --token-env or --token-file")
    text = os.environ.get(variable, "") if variable else ""
    if path is not None:
        try:
            with path.open("rb") as file:  # may be the pipe of a password manager
                text = file.read(_MAX_TOKEN_BYTES).decode()
        except UnicodeDecodeError:
            raise ValueError(f"{path} is no text: give a file that holds the token alone") from None
    if (variable or path) and not text.strip():
        raise ValueError(f"there is no token in {path or variable}")
    return text.strip()
