"""Preference sets of strangers: pictures and tables of their folder only, cells of bounded size, the rest is read."""

import io
import json
import os
from pathlib import Path
from typing import Any

import PIL.Image
import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.suites.human_preferences.catalogue import read_genai_bench
from editcritic.benchmarks.suites.human_preferences.comparison import Comparison
from editcritic.benchmarks.suites.rows import DataProblem
from editcritic.benchmarks.suites.split_files import MAX_CELL_BYTES
from editcritic.reward import ImageError
from editcritic.reward.trust import trusting

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no FIFOs or device files")
arrow = pytest.importorskip("pyarrow")


def encoded() -> bytes:
    buffer = io.BytesIO()
    PIL.Image.new("RGB", (8, 8), (200, 40, 40)).save(buffer, "PNG")
    return buffer.getvalue()


def row(**fields: Any) -> dict[str, Any]:
    pictures = {name: {"bytes": encoded()} for name in ("source_image", "left_output_image", "right_output_image")}
    return {"instruct_prompt": "Make it blue", "vote_type": "leftvote", **pictures, **fields}


def write(folder: Path, rows: list[dict[str, Any]], **options: Any) -> Path:
    path = folder / "test_v1-00000-of-00001.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])
    columns = dict.fromkeys(("source_image", "left_output_image", "right_output_image"), picture)
    schema = arrow.schema({"instruct_prompt": arrow.string(), "vote_type": arrow.string(), **columns})
    pytest.importorskip("pyarrow.parquet").write_table(arrow.Table.from_pylist(rows, schema), path, **options)
    return path


def read(folder: Path) -> list[Comparison | DataProblem]:
    return list(read_genai_bench(folder))


@pytest.mark.parametrize("row_group_size", [1, 100], ids=["in its own group", "beside small ones"])
def test_a_large_cell_is_not_read_and_the_others_are(row_group_size: int, tmp_path: Path) -> None:
    large = row(left_output_image={"bytes": b"\0" * (MAX_CELL_BYTES + 1)})
    write(tmp_path, [row(), large, row()], compression="zstd", row_group_size=row_group_size)
    first, second, third = (one for one in read(tmp_path) if isinstance(one, Comparison))
    assert first.candidates["left"].open().size == third.candidates["left"].open().size == (8, 8)
    with pytest.raises(ImageError, match=r"cell is not read: it has 67,1\d\d,\d\d\d bytes, more than 67,108,864"):
        second.candidates["left"].open()


@pytest.mark.parametrize("name", ["link.png", "zero.png", "door/secret.png"])
def test_a_picture_is_no_link_out_of_the_set(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    (tmp_path / "secret.png").write_bytes(encoded())
    (folder / "link.png").symlink_to("../secret.png")
    (folder / "zero.png").symlink_to("/dev/zero")
    (folder / "door").symlink_to("..")
    write(folder, [row(left_output_image={"path": name})])
    (comparison,) = (one for one in read(folder) if isinstance(one, Comparison))
    with pytest.raises(ImageError, match=r"leads out of|no picture"):
        comparison.candidates["left"].open()
    if name == "link.png":
        with trusting(str(tmp_path)):
            assert comparison.candidates["left"].open().size == (8, 8)


def test_the_hubs_cache_links_to_its_blobs(tmp_path: Path) -> None:
    repository = tmp_path / "datasets--someone--set"
    snapshot = repository / "snapshots" / "0123"
    path = write(snapshot, [row(left_output_image={"path": "left.png"})])
    (repository / "blobs").mkdir()
    for file, blob in ((path, "aa"), (snapshot / "left.png", "bb")):
        if file == path:
            path.rename(repository / "blobs" / blob)
        else:
            (repository / "blobs" / blob).write_bytes(encoded())
        file.symlink_to(Path("../../blobs") / blob)
    (comparison,) = (one for one in read(snapshot) if isinstance(one, Comparison))
    assert comparison.candidates["left"].open().size == (8, 8)


@pytest.mark.parametrize("kind", ["a FIFO", "a link out"])
def test_tables_are_regular_files_of_the_set(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    path = folder / "test_v1-00000-of-00001.parquet"
    if kind == "a FIFO":
        os.mkfifo(path)
    else:
        path.symlink_to(write(tmp_path / "elsewhere", [row()]))
    with pytest.raises(InputError, match=r"it is a FIFO|it leads out of"):
        read(folder)


def test_a_table_in_json_is_a_regular_file_with_few_values(tmp_path: Path) -> None:
    path = tmp_path / "valid_set2_full.json"
    for text, says in (
        ('[{"prompt": "x", "prompt": "y"}]', "the name 'prompt' is given twice"),
        ("[" * 3_000_000, "more than 2,000,000"),
        ('[{"prompt": "\\ud800"}]', "lone surrogate"),
        (json.dumps([{"prompt": "x", "model1_dim1_score": 1}]).replace("1}", "1e999}"), "infinite"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=says):
            read(path)
