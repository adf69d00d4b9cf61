"""Labelled phrasings: sentences with the operations they ask for, and sentences that ask for no edit.

A file is JSON lines. `{"text": ..., "corpus": ..., "clear": true, "operations": [{"type": "color_alter", "target":
["cup"], "new": null, "value": "blue"}], "keep": ["table"]}`: `type`, `target` and `new` are a word or a list of what is
acceptable; a target that is null is the whole picture. `{"text": ..., "kind": "no_request"}`: nothing may be planned.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from editcritic.reward.edit_plan import OPERATION_TYPES

REGISTERS = ("imgedit", "short", "conversational", "abstain")
MAX_BYTES = 8 << 20
"""Size of a file of phrasings, which may come from a stranger."""


class PhrasingError(ValueError):
    """A file of phrasings cannot be read: which line, and what is expected."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """What is acceptable for one operation. target, new: phrases; None where there is none to compare."""

    types: tuple[str, ...]
    target: tuple[str, ...] | None = None
    new: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Phrasing:
    """A sentence. kind: why nothing may be planned; empty for a request. clear: whether people would agree on it."""

    text: str
    clear: bool = True
    operations: tuple[Labelled, ...] = ()
    kind: str = ""


def phrasings_of(name: str) -> dict[str, list[Phrasing]]:
    """The phrasings of a set of ours, by register; those that are missing are left out."""
    folder = resources.files(__package__) / "phrasings"
    found = {}
    for register in REGISTERS:
        file = folder / f"{name}_{register}.jsonl"
        if file.is_file():
            found[register] = parse_phrasings(file.read_text("utf-8"), f"{name}_{register}.jsonl")
    return found


def read_phrasings(path: Path) -> list[Phrasing]:
    """The phrasings of a file. Raises `PhrasingError`."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise PhrasingError(f"{path} has {size} bytes, and at most {MAX_BYTES} are read: split it")
        return parse_phrasings(path.read_text("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise PhrasingError(f"{path} cannot be read: {error}") from None


def parse_phrasings(text: str, name: str) -> list[Phrasing]:
    """The phrasings of JSON lines; name: of their file, for errors. Raises `PhrasingError`."""
    phrasings = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            phrasings.append(_phrasing(json.loads(line)))
        except (ValueError, TypeError, RecursionError) as error:
            raise PhrasingError(f"{name}, line {number}: {error}") from None
    return phrasings


def _phrasing(data: Any) -> Phrasing:
    if not isinstance(data, Mapping) or not isinstance(data.get("text"), str):
        raise ValueError('expected an object with a "text"')
    kind = data.get("kind")
    if kind is not None:
        if not isinstance(kind, str) or not kind:
            raise ValueError(f'"kind" is a word such as "no_request", got {kind!r}')
        return Phrasing(data["text"], kind=kind)
    operations = data.get("operations")
    clear = data.get("clear", True)
    if not isinstance(clear, bool):
        raise ValueError(f'"clear" is true or false, got {clear!r}')
    if not isinstance(operations, list) or (clear and not operations):
        raise ValueError('expected "operations", at least one for a clear sentence, or a "kind"')
    return Phrasing(data["text"], clear, tuple(_labelled(operation) for operation in operations))


def _labelled(data: Any) -> Labelled:
    if not isinstance(data, Mapping):
        raise ValueError(f"an operation is an object, got {data!r}")
    types = _words(data.get("type"), "type")
    if types is None or (unknown := [name for name in types if name not in OPERATION_TYPES]):
        raise ValueError(f"unknown types of operation {unknown if types else types!r}: {', '.join(OPERATION_TYPES)}")
    return Labelled(types, _words(data.get("target"), "target"), _words(data.get("new"), "new"))


def _words(value: Any, name: str) -> tuple[str, ...] | None:
    """A word or a list of words; None for null and for an empty list."""
    words = [value] if isinstance(value, str) else value
    if words is None:
        return None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError(f'"{name}" is a word, a list of words, or null, got {value!r}')
    return tuple(words) or None
