"""Complex-Edit's published layout, written small by `datasets`: the library that the authors' files come from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from editcritic.reward import Image

from ..tiny_suite import picture

if TYPE_CHECKING:
    from datasets import Dataset

ROWS = 4
LEVELS = 8
_NAMES = ("Add an Object", "Change Color", "Remove an Object", "Add Lighting")


def instruction(row: int, place: int) -> str:
    return f"Edit number {place} of picture {row}"


def compound(row: int, level: int) -> str:
    return " and ".join(instruction(row, place) for place in range(level))


def edit(row: int, levels: int = LEVELS) -> dict[str, Any]:
    return {
        "sequence": [
            {"name": _NAMES[place % len(_NAMES)], "instruction": instruction(row, place)} for place in range(levels)
        ],
        "compound": [
            {"reasoning": "why", "compound_instruction": compound(row, level)} for level in range(1, levels + 1)
        ],
    }


def saved(rows: int = ROWS, *, first: int = 0, levels: int = LEVELS) -> Dataset:
    """Rows as published; pictures are PNG bytes in a struct."""
    import datasets

    datasets.disable_progress_bars()
    columns = {
        "image": [picture(row).pil() for row in range(first, first + rows)],
        "edit": [edit(row, levels) for row in range(first, first + rows)],
    }
    dataset = datasets.Dataset.from_dict(columns)
    return dataset.cast_column("image", datasets.Image())


def on_hub(folder: Path) -> Path:
    """As a clone of the repository: `data/<split>-00000-of-00002.parquet`."""
    (folder / "data").mkdir(parents=True)
    for split, start in (("test_real", 0), ("test_syn", 100)):
        for part in range(2):
            name = f"{split}-{part:05}-of-00002.parquet"
            saved(ROWS // 2, first=start + part * ROWS // 2).to_parquet(folder / "data" / name)
    return folder


def edited(row: int, level: int) -> Image:
    return picture(1000, row, level)


def outputs(folder: Path, levels: range = range(1, LEVELS + 1), *, flat: bool = False) -> Path:
    for level in levels:
        place = folder if flat else folder / f"C{level}"
        place.mkdir(parents=True, exist_ok=True)
        for row in range(ROWS):
            edited(row, level).pil().save(place / f"{row:04}.png")
    return folder
