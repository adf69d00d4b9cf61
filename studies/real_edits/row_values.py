"""Values of rows that a stranger may have written: bounded, and of the kind that is expected, or a ValueError."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, TypeVar

from .real_edit import Corners

T = TypeVar("T", bound=str)

MAX_TEXT = 4000
"""Characters of a text."""
_MAX_BOXES = 64
"""Of all names of a row."""
_MAX_SIDE = 100_000
"""Pixels."""


def text_of(row: Mapping[str, Any], key: str) -> str:
    """A text that is not empty, of at most `MAX_TEXT` characters."""
    value = row.get(key)
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_TEXT:
        raise ValueError(f"{key} has to be a text of 1 to {MAX_TEXT} characters, got {value!r:.80}")
    return value


def choice_of(row: Mapping[str, Any], key: str, options: Sequence[T]) -> T:
    """One of the options."""
    value = row.get(key)
    for option in options:
        if value == option:
            return option
    raise ValueError(f"{key} has to be one of {', '.join(options)}, got {value!r:.80}")


def path_of(row: Mapping[str, Any], key: str) -> str:
    """A relative path with `/` that stays in its folder."""
    value = text_of(row, key)
    parts = PurePosixPath(value).parts
    if value.startswith("/") or ".." in parts or "\\" in value or ":" in value or "\0" in value or not parts:
        raise ValueError(f"{key} has to be a path inside of its folder, got {value!r:.80}")
    return value


def corners_of(value: Any) -> Corners:
    """Four whole numbers x0, y0, x1, y1 with x0 < x1 and y0 < y1; corners may lie outside of the picture."""
    is_whole = isinstance(value, list) and len(value) == 4 and all(type(number) is int for number in value)
    if not is_whole or max(map(abs, value)) > _MAX_SIDE:
        raise ValueError(f"a rectangle is [x0, y0, x1, y1] in whole pixels, got {value!r:.80}")
    x0, y0, x1, y1 = value
    if not (x0 < x1 and y0 < y1):
        raise ValueError(f"the rectangle {value} is empty: x0 < x1 and y0 < y1 are expected")
    return x0, y0, x1, y1


def boxes_of(value: Any) -> dict[str, tuple[Corners, ...]]:
    """Boxes by name; none for null."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(boxes, list) and boxes for boxes in value.values()):
        raise ValueError(f"boxes have to be lists of rectangles by name, got {value!r:.80}")
    if sum(map(len, value.values())) > _MAX_BOXES or any(not 0 < len(name) <= MAX_TEXT for name in value):
        raise ValueError(f"at most {_MAX_BOXES} boxes with names are expected")
    return {name: tuple(map(corners_of, boxes)) for name, boxes in value.items()}


def target_of(value: Any, boxes: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of boxes; none for null."""
    names = [] if value is None else value
    if not isinstance(names, list) or any(not isinstance(name, str) or name not in boxes for name in names):
        raise ValueError(f"target has to be a list of names of boxes, got {value!r:.80}")
    return tuple(names)
