"""Complex-Edit as it lies on the hub, pictures beside a `metadata.jsonl` a split, as parquet files of the columns that
`datasets` shows: `image` and `edit`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..inputs import InputError
from .complex_edit_file import write_parquet
from .sources import inside

SPLITS: Mapping[str, str] = MappingProxyType({"test_real": "test/real", "test_syn": "test/syn"})
"""Split -> its folder, by the data set's card."""

METADATA = "metadata.jsonl"


def converted(published: Path, data: Path, tell: Callable[[str], None]) -> list[Path]:
    """A parquet file a split, in `data/data`; those that are there are left alone. Raises `InputError`."""
    places = []
    for split, folder in SPLITS.items():
        place = data / "data" / f"{split}-00000-of-00001.parquet"
        places.append(place)
        if place.is_file():
            continue
        tell(f"editcritic: making {place.name} of {published / folder}")
        write_parquet(place, _rows(published / folder))
    return places


def _rows(folder: Path) -> Iterator[Mapping[str, Any]]:
    found = sorted(folder.rglob(METADATA))
    if not found:
        there = ", ".join(sorted(path.name for path in folder.iterdir())[:6]) if folder.is_dir() else "no such folder"
        raise InputError(
            f"{folder} has no {METADATA} ({there}): load the data set with `datasets`, save it with save_to_disk, and "
            "give that folder to the suite"
        )
    rows = [(path, number, line) for path in found for number, line in enumerate(_lines(path), start=1) if line.strip()]
    read = sorted((_row(path, number, line) for path, number, line in rows), key=lambda row: row[0].as_posix())
    for place, edit in read:  # in the order of their names, as `datasets` has them, and outputs are matched
        yield {"image": {"bytes": place.read_bytes(), "path": place.name}, "edit": edit}


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def _row(path: Path, number: int, line: str) -> tuple[Path, Mapping[str, Any]]:
    try:
        row = json.loads(line)
        place = path.parent.joinpath(*inside(row["file_name"]))
        edit = json.loads(row["edit"]) if isinstance(row["edit"], str) else row["edit"]
        sequence = [{"name": one.get("name") or "", "instruction": one["instruction"]} for one in edit["sequence"]]
        compound = [{"compound_instruction": one["compound_instruction"]} for one in edit["compound"]]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path}:{number} is no row with file_name, edit.sequence and edit.compound: {error}"
        ) from None
    if not place.is_file():
        raise InputError(f"{path}:{number} names {place.name}, which is not there: download the data set again")
    return place, {"sequence": sequence, "compound": compound}
