"""GEdit-Bench's rows: a picture, an instruction in one of two languages, its type, and whether it is in the subset of
edits that all editors of the paper made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ....reward import Image, ImageError
from ...common.errors import InputError
from ...common.problems import Problems
from ..rows import DataProblem, Row, choice, file_name, read_rows, reasons, text, usable
from ..split_files import extracted_images, find_split_files

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


def read_gedit(data: Path, languages: Sequence[str], pictures: str, problems: Problems[DataProblem]) -> list[GEditRow]:
    """The valid rows in these languages. data: parquet shards, one parquet file, or a data set saved by `save_to_disk`.

    pictures: the column of the sources. Raises `InputError` if the data cannot be read, or has no such rows.
    """
    tables = find_split_files(data, _SPLIT, (*_COLUMNS, pictures), "GEdit-Bench")
    images = extracted_images("gedit", tables, pictures)
    rows = (
        (where, {**cells, pictures: image})
        for image, (where, cells) in zip(images, tables.rows(*_COLUMNS), strict=True)
        if cells["instruction_language"] not in LANGUAGES or cells["instruction_language"] in languages
    )
    each = read_rows(rows, lambda row, where: _row(row, pictures), lambda row: row.id)
    found = usable(each, problems)
    if not found:
        in_languages = " or ".join(LANGUAGES[one] for one in languages)
        raise InputError(f"{data} has no usable rows in {in_languages}: {reasons(problems, 'it has none')}")
    return found


def _row(cells: Row, pictures: str) -> GEditRow:
    """Raises ValueError for an invalid row."""
    image = cells[pictures]
    kind = choice(cells, "task_type", {one: one for one in TYPES})
    language = choice(cells, "instruction_language", {one: one for one in LANGUAGES})
    instruction, intersection = text(cells, "instruction"), cells["Intersection_exist"]
    if "\\" in text(cells, "key"):
        raise ValueError(f"{cells['key'][:80]!r} is not a file name, and outputs are named after it")
    if intersection not in (True, False):
        raise ValueError(f"expected true or false in 'Intersection_exist', got {str(intersection)!r:.80}")
    if isinstance(image, ImageError):
        raise ValueError(f"{pictures}: {image}")
    return GEditRow(kind, file_name(cells["key"]), language, instruction, bool(intersection), image)
