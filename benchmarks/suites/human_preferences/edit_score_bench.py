"""EditReward-Bench of EditScore (VectorSpaceLab, arXiv 2509.23909): pairs by task and dimension, the better edit first.

Rows of the hub, or a data set written by `save_to_disk`. Each edit has a key, by which it occurs in several pairs. The
set of the same name by TIGER-Lab is in `edit_reward_bench`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..split_files import find_split_files
from .comparison import Comparison, InvalidRow, Picture
from .fields import Row, RowError, comparisons, names, text

COLUMNS = ("key", "instruction", "input_image", "output_images", "task_type", "dimension")
DIMENSIONS = ("prompt_following", "consistency", "overall")


def read(folder: Path) -> Iterator[Comparison | InvalidRow]:
    """Raises `InputError` if there are no such files."""
    rows = find_split_files(folder, "train", COLUMNS, "EditScore's EditReward-Bench").rows(*COLUMNS)
    yield from comparisons(rows, lambda row, location: _of_row(row, folder))


def _of_row(row: Row, folder: Path) -> Comparison:
    better, worse = (str(key) for key in names(row, "key", range(2, 3)))
    pictures = names(row, "output_images", range(2, 3))
    dimension, task = text(row, "dimension"), text(row, "task_type")
    if better == worse:
        raise RowError(f"expected two keys, got {better!r:.40} twice")
    if dimension not in DIMENSIONS:
        raise RowError(f"expected {', '.join(DIMENSIONS)} in 'dimension', got {dimension!r:.40}")
    name = f"{dimension}/{task}/{better}/{worse}"
    return Comparison(
        id=name,
        group=name,
        instruction=text(row, "instruction"),
        sources=(Picture.of_cell(folder, row["input_image"]),),
        candidates={better: Picture.of_cell(folder, pictures[0]), worse: Picture.of_cell(folder, pictures[1])},
        preferences={(better, worse): 1},
        labels={"dimension": dimension, "task": task},
    )
