"""`editcritic score --ray`: what cannot be meant is refused before a cluster is started or anything is written."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ..benchmarks.conftest import Command, Folder

NEEDS = ("ray",)


@pytest.fixture
def table(folder: Folder) -> Path:
    data = folder / "data"
    data.mkdir()
    path = data / "edits.parquet"
    pq.write_table(pa.Table.from_pylist([{**folder.row(), "value": 1, "split": "train"}]), path)
    return path


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--ray"], "--ray writes a folder of parquet files: give it to -o"),
        (["--ray", "-o", "-"], "give it to -o"),
        (["--ray", "-o", "DATA"], "lies in the table's folder"),
        (["--ray", "-o", "DATA/../cheap.toml"], "is a file: with --ray it is a folder"),
        (["--ray", "-o", "OUT", "--record", "r.db"], "without --instruction and --record"),
        (["--ray", "-o", "OUT", "--keep", "value"], "scores have a column of this name"),
        (["--ray", "-o", "OUT", "--keep", "split", "--keep", "split"], "scores have a column of this name"),
        (
            ["--ray", "-o", "OUT", "--keep", "no"],
            "has no such column: it has edited, instruction, source, split, value",
        ),
        (["--ray", "-o", "OUT", "--on-failures", "perhaps"], "on_failures is 'raise', 'none' or 'wait'"),
        (["--keep", "split"], "are for --ray"),
        (["--ray-address", "auto"], "are for --ray"),
        (["--workers", "2"], "are for --ray"),
        (["--cpus", "1"], "are for --ray"),
        (["--gpus", "0"], "are for --ray"),
        (["--block-rows", "1000"], "are for --ray"),
    ],
)
def test_what_cannot_be_meant_is_refused(options, problem, table, folder, editcritic):
    words = [word.replace("DATA", str(table.parent)).replace("OUT", str(folder / "out")) for word in options]
    editcritic("score", table, "--reward", folder.cheap, *words, code=2, says=problem)
    assert not (folder / "out").exists()
    assert [path.name for path in table.parent.iterdir()] == ["edits.parquet"]


def test_a_folder_with_other_tables_is_no_folder_of_scores(table: Path, folder: Folder, editcritic: Command) -> None:
    other = folder / "other"
    other.mkdir()
    (other / "x.parquet").write_bytes(table.read_bytes())
    editcritic(
        "score", table, "--reward", folder.cheap, "--ray", "-o", other, code=2, says="is there already, and of no run"
    )
    assert [path.name for path in other.iterdir()] == ["x.parquet"]
