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
    ("options", "config", "problem"),
    [
        ("--ray", "", "--ray writes a folder of parquet files: give it to -o"),
        ("", "[ray]", "--ray writes a folder of parquet files: give it to -o"),
        ("--ray -o -", "", "give it to -o"),
        ("--ray -o DATA", "", "lies in the table's folder"),
        ("--ray -o DATA/../cheap.toml", "", "is a file: with --ray it is a folder"),
        ("--ray -o OUT --record r.db", "", "without --instruction and --record"),
        ("--ray -o OUT --on-failures perhaps", "", "on_failures: input should be 'raise', 'none' or 'wait'"),
        ("--ray -o OUT", "keep = ['value']", "scores have a column of this name"),
        ("--ray -o OUT", "keep = ['split', 'split']", "scores have a column of this name"),
        ("--ray -o OUT", "keep = ['no']", "has no column 'no': it has edited, instruction, source, split, value"),
        ("-o OUT", "keep = ['split']\nblock_rows = 9", "score.toml: block_rows and keep: for --ray only: give it"),
        ("-o OUT", "[ray]\naddress = '10.0.0.1:6379'", "add `--trust 10.0.0.1:6379`"),
        ("-o OUT", "[ray]\nworker = 1", "unknown key ray.worker: the keys are address, workers, cpus, gpus"),
        ("-o OUT", "[ray]\nworkers = 0", "score.toml: ray.workers: input should be greater than 0, got 0"),
        ("-o OUT", "window = 1", "score.toml: unknown key window: the keys are max_in_flight, max_failure_rate, on"),
        ("-o OUT", "max_in_flight = 0", "score.toml: max_in_flight: input should be greater than 0, got 0"),
        ("-o CONFIG", "", "is both config and out: use different files"),
    ],
)
def test_what_cannot_be_meant_is_refused(options, config, problem, table, folder, editcritic):
    path = folder / "score.toml"
    path.write_text(config)
    for name, value in (("DATA", table.parent), ("OUT", folder / "out"), ("CONFIG", path)):
        options = options.replace(name, str(value))
    command = ("score", table, "--reward", folder.cheap, "--config", path, *options.split())
    editcritic(*command, code=2, says=problem)
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
