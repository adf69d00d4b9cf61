"""Where an editor's pictures lie: a folder a level, `C1` to `C8`; one flat folder where one level is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from ...inputs import InputError, pictures_in


def level_folder(outputs: Path, level: int, *, alone: bool) -> Path:
    """The folder of a level. alone: no other level is asked for, so that its pictures may lie in `outputs` itself."""
    folder = outputs / f"C{level}"
    return outputs if alone and not folder.is_dir() else folder


def by_number(folder: Path, rows: int) -> Mapping[int, Path]:
    """Row -> picture, of a folder that is read anew when it has changed.

    Pictures whose names are numbers of rows (`0000.png`) are those rows', all of them or some. Under other names there
    has to be one for each row, in the order of their names: else `InputError`.
    """
    return _by_number(folder, rows, folder.stat().st_mtime_ns) if folder.is_dir() else {}


@lru_cache(maxsize=64)
def _by_number(folder: Path, rows: int, changed: int) -> Mapping[int, Path]:
    found = pictures_in(folder)
    numbers = [int(path.stem) if path.stem.isascii() and path.stem.isdecimal() else -1 for path in found]
    if all(0 <= number < rows for number in numbers):
        twice = sorted({number for number in numbers if numbers.count(number) > 1})
        if twice:
            raise InputError(f"{folder} has several pictures of row {twice[0]}: leave one of them")
        return dict(zip(numbers, found, strict=True))
    if len(found) != rows:
        named = next(path.name for path, number in zip(found, numbers, strict=True) if not 0 <= number < rows)
        raise InputError(
            f"{folder} holds {len(found)} pictures for {rows} rows, and {named} is not named after a row: give one for "
            f"each row in the order of the rows, or name them 0000 to {rows - 1:04}"
        )
    if min(numbers) >= 0:  # numbers without leading zeros do not sort as names
        found = [path for _, path in sorted(zip(numbers, found, strict=True))]
    return dict(enumerate(found))
