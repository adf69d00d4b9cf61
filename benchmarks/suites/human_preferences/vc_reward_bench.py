"""VCReward-Bench (GEditBench v2, arXiv 2603.28547): pairs judged by experts for visual consistency, by task."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..split_files import find_split_files
from .comparison import Comparison, InvalidRow, Picture
from .fields import Row, choice, comparisons, names, text

COLUMNS = ("key", "instruction", "source_image", "edited_images", "winner", "task")
WINNERS = {"Image A": 1, "Image B": -1, "Tie": 0}


def read(folder: Path) -> Iterator[Comparison | InvalidRow]:
    """Raises `InputError` if there are no such files."""
    rows = find_split_files(folder, "train", COLUMNS, "VCReward-Bench").rows(*COLUMNS)
    yield from comparisons(rows, lambda row, location: _of_row(row, folder))


def _of_row(row: Row, folder: Path) -> Comparison:
    pictures = (Picture.of_cell(folder, picture) for picture in names(row, "edited_images", range(2, 3)))
    key = text(row, "key")
    return Comparison(
        id=key,
        group=key,
        instruction=text(row, "instruction"),
        sources=(Picture.of_cell(folder, row["source_image"]),),
        candidates=dict(zip("AB", pictures, strict=True)),
        preferences={("A", "B"): choice(row, "winner", WINNERS)},
        labels={"task": text(row, "task")},
    )
