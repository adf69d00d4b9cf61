"""Layout of outputs: a folder per level, `C1` to `C8`; a flat folder if only one level is used."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from ...common.errors import InputError
from ...common.inputs import list_images


def level_folder(outputs: Path, level: int, *, alone: bool) -> Path:
    """The folder of a level. alone: it is the only level, so its images may be in `outputs` itself."""
    folder = outputs / f"C{level}"
    return outputs if alone and not folder.is_dir() else folder


def images_by_row(folder: Path, rows: int) -> Mapping[int, Path]:
    """Row -> image file, of a folder that is read again after changes.

    Images named by row numbers (`0000.png`) belong to these rows, all or some. With other names there has to be one for
    each row, in the order of names; else `InputError`.
    """
    return _by_number(folder, rows, folder.stat().st_mtime_ns) if folder.is_dir() else {}


@lru_cache(maxsize=64)
def _by_number(folder: Path, rows: int, changed: int) -> Mapping[int, Path]:
    paths = list_images(folder)
    numbers = [int(path.stem) if path.stem.isascii() and path.stem.isdecimal() else -1 for path in paths]
    if all(0 <= number < rows for number in numbers):
        repeated = sorted({number for number in numbers if numbers.count(number) > 1})
        if repeated:
            raise InputError(f"{folder} has several images of row {repeated[0]}: keep one of them")
        return dict(zip(numbers, paths, strict=True))
    if len(paths) != rows:
        unnumbered = next(path.name for path, number in zip(paths, numbers, strict=True) if not 0 <= number < rows)
        raise InputError(
            f"{folder} contains {len(paths)} images for {rows} rows, and {unnumbered} is not named after a row: give "
            f"one for each row in the order of the rows, or name them 0000 to {rows - 1:04}"
        )
    if min(numbers) >= 0:  # numbers without leading zeros do not sort as names
        paths = [path for _, path in sorted(zip(numbers, paths, strict=True))]
    return dict(enumerate(paths))
