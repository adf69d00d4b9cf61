"""Complex-Edit's rows: a picture, its atomic instructions, and the compound instruction of each level C1 to C8."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....reward import Image, ImageError
from ....reward.sample import Operation
from ...digests import sha256
from ...inputs import InputError
from ..suite import Problem
from ..unpacking import unpacked
from .files import Tables

_INDEX = "pictures.json"


@dataclass(frozen=True, slots=True)
class Edit:
    """A row. number: in the split, from 0; outputs are matched by it. sequence: the atomic instructions, in order.

    compounds: the instruction of level c at c - 1, which asks for the first c of the sequence.
    """

    number: int
    image: Image
    sequence: tuple[Operation, ...]
    compounds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Split:
    """edits: of the rows that can be read. rows: how many there are. problems: what is wrong with the others."""

    edits: Sequence[Edit]
    rows: int
    problems: Sequence[Problem]


def read_split(tables: Tables) -> Split:
    """All rows of a split; pictures are unpacked once (see `unpacking.py`) and looked at when they are needed.

    Raises `InputError` where a file cannot be read, or there is no row.
    """
    try:
        folder = unpacked("complex-edit", _key(tables), lambda into: _unpack(tables, into))
        index = (folder / _INDEX).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"the pictures of {tables.files[0].parent} cannot be unpacked: {error}") from None
    try:
        pictures = json.loads(index)
    except ValueError as error:
        raise InputError(f"{folder} has been changed: delete it, and it is made anew ({error})") from None
    problems: list[Problem] = []
    edits: list[Edit] = []
    for number, (where, row) in enumerate(tables.rows("edit")):
        before = len(problems)
        picture = pictures[number]
        if "problem" in picture:
            problems.append(Problem(f"{where}, image", picture["problem"]))
        edit = _plain(row["edit"])
        sequence = tuple(
            Operation(
                _text(one, "instruction", f"{where}, edit.sequence[{place}]", problems), str(one.get("name") or "")
            )
            for place, one in _records(edit, "sequence", where, problems)
        )
        compounds = tuple(
            _text(one, "compound_instruction", f"{where}, edit.compound[{place}]", problems)
            for place, one in _records(edit, "compound", where, problems)
        )
        if len(problems) == before:
            image = Image(tuple(picture["size"]), digest=picture["digest"], path=folder / _name(number))
            edits.append(Edit(number, image, sequence, compounds))
    if not pictures:
        raise InputError(f"{', '.join(map(str, tables.files))}: there are no rows")
    return Split(edits, len(pictures), problems)


# -- instructions -----------------------------------------------------------------------------------------------------


def _plain(edit: Any) -> Any:
    """A struct; some exports have it as JSON."""
    if isinstance(edit, str):
        try:
            return json.loads(edit)
        except ValueError:
            return None
    return edit


def _records(edit: Any, name: str, where: str, problems: list[Problem]) -> list[tuple[int, Mapping[str, Any]]]:
    """The list of that name with its places; a struct of lists, as older versions of `datasets` write it, likewise."""
    found = edit.get(name) if isinstance(edit, Mapping) else None
    if isinstance(found, Mapping) and all(isinstance(values, list) for values in found.values()):
        found = [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=False)]
    if not isinstance(found, list) or not found or not all(isinstance(one, Mapping) for one in found):
        problems.append(Problem(f"{where}, edit.{name}", f"expected a list of structs, got {str(found)[:80]}"))
        return []
    return list(enumerate(found))


def _text(record: Mapping[str, Any], name: str, where: str, problems: list[Problem]) -> str:
    found = record.get(name)
    if isinstance(found, str) and found.strip():
        return found.strip()
    problems.append(Problem(f"{where}.{name}", f"expected an instruction, got {found!r}"))
    return ""


# -- pictures ---------------------------------------------------------------------------------------------------------


def _key(tables: Tables) -> str:
    """Of what the files hold, wherever they lie."""
    state = hashlib.sha256()
    for path in tables.files:
        state.update(bytes.fromhex(sha256(path)))
    return state.hexdigest()


def _name(number: int) -> str:
    return f"{number:05}"


def _unpack(tables: Tables, folder: Path) -> None:
    """A file a picture as it was encoded, and an index that spares decoding them all the next time."""
    index: list[dict[str, Any]] = []
    for number, (_, row) in enumerate(tables.rows("image")):
        try:
            data = _encoded(row["image"], tables.files[0].parent)
            image = Image.of(data)
            (folder / _name(number)).write_bytes(data)
            index.append({"size": list(image.size), "digest": image.digest})
        except ImageError as error:
            index.append({"problem": str(error)})
    (folder / _INDEX).write_text(json.dumps(index), encoding="utf-8")


def _encoded(value: Any, folder: Path) -> bytes:
    """The bytes of a picture: as they are, in a struct, or in a file that it names. Raises `ImageError`."""
    if isinstance(value, Mapping):
        if value.get("bytes"):
            return bytes(value["bytes"])
        path = folder / str(value.get("path") or "")
        if path.is_file():
            return path.read_bytes()
        raise ImageError(f"expected the picture's bytes, got none, and no file {value.get('path')!r}")
    if isinstance(value, bytes) and value:
        return value
    raise ImageError(f"expected a picture (a struct with bytes), got {type(value).__name__}")
