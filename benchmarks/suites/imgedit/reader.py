"""ImgEdit-Bench's published files: basic, hard (UGE) and multi-turn instructions, and the pictures that they name.

    basic       {"1082": {"id": "animal/000342021.jpg", "prompt": "Change …", "edit_type": "adjust"}, …}
    uge         {"1": {"id": "000029784.jpg", "prompt": "Remove …"}, …}
    multi-turn  a file for each kind, {"id": "000066341.jpg", "turn1": "…", "turn2": "…", "turn3": "…"} on a line each

The basic and the hard instructions are in the authors' repository, `Benchmark/Basic/basic_edit.json` and
`Benchmark/UGE/UGE_edit.json`; the pictures are in `Benchmark.tar`, in `singleturn/`, `hard/` and
`multiturn/<kind>/`, which also has `singleturn/singleturn.json` and `multiturn/<kind>/annotation.json`. Each file may
be one JSON object of rows by key, or have one row on a line, with the key `key` or else the number of the line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from ....reward.metrics.imgedit.metrics import EDIT_TYPES, EditType
from ....reward.plain_text import one_line
from ....reward.strict_json import json_lines, read_json
from ...common.errors import InputError
from ...common.problems import Problems
from ..rows import DataProblem, Row, file_name, read_rows, reasons, text, usable

Part = Literal["basic", "uge", "multi-turn"]
PARTS: tuple[Part, ...] = get_args(Part)

TYPE_COUNTS: Mapping[EditType, int] = {
    "add": 95,
    "adjust": 94,
    "extract": 117,
    "replace": 92,
    "remove": 86,
    "background": 94,
    "style": 100,
    "compose": 23,
    "action": 36,
}
"""Type -> instructions of the published basic suite, 737 in all."""
UGE_COUNT = 47
"""Instructions of the published hard suite."""

KINDS: Mapping[str, tuple[str, ...]] = {
    "content-memory": ("content_memory",),
    "content-understanding": ("content_understand", "content_understanding"),
    "version-backtracking": ("version_backtrace", "version_backtracking"),
}
"""Kind of a multi-turn task -> names of its folder, or of its file without suffix."""
MAX_TURNS = 10

_FOLDERS: Mapping[Part, str] = {"basic": "singleturn", "uge": "hard", "multi-turn": "multiturn"}
"""Part -> its folder in the published archive."""
_ARCHIVE = "Benchmark"
_FILES: Mapping[Part, tuple[str, ...]] = {
    "basic": ("basic_edit.json", "singleturn.json", "singleturn/singleturn.json", "Basic/basic_edit.json"),
    "uge": ("UGE_edit.json", "UGE_edit.jsonl", "hard/annotation.json", "hard/annotation.jsonl", "UGE/UGE_edit.json"),
}


@dataclass(frozen=True, slots=True)
class ImgEditRow:
    """One instruction, or one conversation. key: of its output. source: the picture as the row names it. instructions:
    one a turn. kind: its type or kind, empty for hard instructions.
    """

    where: str
    key: str
    source: str
    picture: Path
    instructions: tuple[str, ...]
    kind: str


def data_folder(data: Path) -> Path:
    """The folder which the pictures lie in or below."""
    return data if data.is_dir() else data.parent


def read_part(data: Path, part: Part, problems: Problems[DataProblem]) -> list[ImgEditRow]:
    """The usable rows. data: a folder in one of the published layouts, or for basic and hard instructions their file.

    Raises `InputError` if there is no such file, or no usable row.
    """
    found: list[ImgEditRow] = []
    for kind, path in _files(data, part):
        rows = read_rows(_rows(path), partial(_row, data_folder(data), path, part, kind), lambda row: row.key)
        found += usable(rows, problems)
    if not found:
        why = reasons(problems, "its files have no rows")
        raise InputError(f"{data} has no usable instructions of imgedit's part {part}: {why}")
    return found


def _files(data: Path, part: Part) -> list[tuple[str, Path]]:
    """Kind (of several turns) and path of each file of instructions. Raises `InputError` for none."""
    if part != "multi-turn":
        if data.is_file():
            return [("", data)]
        candidates = [top / name for top in (data, data / _ARCHIVE) for name in _FILES[part]]
        found = next((path for path in candidates if path.is_file()), None)
        if found is None:
            raise InputError(
                f"{data} has no instructions of imgedit's part {part}: expected {_FILES[part][0]} in it, with its "
                f"pictures beside it or in {_FOLDERS[part]}/"
            )
        return [("", found)]
    tops = [data, data / _FOLDERS[part], data / _ARCHIVE / _FOLDERS[part]]
    files = []
    for kind, names in KINDS.items():
        candidates = [
            path
            for top in tops
            for name in names
            for path in (top / name / "annotation.json", top / name / "annotation.jsonl", top / f"{name}.json")
        ]
        files += [(kind, path) for path in candidates if path.is_file()][:1]
    if not files:
        expected = ", ".join(f"{_FOLDERS[part]}/{names[0]}/annotation.json" for names in KINDS.values())
        raise InputError(f"{data} has no instructions of imgedit's part {part}: expected {expected}")
    return files


def _rows(path: Path) -> Iterator[tuple[str, Any]]:
    """Location and content of each row, which has its `key`."""
    try:
        table = read_json(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        table = None  # several values, one on a line, or no JSON at all
    if isinstance(table, dict) and table and all(isinstance(row, dict) for row in table.values()):
        for key, row in table.items():
            yield f"{path}, {one_line(key):.80}", {**row, "key": key}
        return
    for number, row in json_lines(path):
        yield f"{path}:{number}", {"key": number, **row} if isinstance(row, dict) else row


def _row(top: Path, path: Path, part: Part, kind: str, row: Row, where: str) -> ImgEditRow:
    """Raises ValueError for a row that cannot be used."""
    key = file_name(str(row["key"]))
    name = text(row, "id")
    picture = next((file for file in _pictures(top, path, part, name) if file.is_file()), None)
    if picture is None:
        raise ValueError(f"there is no image {name!r:.200}, neither in {path.parent} nor in {_FOLDERS[part]}/")
    if part == "multi-turn":
        turns = [f"turn{number}" for number in range(1, 1 + sum(field.startswith("turn") for field in row))]
        if not 1 <= len(turns) <= MAX_TURNS:
            raise ValueError(f"has {len(turns)} turns: expected turn1, turn2, … up to {MAX_TURNS}")
        return ImgEditRow(where, key, name, picture, tuple(text(row, turn) for turn in turns), kind)
    if part == "basic":
        kind = text(row, "edit_type").casefold()
        if kind not in EDIT_TYPES:
            raise ValueError(f"unknown edit_type {kind!r:.80}: expected one of {', '.join(EDIT_TYPES)}")
    return ImgEditRow(where, key, name, picture, (text(row, "prompt"),), kind)


def _pictures(top: Path, path: Path, part: Part, name: str) -> Iterator[Path]:
    """Where a row's picture may be."""
    yield path.parent / name
    for folder in (top, top / _FOLDERS[part], top / _ARCHIVE / _FOLDERS[part], top / "original_images"):
        yield folder / name
