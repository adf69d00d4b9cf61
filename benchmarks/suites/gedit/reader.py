"""GEdit-Bench's rows: a picture, an instruction in one of two languages, its type, and whether it is in the subset of
edits that all editors of the paper made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....reward import Image, ImageError
from ....reward.plain_text import check_name, one_line
from ...common.errors import InputError
from ...common.problems import Problems
from ..split_files import LargeCell, extracted_images, find_split_files
from ..suite import DataProblem

TYPES: Sequence[str] = (
    "background_change",
    "color_alter",
    "material_alter",
    "motion_change",
    "ps_human",
    "style_change",
    "subject-add",
    "subject-remove",
    "subject-replace",
    "text_change",
    "tone_transfer",
)
"""The values of `task_type`, in the order of the released tables."""

LANGUAGES: Mapping[str, str] = {"en": "English", "cn": "Chinese"}
"""The values of `instruction_language`."""

PICTURES: Sequence[str] = ("input_image", "input_image_raw")
"""Columns of pictures: as the judge sees them, and as people posted them."""

_SPLIT = "train"
"""The only split, by the name that it has on the hub."""
_COLUMNS = ("task_type", "key", "instruction", "instruction_language", "Intersection_exist")


@dataclass(frozen=True, slots=True)
class GEditRow:
    """A row. type: of `TYPES`. language: of `LANGUAGES`. key: names the output. intersection: see the module."""

    type: str
    key: str
    language: str
    instruction: str
    intersection: bool
    image: Image

    @property
    def id(self) -> str:
        """Unique among the rows."""
        return f"{self.language}.{self.type}.{self.key}"


def read_rows(data: Path, languages: Sequence[str], pictures: str, problems: Problems[DataProblem]) -> list[GEditRow]:
    """The valid rows in these languages. data: parquet shards, one parquet file, or a data set saved by `save_to_disk`.

    pictures: the column of the sources. Raises `InputError` if the data cannot be read, or has no such rows.
    """
    tables = find_split_files(data, _SPLIT, (*_COLUMNS, pictures), "GEdit-Bench")
    images = extracted_images("gedit", tables, pictures)
    rows: dict[str, GEditRow] = {}
    for image, (where, cells) in zip(images, tables.rows(*_COLUMNS), strict=True):
        if cells["instruction_language"] in LANGUAGES and cells["instruction_language"] not in languages:
            continue
        try:
            row = _row(cells, image, pictures)
            if row.id in rows:
                raise ValueError(f"another row has the type {row.type}, the language and the key {row.key!r} too")
            rows[row.id] = row
        except ValueError as error:
            problems.append(DataProblem(where, one_line(str(error))))
    if not rows:
        reasons = "; ".join(map(str, problems[:3])) or "it has none"
        raise InputError(f"{data} has no usable rows in {' or '.join(LANGUAGES[one] for one in languages)}: {reasons}")
    return list(rows.values())


def _row(cells: Mapping[str, Any], image: Image | ImageError, pictures: str) -> GEditRow:
    """Raises ValueError for an invalid row."""
    if large := [f"{name} has {cells[name]}" for name in _COLUMNS if isinstance(cells[name], LargeCell)]:
        raise ValueError(f"{large[0]}: it is not read")
    for name, allowed in (("task_type", TYPES), ("instruction_language", tuple(LANGUAGES))):
        if cells[name] not in allowed:
            raise ValueError(f"{name}: expected one of {', '.join(allowed)}, got {str(cells[name])!r:.80}")
    key, instruction, intersection = cells["key"], cells["instruction"], cells["Intersection_exist"]
    if not isinstance(key, str) or not key:
        raise ValueError(f"key: expected text, got {str(key)!r:.80}")
    check_name(key)
    if key != Path(key).name or key == ".." or "\\" in key or len(key) > _MAX_KEY:
        raise ValueError(f"key: {key[:80]!r} is not a file name: outputs are named after it")
    if not isinstance(instruction, str) or not instruction.strip():
        raise ValueError(f"instruction: expected text, got {str(instruction)!r:.80}")
    if intersection not in (True, False):
        raise ValueError(f"Intersection_exist: expected true or false, got {str(intersection)!r:.80}")
    if isinstance(image, ImageError):
        raise ValueError(f"{pictures}: {image}")
    return GEditRow(
        cells["task_type"], key, cells["instruction_language"], instruction.strip(), bool(intersection), image
    )


_MAX_KEY = 200
"""Characters of a key: names of files have 255 bytes."""
