"""Complex-Edit's rows: an image, its atomic instructions, and the compound instruction of each level C1 to C8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....reward import Image, ImageError
from ....reward.sample import Operation
from ....reward.strict_json import parse_json
from ...common.errors import InputError
from ...common.problems import Problems
from ..rows import DataProblem
from ..split_files import SplitFiles, extracted_images, find_split_files

_COLUMNS = ("image", "edit")


@dataclass(frozen=True, slots=True)
class ComplexEditRow:
    """A row. number: in the split, from 0; outputs are matched by it. sequence: the atomic instructions, in order.

    compounds: the instruction of level c at index c - 1, which combines the first c of the sequence.
    """

    number: int
    image: Image
    sequence: tuple[Operation, ...]
    compounds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SplitData:
    """edits: the valid rows. rows: number of all rows. problems: of the invalid ones."""

    edits: Sequence[ComplexEditRow]
    rows: int
    problems: Problems[DataProblem]


def find_files(data: Path, split: str) -> SplitFiles:
    """The files of a split (see `find_split_files`). Raises `InputError`."""
    return find_split_files(data, split, _COLUMNS, "Complex-Edit")


def read_split(tables: SplitFiles) -> SplitData:
    """All rows of a split; images are extracted once (see `extracted_images`) and decoded on demand.

    Raises `InputError` if a file cannot be read, or there are no rows.
    """
    images = extracted_images("complex-edit", tables)
    problems = Problems[DataProblem]()
    edits: list[ComplexEditRow] = []
    for number, (where, row) in enumerate(tables.rows("edit")):
        num_problems = problems.total
        image = images[number]
        if isinstance(image, ImageError):
            problems.append(DataProblem(f"{where}, image", str(image)))
        edit = _plain(row["edit"])
        sequence = tuple(
            Operation(
                _text(record, "instruction", f"{where}, edit.sequence[{index}]", problems),
                str(record.get("name") or ""),
            )
            for index, record in _records(edit, "sequence", where, problems)
        )
        compounds = tuple(
            _text(record, "compound_instruction", f"{where}, edit.compound[{index}]", problems)
            for index, record in _records(edit, "compound", where, problems)
        )
        if problems.total == num_problems and isinstance(image, Image):
            edits.append(ComplexEditRow(number, image, sequence, compounds))
    if not images:
        raise InputError(f"{', '.join(map(str, tables.files))}: there are no rows")
    return SplitData(edits, len(images), problems)


# -- instructions -----------------------------------------------------------------------------------------------------


def _plain(edit: Any) -> Any:
    """The edit as a struct; some exports have JSON."""
    if isinstance(edit, str):
        try:
            return parse_json(edit)
        except ValueError:
            return None
    return edit


def _records(edit: Any, name: str, where: str, problems: Problems[DataProblem]) -> list[tuple[int, Mapping[str, Any]]]:
    """The enumerated list of that name; older versions of `datasets` write a struct of lists, also accepted."""
    records = edit.get(name) if isinstance(edit, Mapping) else None
    if isinstance(records, Mapping) and all(isinstance(values, list) for values in records.values()):
        records = [dict(zip(records, row, strict=True)) for row in zip(*records.values(), strict=False)]
    if not isinstance(records, list) or not records or not all(isinstance(record, Mapping) for record in records):
        problems.append(DataProblem(f"{where}, edit.{name}", f"expected a list of structs, got {str(records)[:80]}"))
        return []
    return list(enumerate(records))


def _text(record: Mapping[str, Any], name: str, where: str, problems: Problems[DataProblem]) -> str:
    text = record.get(name)
    if isinstance(text, str) and text.strip():
        return text.strip()
    problems.append(DataProblem(f"{where}.{name}", f"expected an instruction, got {text!r}"))
    return ""
