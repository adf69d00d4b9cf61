"""Complex-Edit's rows: an image, its atomic instructions, and the compound instruction of each level C1 to C8."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....reward import Image, ImageError
from ....reward.file_digest import sha256
from ....reward.image_decoding import read_bytes
from ....reward.sample import Operation
from ....reward.strict_json import parse_json
from ...common.errors import InputError
from ...common.problems import Problems
from ..construction.zip_extraction import most_extracted
from ..extraction_cache import extracted_folder
from ..split_files import LargeCell, SplitFiles, find_split_files
from ..suite import DataProblem

_INDEX = "images.json"
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
    """All rows of a split; images are extracted once (see `extraction_cache`) and decoded on demand.

    Raises `InputError` if a file cannot be read, or there are no rows.
    """
    try:
        folder = extracted_folder("complex-edit", _key(tables), lambda into: _unpack(tables, into))
        index_text = (folder / _INDEX).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"the images of {tables.files[0].parent} cannot be extracted: {error}") from None
    try:
        images = json.loads(index_text)
    except ValueError as error:
        raise InputError(f"{folder} is damaged: delete it, and it is extracted again ({error})") from None
    problems = Problems[DataProblem]()
    edits: list[ComplexEditRow] = []
    for number, (where, row) in enumerate(tables.rows("edit")):
        num_problems = problems.total
        image_entry = images[number]
        if "problem" in image_entry:
            problems.append(DataProblem(f"{where}, image", image_entry["problem"]))
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
        if problems.total == num_problems:
            image = Image(tuple(image_entry["size"]), digest=image_entry["digest"], path=folder / _name(number))
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


# -- images -----------------------------------------------------------------------------------------------------------


def _key(tables: SplitFiles) -> str:
    """Digest of the files' content, independent of paths."""
    state = hashlib.sha256()
    for path in tables.files:
        state.update(bytes.fromhex(sha256(path)))
    return state.hexdigest()


def _name(number: int) -> str:
    return f"{number:05}"


def _unpack(tables: SplitFiles, folder: Path) -> None:
    """Extract the encoded images to files, with an index of sizes and digests that saves decoding later."""
    index: list[dict[str, Any]] = []
    limit = remaining = most_extracted(sum(path.stat().st_size for path in tables.files))
    for number, (_, row) in enumerate(tables.rows("image")):
        try:
            data = _encoded(row["image"], tables.folder)
            image = Image.of(data)
            remaining -= len(data)
            if remaining < 0:
                raise InputError(f"{tables.folder} holds pictures of more than {limit:,} bytes: extract it by hand")
            (folder / _name(number)).write_bytes(data)
            index.append({"size": list(image.size), "digest": image.digest})
        except ImageError as error:
            index.append({"problem": str(error)})
    (folder / _INDEX).write_text(json.dumps(index), encoding="utf-8")


def _encoded(value: Any, folder: Path) -> bytes:
    """The bytes of an image: direct, in a struct, or in a file named by the struct. Raises `ImageError`."""
    if isinstance(value, Mapping):
        if value.get("bytes"):
            return bytes(value["bytes"])
        if name := value.get("path"):
            return read_bytes(folder / str(name), inside=folder)
        raise ImageError("expected the image's bytes or the name of its file, got neither")
    if isinstance(value, LargeCell):
        raise ImageError(f"the image is not read: it has {value}")
    if isinstance(value, bytes) and value:
        return value
    raise ImageError(f"expected an image (a struct with bytes), got {type(value).__name__}")
