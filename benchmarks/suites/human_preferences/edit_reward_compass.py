"""EditReward-Compass (arXiv 2605.13062): pairs with a winner, or of equal quality, by dimension.

The layout is that of the released evaluation: a JSON file of rows that name their pictures.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...common.errors import InputError
from .comparison import Comparison, InvalidRow, Picture
from .fields import Row, choice, comparisons, json_rows, numbered, text

FILE = "reward_eval.json"
LABELS = {"preference": 1, "tie": 0}


def read(folder: Path) -> Iterator[Comparison | InvalidRow]:
    """folder: the file, or its folder. Raises `InputError` if there is no such file."""
    path = folder
    if folder.is_dir():
        found = [folder / FILE] if (folder / FILE).is_file() else sorted(folder.glob("*.json"))
        if len(found) != 1:
            listed = ", ".join(file.name for file in found[:6]) or "no JSON file"
            raise InputError(f"{folder} has {listed}: expected {FILE}, or give the file itself")
        path = found[0]
    yield from comparisons(numbered(json_rows(path)), lambda row, location: _of_row(row, path.parent))


def _of_row(row: Row, folder: Path) -> Comparison:
    sources = row.get("source_image")
    return Comparison(
        id=str(row["number"]),
        group=str(row["number"]),
        instruction=text(row, "prompt"),
        sources=tuple(
            Picture.of_file(folder, name) for name in (sources if isinstance(sources, list) and sources else [sources])
        ),
        candidates={
            "winner": Picture.of_file(folder, row.get("winner")),
            "loser": Picture.of_file(folder, row.get("loser")),
        },
        preferences={("winner", "loser"): choice(row, "label", LABELS)},
        labels={"dimension": text(row, "dimension")},
    )
