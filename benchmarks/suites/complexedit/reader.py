"""Complex-Edit's rows: an image, its atomic instructions, and the compound instruction of each level C1 to C8. They are
read of, and written to, parquet files with the columns of `datasets`, `image` and `edit`; what is published on the hub,
images beside a `metadata.jsonl` per split, is converted to such files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ....reward import Image, ImageError
from ....reward.atomic_files import atomic_replacement
from ....reward.image_decoding import read_bytes
from ....reward.sample import Operation
from ....reward.strict_json import json_lines, parse_json
from ...common.errors import InputError
from ...common.optional_imports import bench_library
from ...common.problems import Problems
from ..rows import DataProblem
from ..split_files import extracted_images, find_split_files, safe_path_parts

_COLUMNS = ("image", "edit")


@dataclass(frozen=True, slots=True)
class ComplexEditRow:
    """A row. number: in the split, from 0; outputs are matched by it. sequence: the atomic instructions, in order.
    compounds: the instruction of level c at index c - 1, which combines the first c of the sequence."""

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


def read_split(data: Path, split: str) -> SplitData:
    """All rows of a split (see `find_split_files`); images are extracted once and decoded on demand. Raises
    `InputError` if a file cannot be read, or there are no rows."""
    tables = find_split_files(data, split, _COLUMNS, "Complex-Edit")
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
    if isinstance(edit, str):  # some exports have JSON
        try:
            return parse_json(edit)
        except ValueError:
            return None
    return edit


def _records(edit: Any, name: str, where: str, problems: Problems[DataProblem]) -> list[tuple[int, Mapping[str, Any]]]:
    records = edit.get(name) if isinstance(edit, Mapping) else None
    # Older versions of `datasets` write a struct of lists.
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


_FEATURES: Mapping[str, Any] = {
    "image": {"_type": "Image"},
    "edit": {
        "sequence": [
            {"name": {"dtype": "string", "_type": "Value"}, "instruction": {"dtype": "string", "_type": "Value"}}
        ],
        "compound": [{"compound_instruction": {"dtype": "string", "_type": "Value"}}],
    },
}
"""Metadata of the file, so that `datasets` decodes the images."""

_GROUP = 64
"""Rows per row group, so that reading one image does not load all."""


def write_parquet(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write rows of `image` (`bytes`, `path`) and `edit` (`sequence`, `compound`). Raises OSError, `InputError`."""
    arrow, parquet = bench_library("pyarrow"), bench_library("pyarrow.parquet")
    text = arrow.string()
    atomic = arrow.struct([("name", text), ("instruction", text)])
    compound = arrow.struct([("compound_instruction", text)])
    schema = arrow.schema(
        [
            ("image", arrow.struct([("bytes", arrow.binary()), ("path", text)])),
            ("edit", arrow.struct([("sequence", arrow.list_(atomic)), ("compound", arrow.list_(compound))])),
        ],
        metadata={"huggingface": json.dumps({"info": {"features": _FEATURES}})},
    )

    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_replacement(path) as temporary, parquet.ParquetWriter(temporary, schema) as file:
        remaining = iter(rows)
        while group := [dict(row) for row in islice(remaining, _GROUP)]:
            file.write_table(arrow.Table.from_pylist(group, schema=schema))
    return path


SPLITS: Mapping[str, str] = {"test_real": "test/real", "test_syn": "test/syn"}
"""Split -> its folder, by the data set's card."""

METADATA = "metadata.jsonl"


def convert_imagefolder(published: Path, data: Path, on_message: Callable[[str], None]) -> list[Path]:
    """Write a parquet file per split, in `data/data`; existing files are kept. Raises `InputError`."""
    paths = []
    for split, folder in SPLITS.items():
        path = data / "data" / f"{split}-00000-of-00001.parquet"
        paths.append(path)
        if path.is_file():
            continue
        on_message(f"editcritic: converting {published / folder} to {path.name}")
        write_parquet(path, _rows(published / folder))
    return paths


def _rows(folder: Path) -> Iterator[Mapping[str, Any]]:
    metadata_files = sorted(folder.rglob(METADATA))
    if not metadata_files:
        contents = (
            ", ".join(sorted(path.name for path in folder.iterdir())[:6]) if folder.is_dir() else "no such folder"
        )
        raise InputError(
            f"{folder} has no {METADATA} ({contents}): load the data set with `datasets`, save it with save_to_disk, "
            "and give that folder to the suite"
        )
    rows = [(path, number, line) for path in metadata_files for number, line in _lines(path)]
    parsed = sorted((_row(path, number, line) for path, number, line in rows), key=lambda row: row[0].as_posix())
    for image_path, edit in parsed:  # sorted by name, as in `datasets`: outputs are matched by this order
        yield {"image": {"bytes": read_bytes(image_path, inside=folder), "path": image_path.name}, "edit": edit}


def _lines(path: Path) -> list[tuple[int, Any]]:
    try:
        return list(json_lines(path))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def _row(path: Path, number: int, row: Any) -> tuple[Path, Mapping[str, Any]]:
    try:
        if isinstance(row, ValueError):
            raise row
        image_path = path.parent.joinpath(*safe_path_parts(row["file_name"]))
        edit = parse_json(row["edit"]) if isinstance(row["edit"], str) else row["edit"]
        sequence = [
            {"name": entry.get("name") or "", "instruction": entry["instruction"]} for entry in edit["sequence"]
        ]
        compound = [{"compound_instruction": entry["compound_instruction"]} for entry in edit["compound"]]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path}:{number} is not a row with file_name, edit.sequence and edit.compound: {error}"
        ) from None
    if not image_path.is_file():
        raise InputError(f"{path}:{number} names {image_path.name}, which is missing: download the data set again")
    return image_path, {"sequence": sequence, "compound": compound}
