"""GenAI-Bench (arXiv 2406.04485), the editing part: votes on pairs of edits, with ties that are both good or both bad.

Two layouts: the parquet files of the hub (configuration `image_edition`), and the JSON files of EditReward's repository
(`valid_set2_full.json` with ties, `valid_dataset_1.json` without), where equal scores of the two models are a tie.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...common.errors import InputError
from ..split_files import find_split_files
from .comparison import Comparison, InvalidRow, Picture
from .fields import Row, choice, comparisons, json_rows, number, numbered, text

SPLIT = "test_v1"
COLUMNS = ("instruct_prompt", "source_image", "left_output_image", "right_output_image", "vote_type")
JSON_FILES = ("valid_set2_full.json", "valid_dataset_1.json")
VOTES = {"leftvote": 1, "rightvote": -1, "tievote": 0, "bothbad_vote": 0}
"""What a vote says of the pair; the rules do not tell good ties from bad ones."""


def read(folder: Path) -> Iterator[Comparison | InvalidRow]:
    """Raises `InputError` if there are no such files."""
    if folder.suffix == ".json" and folder.is_file():
        yield from _read_json(folder)
    elif path := next((folder / name for name in JSON_FILES if (folder / name).is_file()), None):
        yield from _read_json(path)
    else:
        data = folder / "image_edition" if (folder / "image_edition").is_dir() else folder
        try:
            files = find_split_files(data, SPLIT, COLUMNS, "GenAI-Bench")
        except InputError as error:
            raise InputError(f"{error}; the other layout is one of {', '.join(JSON_FILES)}") from None
        yield from comparisons(numbered(files.rows(*COLUMNS)), lambda row, location: _of_hub(row, data))


def _of_hub(row: Row, folder: Path) -> Comparison:
    return Comparison(
        id=str(row["number"]),
        group=str(row["number"]),
        instruction=text(row, "instruct_prompt"),
        sources=(Picture.of_cell(folder, row["source_image"]),),
        candidates={
            "left": Picture.of_cell(folder, row["left_output_image"]),
            "right": Picture.of_cell(folder, row["right_output_image"]),
        },
        preferences={("left", "right"): choice(row, "vote_type", VOTES)},
    )


def _read_json(path: Path) -> Iterator[Comparison | InvalidRow]:
    yield from comparisons(numbered(json_rows(path)), lambda row, location: _of_json(row, path.parent))


def _of_json(row: Row, folder: Path) -> Comparison:
    difference = number(row, "model1_dim1_score") - number(row, "model2_dim1_score")
    return Comparison(
        id=str(row["number"]),
        group=str(row["number"]),
        instruction=text(row, "prompt"),
        sources=(Picture.of_file(folder, row.get("path_src")),),
        candidates={
            "left": Picture.of_file(folder, row.get("path1")),
            "right": Picture.of_file(folder, row.get("path2")),
        },
        preferences={("left", "right"): (difference > 0) - (difference < 0)},
    )
