"""Parquet files as pandas and datasets write them, and the recipe of verl-omni."""

import json
from pathlib import Path
from typing import Any

import pytest

from editcritic.integrations.row_check import TRAINER_LAYOUTS, CheckOptions, RowFile, RowsReport, check_rows

from .test_row_checker import encoded, jsonl

FIELDS: list[dict[str, Any]] = [
    {"boxes": {"cup": [[0, 0, 9, 9]]}, "operations": [{"instruction": "Make it red"}]},
    {"boxes": {"dog": [[1, 1, 9, 9]]}, "task": {"type": "color_alter", "object": "dog", "value": "red"}},
    {"hint": "red"},
]


def check(path: Path, trainer: str) -> RowsReport:
    return check_rows(RowFile(path), TRAINER_LAYOUTS[trainer], CheckOptions())


def trl_rows() -> list[dict[str, Any]]:
    return [
        {"id": number, "instruction": "Make the dog red", "source": {"bytes": encoded(number), "path": None}} | fields
        for number, fields in enumerate(FIELDS)
    ]


@pytest.mark.parametrize("feature", ["images", "text"])
def test_datasets_writes_rows_of_trl(feature: str, tmp_path: Path) -> None:
    import datasets

    rows = trl_rows()
    if feature == "text":
        fields = [{name: json.dumps(value) for name, value in table.items() if name != "hint"} for table in FIELDS]
        rows = [{**row, **texts} for row, texts in zip(rows, fields, strict=True)]
    written = datasets.Dataset.from_list(rows)
    if feature == "images":
        written = written.cast_column("source", datasets.Image())
    written.to_parquet(str(tmp_path / "train.parquet"))
    report = check(tmp_path / "train.parquet", "trl")
    assert report.findings == ()
    assert report.is_usable


def test_what_datasets_makes_of_jsonl_is_usable_as_parquet(tmp_path: Path) -> None:
    """Names that differ from line to line are one type in Arrow, or text."""
    import datasets

    rows = [{"prompt": f"Make it {n}", "image": "0.png", "editcritic": table} for n, table in enumerate(FIELDS)]
    path = jsonl(tmp_path / "train.jsonl", rows)
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "0.png").write_bytes(encoded(0))
    loaded = datasets.Dataset.from_json(str(path), cache_dir=str(tmp_path))
    loaded.to_parquet(str(tmp_path / "train.parquet"))
    for name in ("train.jsonl", "train.parquet"):
        report = check(tmp_path / name, "flow-factory")
        assert report.rows == report.groups == 3
        assert {one.kind for one in report.findings} == {"pixel boxes"}
