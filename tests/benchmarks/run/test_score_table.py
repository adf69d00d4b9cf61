"""Tables scored in blocks on a Ray cluster: what is there already is left alone, what is missing or failed is asked."""

import json
import signal
import subprocess
import time
from typing import Any

import pyarrow.parquet as pq
import pytest

from editcritic.benchmarks.common.sample_tables import SampleTable
from editcritic.reward import AnswerLog, Reward
from editcritic.reward.child_python import python_command
from editcritic.reward.engine.log_merge import merge_logs
from studies.performance import killed_table

from ...default_signals import default_signals
from .conftest import ENVIRONMENT, python

NEEDS = ("ray",)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The runs of `ray_table.py`."""
    folder = tmp_path_factory.mktemp("table")
    python("-m", "tests.benchmarks.run.ray_table", folder)
    return folder


@pytest.fixture(scope="module")
def runs(folder):
    found: dict[str, Any] = json.loads((folder / "runs.json").read_text())
    return found


def test_each_row_is_scored_once_and_one_that_is_no_sample_is_said(folder, runs):
    first = runs["first"]
    assert first["counts"] == {"scored": 99, "invalid": 1}
    assert (first["rows"], first["blocks"], first["reused"], first["exit_code"]) == (100, 4, 0, 2)
    assert (first["paid"], first["questions"]) == (99, 99)
    assert len(first["problems"]) == 1
    assert "row 7: encoded image is not an image" in first["problems"][0]
    scores = pq.read_table(folder / "scores").to_pylist()
    assert [row["row"] for row in scores] == list(range(100)) == [row["length"] for row in scores]
    assert {row["file"] for row in scores} == {"table.parquet"}
    assert [row["id"] for row in scores if row["row"] != 7] == [f"edit-{n // 2}" for n in range(100) if n != 7]
    invalid = scores[7]
    assert (invalid["value"], invalid["status"], invalid["id"]) == (None, "invalid", None)
    assert "encoded image" in invalid["reason"]
    assert {row["reward"] for row in scores if row["row"] != 7} == {scores[0]["reward"]}
    assert scores[0]["reward"].startswith("judge-yes-no@")


def test_a_finished_run_asks_nothing_and_a_damaged_block_is_made_again(runs):
    assert runs["again"] == {**runs["first"], "reused": 100, "problems": []}
    assert runs["damaged"]["reused"] == 70
    assert runs["damaged"]["counts"] == runs["first"]["counts"]
    assert runs["damaged"]["paid"] == runs["first"]["paid"]  # the answers were in the log
    for change, named in (
        ("another reward", "reward: "), ("other columns", "keep: "), ("other blocks", "block_rows: "),
        ("changed", "files: "),
    ):  # fmt: skip
        assert "contains a run with other settings" in runs[change]
        assert named in runs[change]
        assert "give another folder" in runs[change]


def test_failed_scores_are_asked_again_and_the_others_are_not(runs):
    failed, again = runs["failed"], runs["asked again"]
    assert failed["exit_code"] == 2
    assert failed["counts"]["failed"] > 20
    assert failed["counts"]["scored"] + failed["counts"]["failed"] == 99
    assert again["counts"] == {"scored": 99, "invalid": 1}
    assert again["reused"] == 100 - failed["counts"]["failed"]  # wherever they are scored now
    assert runs["asked by it"] == [failed["counts"]["failed"]] * 2
    stopped = runs["too many"]
    assert "of the last scores failed" in stopped["stop_reason"]
    assert sum(stopped["counts"].values()) < 100
    assert stopped["exit_code"] in (1, 2)


def test_each_machine_has_a_log_and_the_merged_log_answers_all(folder, runs):
    assert runs["two machines"]["counts"] == {"scored": 99, "invalid": 1}
    (other,) = (folder / "apart").glob("*.sqlite")
    logs, merged = [folder / "two" / "_run" / "answers.sqlite", other], folder / "merged.sqlite"
    report = merge_logs(logs, merged)
    answers = []
    for path in logs:
        with AnswerLog(path, read_only=True) as log:
            answers.append(len(log))
    assert min(answers) > 0
    assert report.answers == sum(answers) == 99
    judge = {"use": "tests.benchmarks.run.counting_experts:Paying", "paid": str(folder / "paid-merged")}
    with AnswerLog(merged) as log:
        reward = Reward.of("judge-yes-no", {"judge": judge}, log=log)
        scores = reward(row.sample for row in SampleTable.open(folder / "table.parquet").rows() if row.sample)
    assert scores.count("scored") == 99
    assert not (folder / "paid-merged").exists()


@pytest.mark.parametrize(
    "size", [(1000, 1, 50, 0.02), pytest.param((100_000, 2, 1000, 0.0), marks=pytest.mark.slow)], ids=["small", "large"]
)
def test_a_run_that_is_killed_asks_for_no_answer_that_it_has(size, tmp_path):
    found = killed_table.measure(tmp_path, *size)
    assert found["each_row_once"]
    assert found["values_as_without_ray"]
    assert found["answered_and_asked_again"] == 0
    assert found["questions"] == found["rows"]
    assert found["asked"] == found["rows"] + found["asked_twice"]
    assert found["asked_twice"] <= found["in_flight_at_kills"]
    assert 0 < found["reused_by_the_last_run"] < found["rows"]


def test_an_interrupted_run_says_how_far_it_is_and_is_resumed(tmp_path):
    killed_table.write_table(tmp_path / "table.parquet", 2000)
    judge = f"judge=tests.benchmarks.run.counting_experts:Paying?paid={tmp_path / 'paid'}&seconds=0.05"
    config = tmp_path / "score.toml"
    config.write_text("block_rows = 20\n[ray]\naddress = 'local'\ncpus = 0.5\n")
    words = [tmp_path / "table.parquet", "--reward", "judge-yes-no", "--experts", judge]
    words += ["--config", config, "-o", tmp_path / "scores"]
    command = python_command("from editcritic.cli.main import main; main()", "score", *map(str, words))
    with default_signals():
        process = subprocess.Popen(command, env=ENVIRONMENT, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    with process:
        end = time.monotonic() + 120
        while not list((tmp_path / "scores").glob("*.parquet")) and time.monotonic() < end:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "of 2,000 rows are in" in said
    assert "Traceback" not in said
    assert not list((tmp_path / "scores").glob(".*"))
    assert json.loads((tmp_path / "scores" / "_run" / "settings.json").read_text())["block_rows"] == 20
