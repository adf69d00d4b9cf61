"""GEdit-Bench's official result files: a CSV file of scores per type, of which the released code makes its statistics.

`eval_results_new/{editor}_{task_type}_gpt_score.csv` and, of all types, `..._combined_gpt_score.csv`. As in the
released code, edits without an output or without a score have no line. Paths are relative to the folder of outputs. The
released `calculate_statistics.py` computes the English averages from them. For Chinese it selects the rows with the
language `zh`, which neither these files nor the released ones have: they say `cn`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ....reward.atomic_files import write_atomically
from ...common.csv_text import csv_text
from ..results import ResultRow, Results
from .reader import TYPES

COLUMNS = (
    "source_image",
    "edited_image",
    "instruction",
    "sementics_score",
    "quality_score",
    "intersection_exist",
    "instruction_language",
)
"""As the released code spells them."""

FOLDER = "eval_results_new"


def write_official_files(results: Results, paths: Mapping[str, str], folder: Path) -> list[Path]:
    """Write the files under `folder` and return their paths. paths: item -> path of its output, without suffix."""
    into = folder / FOLDER
    into.mkdir(parents=True, exist_ok=True)
    editor = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in results.editor).strip(".")
    lines = {kind: _lines(results.rows, paths, kind) for kind in TYPES}
    lines["combined"] = [line for kind_lines in lines.values() for line in kind_lines]
    written = []
    for name, name_lines in lines.items():
        path = into / f"{editor or 'editor'}_{name}_gpt_score.csv"
        write_atomically(path, csv_text([COLUMNS, *name_lines]))
        written.append(path)
    return written


def _lines(rows: Sequence[ResultRow], paths: Mapping[str, str], kind: str) -> list[list[object]]:
    lines: list[list[object]] = []
    for row in rows:
        sc, pq = row.score("sc"), row.score("pq")
        if row.labels.get("type") != kind or sc is None or pq is None or sc.value is None or pq.value is None:
            continue
        path = paths[row.id]
        lines.append(
            [
                f"{path}_SRCIMG.png",
                f"{path}.png",
                row.instruction,
                sc.value,
                pq.value,
                bool(row.labels["intersection"]),
                row.labels["language"],
            ]
        )
    return lines
