"""What commands of modules are given: types for argparse, so that it is refused before any work."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path

from .inputs import PICTURES


def at_least_one(text: str) -> int:
    """A whole number from 1 on. Raises ArgumentTypeError for anything else."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise ArgumentTypeError(f"expected a whole number of at least 1, got {text}")
    return number


def new_file(text: str) -> Path:
    """A file to write. Raises ArgumentTypeError where its folder is missing, or where it is a folder itself."""
    path = Path(text)
    if not path.parent.is_dir():
        raise ArgumentTypeError(f"there is no folder {path.parent} for {path.name}: make it first")
    if path.is_dir():
        raise ArgumentTypeError(f"expected a file, got the folder {path}")
    return path


def new_picture(text: str) -> Path:
    """A file to write a picture to. Raises ArgumentTypeError as `new_file` does, and for an unknown suffix."""
    path = new_file(text)
    if path.suffix.lower() not in PICTURES:
        raise ArgumentTypeError(f"expected a name that ends in one of {', '.join(sorted(PICTURES))}, got {path.name}")
    return path
