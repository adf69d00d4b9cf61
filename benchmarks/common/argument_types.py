"""Types and options for argparse; invalid arguments are rejected before any work."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path

from .inputs import IMAGE_SUFFIXES


def at_least_one(text: str) -> int:
    """A positive integer. Raises ArgumentTypeError for anything else."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise ArgumentTypeError(f"expected a whole number of at least 1, got {text}")
    return number


def new_file(text: str) -> Path:
    """A file to write. Raises ArgumentTypeError if its folder is missing, or if it is a folder itself."""
    path = Path(text)
    if not path.parent.is_dir():
        raise ArgumentTypeError(f"there is no folder {path.parent} for {path.name}: create it first")
    if path.is_dir():
        raise ArgumentTypeError(f"expected a file, got the folder {path}")
    return path


def new_image_file(text: str) -> Path:
    """An image file to write. Raises ArgumentTypeError as `new_file` does, and for an unknown suffix."""
    path = new_file(text)
    if path.suffix.lower() not in IMAGE_SUFFIXES:
        raise ArgumentTypeError(
            f"expected a name that ends in one of {', '.join(sorted(IMAGE_SUFFIXES))}, got {path.name}"
        )
    return path


def add_json_option(parser: ArgumentParser) -> None:
    """Add `--json` as in the commands of `cli/`."""
    parser.add_argument(
        "--json", action="store_true", help="write one JSON document to standard output and nothing else"
    )
