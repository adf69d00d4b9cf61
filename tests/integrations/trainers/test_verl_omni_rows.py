"""Source pictures added to parquet files of verl-omni's recipe, and scored against."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from editcritic.integrations.trainers.verl_omni import SourcePictures
from editcritic.integrations.trainers.verl_omni_rows import add_sources
from editcritic.reward import Image

from ...reward.fakes import picture
from .restated.verl_omni import prepared_rows
from .trainer_cases import documented

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def rows(tmp_path: Path) -> list[dict[str, Any]]:
    (tmp_path / "images").mkdir()
    lines = []
    for number in range(10):
        picture(number, 20, 12).pil().save(tmp_path / "images" / f"{number}.png")
        lines.append(json.dumps({"prompt": f"make it {number}", "image": f"{number}.png"}))
    (tmp_path / "train.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return prepared_rows(tmp_path, "train", 16)


def written(rows: list[dict[str, Any]], path: Path, **options: Any) -> Path:
    parquet.write_table(arrow.Table.from_pylist(rows), path, **options)
    return path


def test_each_row_gets_the_picture_that_its_editor_sees_and_keeps_the_rest(rows, tmp_path):
    source = written(rows, tmp_path / "train.parquet", row_group_size=4)
    assert add_sources(source, tmp_path / "out.parquet") == 10
    with parquet.ParquetFile(tmp_path / "out.parquet") as file:
        assert file.num_row_groups == 3
        found = file.read().to_pylist()
    for before, after in zip(rows, found, strict=True):
        (source_image,) = SourcePictures().of(after["extra_info"], picture(0))
        assert source_image == Image.of(before["images"][0]["bytes"])
        assert after["extra_info"].pop("source_img") == before["images"]
        assert after == before


def test_the_documented_command_writes_a_file_that_pandas_and_datasets_read(rows, tmp_path):
    pandas, datasets = pytest.importorskip("pandas"), pytest.importorskip("datasets")
    frame = pandas.DataFrame(rows)
    frame.to_parquet(tmp_path / "train.parquet", row_group_size=500)  # as the recipe does
    (command,) = [block for block in documented("verl-omni", "text") if "verl_omni_rows" in block]
    done = run(shlex.split(command)[1:], tmp_path)
    assert (done.returncode, done.stdout) == (0, "train-with-sources.parquet: 10 rows with source_img\n"), done.stderr
    path = tmp_path / "train-with-sources.parquet"
    loaded = datasets.load_dataset("parquet", data_files=str(path), cache_dir=str(tmp_path / "cache"))["train"]
    for info in (pandas.read_parquet(path)["extra_info"][7], loaded[7]["extra_info"]):
        assert SourcePictures().of(info, picture(0)) == [Image.of(rows[7]["images"][0]["bytes"])]


def run(arguments: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_schema_of_datasets_that_would_not_know_the_field_is_left_out(rows, tmp_path):
    table = arrow.Table.from_pylist(rows).replace_schema_metadata({"huggingface": "{}", "kept": "yes"})
    parquet.write_table(table, tmp_path / "train.parquet")
    add_sources(tmp_path / "train.parquet", tmp_path / "out.parquet")
    assert parquet.read_schema(tmp_path / "out.parquet").metadata == {b"kept": b"yes"}


@pytest.mark.parametrize(
    ("changed", "changes", "message"),
    [
        ([3], {"images": []}, "row group 0: row 3 has no picture with bytes in images"),
        ([3], {"images": [{"bytes": None}]}, "row group 0: row has no picture with bytes in images"),
        ([3], {"extra_info": None}, "row group 0 has rows without extra_info"),
        (range(10), {"extra_info": {"source_img": [{"bytes": b"x"}]}}, "has extra_info.source_img already"),
        (range(10), {"images": ["a.png"]}, "images must be lists of tables with the field bytes, got list<.*string"),
        (range(10), {}, "expected the columns images and extra_info .*, got data_source, prompt"),
    ],
)
def test_another_layout_is_refused_and_nothing_is_left(rows, tmp_path, changed, changes, message):
    for row in changed:
        rows[row].update(changes)
        if not changes:
            del rows[row]["images"]
    source = written(rows, tmp_path / "train.parquet")
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(ValueError, match=message):
        add_sources(source, tmp_path / "out.parquet")
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_file_that_is_none_or_stands_in_the_way_is_one_line(rows, tmp_path):
    written(rows, tmp_path / "train.parquet")
    (tmp_path / "damaged.parquet").write_bytes((tmp_path / "train.parquet").read_bytes()[:-100])
    module = ["-m", "editcritic.integrations.trainers.verl_omni_rows"]
    for arguments, message in (
        (["damaged.parquet", "out.parquet"], "error: cannot read damaged.parquet as parquet"),
        (["missing.parquet", "out.parquet"], "error: [Errno 2] No such file or directory"),
        (["train.parquet", "train.parquet"], "error: train.parquet exists: give another file"),
    ):
        done = run([*module, *arguments], tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(message)
        assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out.parquet").exists()
