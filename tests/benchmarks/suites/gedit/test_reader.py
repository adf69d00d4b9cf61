"""GEdit-Bench's data: every published layout gives the same rows; what cannot be read is named."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.common.optional_imports import bench_library
from editcritic.benchmarks.suites import split_files
from editcritic.benchmarks.suites.gedit.suite import GEditBench
from editcritic.reward.sample import MAX_INSTRUCTION

from .layout import instruction, on_hub, parquet, row, rows, source

KIND = "subject-add"


def one_file(folder: Path, written: Sequence[Mapping[str, Any]]) -> Path:
    return parquet(folder / "any.parquet", written)


def flat(folder: Path, written: Sequence[Mapping[str, Any]]) -> Path:
    parquet(folder / "flat" / "train-00000-of-00001.parquet", written)
    return folder / "flat"


def converted_by_the_hub(folder: Path, written: Sequence[Mapping[str, Any]]) -> Path:
    half = len(written) // 2
    for part, part_rows in enumerate((written[:half], written[half:])):
        parquet(folder / "converted" / "default" / "train" / f"{part:04}.parquet", part_rows)
    return folder / "converted"


def saved_to_disk(folder: Path, written: Sequence[Mapping[str, Any]]) -> Path:
    """As published: Arrow streams, with `state.json` beside them."""
    arrow = bench_library("pyarrow")
    (folder / "saved").mkdir()
    half = len(written) // 2
    names = [f"data-{part:05}-of-00002.arrow" for part in range(2)]
    for name, part_rows in zip(names, (written[:half], written[half:]), strict=True):
        table = arrow.Table.from_pylist(list(part_rows))
        with arrow.OSFile(str(folder / "saved" / name), "wb") as sink, arrow.ipc.new_stream(sink, table.schema) as out:
            out.write_table(table)
    state = {"_data_files": [{"filename": name} for name in names], "_split": "train"}
    (folder / "saved" / "state.json").write_text(json.dumps(state))
    return folder / "saved"


@pytest.mark.parametrize("write", [on_hub, one_file, flat, converted_by_the_hub, saved_to_disk])
def test_every_layout_gives_the_same_items(tmp_path: Path, write: Callable[[Path, Any], Path]) -> None:
    suite = GEditBench(write(tmp_path, rows([KIND, "text_change"])))
    assert not suite.problems
    assert [item.id for item in suite.items] == [
        f"{language}.{kind}.{key}"
        for kind, keys in (
            (KIND, ("0600aa", "0601aa", "0602aa", "0603aa")),
            ("text_change", ("0900aa", "0901aa", "0902aa", "0903aa")),
        )
        for key in keys
        for language in ("en", "cn")
    ]
    item = suite.by_id[f"cn.{KIND}.0601aa"]
    assert item.output_path == f"fullset/{KIND}/cn/0601aa"
    assert item.labels == {"type": KIND, "language": "cn", "intersection": 1}
    assert item.sample.instruction == instruction(KIND, 1, "cn")
    assert item.sample.source == source(KIND, 1)
    assert item.case == f"en.{KIND}.0601aa", "both languages of a source are one case"
    assert suite.digest == GEditBench(on_hub(tmp_path / "again", rows([KIND, "text_change"]))).digest


def test_a_language_or_other_pictures_are_chosen(tmp_path: Path) -> None:
    data = one_file(tmp_path, rows([KIND]))
    suite = GEditBench(data, language="cn")
    assert {item.labels["language"] for item in suite.items} == {"cn"}
    raw = GEditBench(data, sources="input_image_raw")
    assert raw.items[0].sample.source != suite.items[0].sample.source
    assert len({one.digest for one in (suite, raw, GEditBench(data))}) == 3
    assert raw.options == {"language": "both", "sources": "input_image_raw"}


_ODD: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "type": ({"task_type": "magic"}, "expected 'background_change' or .* in 'task_type', got 'magic'"),
    "language": ({"instruction_language": "zh"}, "expected 'en' or 'cn' in 'instruction_language', got 'zh'"),
    "path": ({"key": "../x"}, "'../x' is not a file name"),
    "folder": ({"key": "a/b"}, "'a/b' is not a file name"),
    "dots": ({"key": ".."}, r"'\.\.' is not a file name"),
    "control": ({"key": "a\x1b[2J"}, r"control character U\+001B"),
    "long": ({"key": "k" * 500}, "is not a file name"),
    "no key": ({"key": ""}, "expected text in 'key', got ''"),
    "silent": ({"instruction": " "}, "expected text in 'instruction', got ' '"),
    "picture": ({"input_image": {"bytes": b"none", "path": ""}}, "input_image: encoded image is not an image"),
    "elsewhere": ({"input_image": {"bytes": None, "path": "../secret.png"}}, "input_image: .*leads out of"),
    "again": ({"key": "0600aa"}, "the id 'en.subject-add.0600aa' is also that of .*row 0: make it unique"),
    "talkative": ({"instruction": "x" * (MAX_INSTRUCTION + 1)}, "instruction"),
}


@pytest.mark.parametrize("name", _ODD)
def test_a_row_that_cannot_be_used_is_named_and_the_others_are_there(tmp_path: Path, name: str) -> None:
    change, message = _ODD[name]
    (tmp_path / "data").mkdir()
    suite = GEditBench(one_file(tmp_path / "data", [row(KIND, 0, "en"), {**row(KIND, 1, "en"), **change}]))
    assert [item.id for item in suite.items] == [f"en.{KIND}.0600aa"]
    (problem,) = map(str, suite.problems)
    assert re.search(message, problem), problem
    assert len(problem) < 600


def test_a_text_of_many_megabytes_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_files, "MAX_CELL_BYTES", 20_000)
    written = [row(KIND, 0, "en"), {**row(KIND, 1, "en"), "instruction": "x" * 30_000}]
    suite = GEditBench(one_file(tmp_path, written))
    assert [item.id for item in suite.items] == [f"en.{KIND}.0600aa"]
    assert re.search(r"instruction has 30,0\d\d bytes, more than .*: it is not read", str(suite.problems[0]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"language": "zh"}, "gedit has no language 'zh': expected one of en, cn, both"),
        ({"sources": "image"}, "gedit has no column of sources 'image': expected one of input_image, input_image_raw"),
        ({"prompts": "/nowhere"}, "prompt pack '/nowhere' is not a folder"),
    ],
)
def test_options_that_mean_nothing_are_refused_with_what_does(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        GEditBench(one_file(tmp_path, rows([KIND])), **options)


def test_data_that_cannot_be_used_at_all_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="GEdit-Bench's parquet files"):
        GEditBench(tmp_path / "nothing")
    without = [{name: cell for name, cell in one.items() if name != "key"} for one in rows([KIND])]
    with pytest.raises(InputError, match="lacks the columns key: expected task_type, key, instruction"):
        GEditBench(parquet(tmp_path / "a.parquet", without))
    english = [one for one in rows([KIND]) if one["instruction_language"] == "en"]
    with pytest.raises(InputError, match="has no usable rows in Chinese: it has none"):
        GEditBench(parquet(tmp_path / "b.parquet", english), language="cn")
