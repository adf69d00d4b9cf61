"""Real edits in a folder: `edits.jsonl` with a row an edit, and the pictures beside it.

A row: `id`, `group`, `base`, `source` and `edited` (paths in the folder), `instruction`, `editor`, `followed`,
`preserved`, `boxes` (in pixels of the source, by name) and `target` (which of them are to change), or null;
`operation`, or `removal` (true or false), or neither, then as the rules plan the instruction.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from editcritic.benchmarks.common.errors import InputError
from editcritic.reward import Image, ImageError
from editcritic.reward.strict_json import json_lines

from .real_edit import FOLLOWED, OPERATIONS, PRESERVED, STATES, RealEdit, operation_of
from .row_values import boxes_of, choice_of, path_of, target_of, text_of

ROWS = "edits.jsonl"


def folder_edits(folder: Path) -> list[RealEdit]:
    """All edits of a folder. Raises `InputError` with the line of a row that cannot be read."""
    path = folder / ROWS
    edits = []
    try:
        for number, row in json_lines(path, inside=folder):
            try:
                if isinstance(row, ValueError):
                    raise row
                edits.append(_edit(row, folder))
            except (ValueError, ImageError, OSError) as error:
                raise InputError(f"{path}, line {number}: {error}") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    if len({edit.id for edit in edits}) < len(edits):
        raise InputError(f"{path}: an id is given twice")
    return edits


def _edit(row: Any, folder: Path) -> RealEdit:
    if not isinstance(row, Mapping):
        raise ValueError(f"a row is a JSON object, got {row!r:.80}")
    instruction, boxes = text_of(row, "instruction"), boxes_of(row.get("boxes"))
    if row.get("operation") is not None:
        operation = choice_of(row, "operation", OPERATIONS)
    else:
        operation = "removal" if row.get("removal") is True else operation_of(instruction)
    source, edited = (_picture(folder, path_of(row, key)) for key in ("source", "edited"))
    return RealEdit(
        text_of(row, "id"),
        text_of(row, "group"),
        text_of(row, "base"),
        instruction,
        source,
        edited,
        operation,
        None if row.get("followed") is None else choice_of(row, "followed", FOLLOWED),
        None if row.get("preserved") is None else choice_of(row, "preserved", PRESERVED),
        None if row.get("place") is None else choice_of(row, "place", STATES),
        boxes,
        target_of(row.get("target"), boxes),
        str(row.get("editor") or ""),
    )


def _picture(folder: Path, path: str) -> Image:
    return Image.open(folder / path, inside=folder)
