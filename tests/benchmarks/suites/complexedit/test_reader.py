"""Complex-Edit's files: parquet shards as on the hub, saved data sets, and problems of invalid ones."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

import editcritic.reward.image as image_module
from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.common.optional_imports import bench_library
from editcritic.benchmarks.suites import split_files
from editcritic.benchmarks.suites.complexedit.reader import read_split
from editcritic.reward import ImageError

from ..gedit.layout import parquet
from ..tiny_suite import picture
from .layout import ROWS, compound, edit, instruction, on_hub, saved


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def one_parquet(folder: Path) -> Path:
    saved().to_parquet(folder / "real.parquet")
    return folder / "real.parquet"


def on_disk(folder: Path) -> Path:
    saved().save_to_disk(folder / "saved", num_shards=2)
    return folder / "saved"


def both_splits(folder: Path) -> Path:
    whole = bench_library("datasets").DatasetDict({"test_real": saved(), "test_syn": saved(first=100)})
    whole.save_to_disk(folder / "both")
    return folder / "both"


def chosen_rows(folder: Path) -> Path:
    saved(ROWS + 2).select(range(ROWS)).save_to_disk(folder / "chosen")
    return folder / "chosen"


def cell(row: int) -> dict[str, Any]:
    found: dict[str, Any] = saved(1, first=row).with_format("arrow")[0]["image"][0].as_py()
    return {"bytes": found["bytes"], "path": None}


@pytest.mark.parametrize(
    "write", [lambda folder: on_hub(folder / "hub"), one_parquet, on_disk, both_splits, chosen_rows]
)
def test_every_layout_gives_the_same_rows(tmp_path, write):
    split_data = read_split(write(tmp_path), "test_real")
    assert (split_data.rows, list(split_data.problems)) == (ROWS, [])
    assert [one.number for one in split_data.edits] == list(range(ROWS))
    for row, one in enumerate(split_data.edits):
        assert one.image == picture(row)
        assert one.compounds == tuple(compound(row, level) for level in range(1, 9))
        assert [step.instruction for step in one.sequence] == [instruction(row, place) for place in range(8)]
        assert one.sequence[1].name == "Change Color"


@pytest.mark.parametrize("write", [lambda folder: on_hub(folder / "hub"), both_splits])
def test_splits_are_told_apart(tmp_path, write):
    data = write(tmp_path)
    assert read_split(data, "test_syn").edits[0].image == picture(100)
    with pytest.raises(InputError, match=r"'validation': it has .*test_real"):
        read_split(data, "validation")


def test_pictures_are_unpacked_once_and_not_decoded_again(tmp_path, cache):
    data = one_parquet(tmp_path)
    read_split(data, "test_real")
    (folder,) = (cache / "editcritic" / "complex-edit").iterdir()
    assert len(list(folder.iterdir())) == ROWS + 1
    for path in folder.glob("0*"):
        path.write_bytes(b"nothing to decode")
    assert [one.image.digest for one in read_split(data, "test_real").edits] == [
        picture(row).digest for row in range(ROWS)
    ]


def test_unpacked_pictures_that_were_tampered_with_are_said(tmp_path, cache, monkeypatch):
    # Pixels that this process has decoded before are known by their digest, and no file is opened for them.
    monkeypatch.setattr(image_module, "_cache", image_module.pixel_cache(1_000))
    data = one_parquet(tmp_path)
    read_split(data, "test_real")
    (folder,) = (cache / "editcritic" / "complex-edit").iterdir()
    (folder / "00000").write_bytes((folder / "00001").read_bytes())
    with pytest.raises(ImageError, match="has changed since it was first read"):
        assert read_split(data, "test_real").edits[0].image.resized(3, 3).pixels is None
    (folder / "images.json").write_text("[")
    with pytest.raises(InputError, match="is damaged: delete it, and it is extracted again"):
        read_split(data, "test_real")


def test_rows_that_cannot_be_read_are_named_by_row_and_column_and_the_others_are_there(tmp_path):
    good = edit(0, 2)
    silent = {**good, "compound": [{"reasoning": "", "compound_instruction": ""}]}
    picture(5).pil().save(tmp_path / "five.png")
    rows = [
        {"image": cell(0), "edit": good},
        {"image": {"bytes": b"no picture", "path": "x.png"}, "edit": good},
        {"image": {"bytes": None, "path": "gone.png"}, "edit": silent},
        {"image": cell(3), "edit": {**good, "sequence": None}},
        {"image": {"bytes": None, "path": "five.png"}, "edit": good},
    ]
    path = parquet(tmp_path / "x.parquet", rows)
    split_data = read_split(path, "test_real")
    assert ([one.number for one in split_data.edits], split_data.rows) == ([0, 4], 5)
    assert split_data.edits[1].image == picture(5)
    problems = [str(problem).replace(str(path), "FILE") for problem in split_data.problems]
    assert problems[0].startswith("FILE, row 1, image: encoded image is not an image")
    assert problems[1:] == [
        f"FILE, row 2, image: cannot read image {tmp_path / 'gone.png'}: No such file or directory",
        "FILE, row 2, edit.compound[0].compound_instruction: expected an instruction, got ''",
        "FILE, row 3, edit.sequence: expected a list of structs, got None",
    ]


@pytest.mark.parametrize("other", ["json", "columns", "bytes"])
def test_other_spellings_of_the_same_row_are_read(tmp_path, other):
    plain = edit(0)
    columns = {name: {key: [one[key] for one in plain[name]] for key in plain[name][0]} for name in plain}
    image: Any = cell(0)["bytes"] if other == "bytes" else cell(0)
    edit_value = json.dumps(plain) if other == "json" else columns if other == "columns" else plain
    split_data = read_split(parquet(tmp_path / "x.parquet", [{"image": image, "edit": edit_value}]), "test_real")
    assert split_data.edits[0].compounds[2] == compound(0, 3)
    assert split_data.edits[0].image == picture(0)


def test_what_is_missing_of_the_data_is_said_plainly(tmp_path):
    with pytest.raises(InputError, match="does not exist: give the folder"):
        read_split(tmp_path / "none", "test_real")
    with pytest.raises(InputError, match="contains neither parquet files nor a data set"):
        read_split(tmp_path, "test_real")
    hub = on_hub(tmp_path / "hub")
    (hub / "data" / "test_real-00001-of-00002.parquet").unlink()
    with pytest.raises(
        InputError, match=r"has 2 parts, and there are test_real-00000-of-00002\.parquet: get the others"
    ):
        read_split(hub, "test_real")
    (hub / "data" / "test_syn-00000-of-00002.parquet").write_bytes(b"cut off")
    with pytest.raises(InputError, match=r"test_syn-00000-of-00002\.parquet cannot be read"):
        read_split(hub, "test_syn")
    disk = on_disk(tmp_path)
    (disk / "data-00001-of-00002.arrow").unlink()
    with pytest.raises(InputError, match=r"lacks data-00001-of-00002\.arrow"):
        read_split(disk, "test_real")
    path = parquet(tmp_path / "x.parquet", [{"image": "a", "caption": "b"}])
    with pytest.raises(InputError, match="lacks the columns edit: expected image, edit; it has image, caption"):
        read_split(path, "test_real")


def test_a_picture_that_a_table_repeats_does_not_fill_the_disk(tmp_path, cache, monkeypatch):
    """A dictionary stores a value once, however many rows have it."""
    pa, rows = bench_library("pyarrow"), 300
    buffer = io.BytesIO()
    picture(1).pil().save(buffer, "PNG")
    repeated = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), [buffer.getvalue() + bytes(100_000)])
    bench_library("pyarrow.parquet").write_table(
        pa.table({"image": repeated, "edit": ["{}"] * rows}), tmp_path / "test_real.parquet"
    )
    monkeypatch.setattr(split_files, "MIN_BYTES", 2**20)
    with pytest.raises(InputError, match="more than"):
        read_split(tmp_path, "test_real")
    assert not [path for path in cache.rglob("*") if path.is_file()]
