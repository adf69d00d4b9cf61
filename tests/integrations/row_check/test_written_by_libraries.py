"""Parquet files as pandas and datasets write them, and the recipe of verl-omni."""

import json
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pytest

from editcritic.integrations.row_check import TRAINER_LAYOUTS, CheckOptions, RowFile, RowsReport, check_rows

from .test_row_checker import encoded, found, jsonl, verl_rows

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


def test_pandas_writes_the_recipe_of_verl_omni(tmp_path: Path) -> None:
    rows = verl_rows(source_img=encoded, editcritic=lambda number: FIELDS[number])
    pd.DataFrame(rows).to_parquet(tmp_path / "train.parquet", row_group_size=2)
    report = check(tmp_path / "train.parquet", "verl-omni")
    assert found(report) == {"pixel boxes": ("note", [0, 1])}
    assert (report.rows, report.groups) == (3, 3)


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


def test_a_field_that_one_row_has_wrong_is_wrong_in_that_row_only(tmp_path: Path) -> None:
    import datasets

    rows = [
        {**row, "editcritic": table} for row, table in zip(trl_rows(), [{"hnt": "a"}, {"hint": "b"}, None], strict=True)
    ]
    rows = [{name: row[name] for name in ("instruction", "source", "editcritic")} for row in rows]
    datasets.Dataset.from_list(rows).to_parquet(str(tmp_path / "train.parquet"))
    assert found(check(tmp_path / "train.parquet", "trl")) == {"fields": ("ends the run", [0])}
