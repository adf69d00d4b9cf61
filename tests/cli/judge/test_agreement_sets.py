"""`editcritic judge agreement --set`: rewards side by side on public preference sets, with real commands and files."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from editcritic.benchmarks.human_eval.preference_tables import published_table
from editcritic.benchmarks.suites.human_preferences.catalogue import PREFERENCE_SETS

from ...benchmarks.conftest import Command, read_jsonl
from ...benchmarks.suites.human_preferences import layouts
from ...benchmarks.suites.human_preferences.layouts import BRIGHT

ROOT = Path(__file__).parents[3]
JUDGE = f"{__name__.rpartition('.')[0]}.bright_judge:BrightJudge"


def run(editcritic, *arguments, code=0):
    return json.loads(
        editcritic("judge", "agreement", *arguments, "--json", "--bootstrap-samples", 100, code=code).stdout
    )


def column(document: Mapping[str, Any], reward: str, number: int = 0) -> dict[str, float | None]:
    """Row -> value of a reward in the table of a set."""
    table = document["sets"][number]["tables"][0]
    return {name: row[reward]["value"] for name, row in table["rows"].items() if reward in row}


def cells(document: Mapping[str, Any], reward: str) -> dict[str, Mapping[str, Any]]:
    return {name: row[reward] for name, row in document["sets"][0]["tables"][0]["rows"].items()}


def test_votes_with_ties_and_two_rewards_side_by_side(editcritic: Command, tmp_path: Path) -> None:
    folder = layouts.genai_on_hub(tmp_path)
    rewards = ["--reward", BRIGHT, "--reward", "guard-not-a-copy"]
    document = run(editcritic, "--set", f"genai-bench={folder}", *rewards)
    # In order: +100 yes, -130 yes, -40 no, 0 no, +1 yes; as ties +2 and +1, but not -200. The threshold is 2: the
    # preference by 1 is wrong then, and with it right are two preferences and two ties.
    bright = column(document, "brightness")
    assert (bright["accuracy with ties"], bright["accuracy without ties"]) == (4 / 8, 3 / 5)
    # Nothing is a copy: every pair is a tie, and three are to people.
    flat = column(document, "guard-not-a-copy")
    assert (flat["accuracy with ties"], flat["accuracy without ties"]) == (3 / 8, 0)
    difference = document["sets"][0]["tables"][1]["rows"]["brightness - guard-not-a-copy"]["accuracy with ties"]
    assert difference["value"] == pytest.approx(1 / 8)
    assert difference["low"] is None  # eight pairs are too few for an interval
    assert document["sets"][0]["published"]["rows"]["EditReward (on MiMo-VL-7B)"] == [65.72]
    plain = run(editcritic, "--set", f"genai-bench={layouts.genai_json(tmp_path / 'json')}", *rewards)
    assert plain["sets"][0]["tables"] == document["sets"][0]["tables"]
    lacking = run(editcritic, "--set", f"genai-bench={folder}", "--reward", "dlebench-if", code=1)
    assert lacking["sets"][0]["statuses"]["dlebench-if"] == {"failed": 16}
    assert column(lacking, "dlebench-if")["accuracy with ties"] == 0


@pytest.mark.parametrize("layout", ["groups", "pairs"])
def test_groups_are_counted_as_the_released_code_counts_them(layout: str, editcritic: Command, tmp_path: Path) -> None:
    folder = layouts.edit_reward_json(tmp_path)
    if layout == "pairs":
        folder = tmp_path / "hub"
        layouts.write_rows(folder / "data/train-00000-of-00001.parquet", layouts.edit_reward_rows())
    values = column(run(editcritic, "--set", f"edit-reward-bench={folder}", "--reward", BRIGHT), "brightness")
    # What EditReward's `evaluate_edit_reward_bench` printed for the same scores.
    assert values["groups right, as released, 2-pair"] == pytest.approx(0.8571428571428571)
    assert values["groups right, as released, 3-pair"] == pytest.approx(0.6666666666666666)
    assert values["groups right, as released, 4-pair"] == pytest.approx(0.75)
    assert values["groups right, as released"] == pytest.approx(0.7857142857142857)
    assert values["accuracy with ties"] == pytest.approx(0.85)
    # With one decision per pair, the preferences by 1 are within the threshold of 4 or not in order: 5 of 7.
    assert values["groups right, 2-pair"] == pytest.approx(5 / 7)
    assert values["groups right"] == pytest.approx((5 + 2 + 3) / 14)


def test_a_group_that_lacks_a_pair_is_wrong(editcritic: Command, tmp_path: Path) -> None:
    rows = [row for row in layouts.edit_reward_rows() if row["id"] != "3x0_AvsC"]
    layouts.write_rows(tmp_path / "data/train-00000-of-00001.parquet", rows)
    values = column(run(editcritic, "--set", f"edit-reward-bench={tmp_path}", "--reward", BRIGHT), "brightness")
    assert values["groups right, 3-pair"] == pytest.approx(1 / 3)


def test_tasks_count_the_same_in_each_dimension(editcritic: Command, tmp_path: Path) -> None:
    layouts.write_rows(tmp_path / "data/train-00000-of-00001.parquet", layouts.edit_score_rows())
    values = column(run(editcritic, "--set", f"edit-score-bench={tmp_path}", "--reward", BRIGHT), "brightness")
    assert values["mean of tasks, overall"] == pytest.approx((1 / 2 + 1) / 2)
    assert values["accuracy, overall"] == pytest.approx(2 / 3)
    assert values["mean of tasks, consistency"] == pytest.approx((0 + 1) / 2)
    assert values["mean of tasks, prompt_following"] == 0  # a tie


def test_winners_by_task_and_ties_by_equal_values(editcritic: Command, tmp_path: Path) -> None:
    layouts.write_rows(tmp_path / "vc/data/train-00000-of-00001.parquet", layouts.vc_reward_rows())
    compass = layouts.compass_json(tmp_path / "compass")
    sets = ["--set", f"vc-reward-bench={tmp_path / 'vc'}", "--set", f"edit-reward-compass={compass}"]
    document = run(editcritic, *sets, "--reward", BRIGHT)
    values = column(document, "brightness")
    assert (values["accuracy"], values["accuracy, subject_removal"]) == (2 / 4, 1 / 2)
    values = column(document, "brightness", 1)
    assert values["accuracy"] == 2 / 5
    assert values["accuracy, IA"] == pytest.approx(2 / 3)
    wrong = ("--set", f"edit-reward-compass={compass}", "--reward", BRIGHT, "--group-by", "task")
    message = "has no label 'task' to group by: it has dimension"
    editcritic("judge", "agreement", *wrong, code=2, says=message)
    grouped = run(editcritic, *sets[:2], "--reward", BRIGHT, "--group-by", "task", "--num-items", 2)
    assert [name for name in column(grouped, "brightness") if "," in name] == ["accuracy, color_alteration"]


def test_correlations_with_ratings_are_averaged_over_models(editcritic: Command, tmp_path: Path) -> None:
    document = run(editcritic, "--set", f"imagenhub={layouts.imagenhub_museum(tmp_path)}", "--reward", BRIGHT)
    values = column(document, "brightness")
    # What EditReward's `evaluate_imagenhub_from_json` printed, without the model that everybody rates 0.
    assert values["Spearman, MagicBrush"] == pytest.approx(1, abs=1e-6)
    assert values["Spearman, SDEdit"] == pytest.approx(0.10540925533894598)
    assert values["Spearman, as released"] == pytest.approx(0.5025445289358063)
    assert "Spearman, Imagic" not in values
    # Of twelve pairs, five are ties to people; of the others the brighter edit is the worse one in one.
    assert values["accuracy without ties"] == pytest.approx(6 / 7)
    people = column(document, "people")
    assert set(people) == {"Spearman", "Spearman, as released", "Spearman, MagicBrush", "Spearman, SDEdit"}


def test_a_pairwise_judge_beside_a_reward_of_one_edit(editcritic: Command, tmp_path: Path) -> None:
    folder, museum = layouts.genai_on_hub(tmp_path / "genai"), layouts.imagenhub_museum(tmp_path / "museum")
    sets = ["--set", f"genai-bench={folder}", "--set", f"imagenhub={museum}"]
    rewards = ["--reward", "judge-yes-no", "--reward", "pairwise-judge", "--experts", f"judge={JUDGE}"]
    document = run(editcritic, *sets, *rewards)
    assert column(document, "judge-yes-no")["accuracy with ties"] == 4 / 8
    # It says which, not by how much: no threshold finds a tie but the equal pictures, which people find different.
    assert column(document, "pairwise-judge")["accuracy with ties"] == 3 / 8
    assert column(document, "pairwise-judge")["accuracy without ties"] == 3 / 5
    # It has no value of one edit to correlate.
    assert "Spearman" not in column(document, "pairwise-judge", 1)
    assert column(document, "pairwise-judge", 1)["accuracy without ties"] == pytest.approx(6 / 7)


def test_a_file_has_the_limits_of_scoring(editcritic: Command, tmp_path: Path) -> None:
    folder, config = layouts.edit_reward_json(tmp_path / "set"), tmp_path / "agreement.toml"
    judge = ["--experts", f"judge={JUDGE.replace('BrightJudge', 'LoneJudge')}", "--config", str(config)]
    command = ["--set", f"edit-reward-bench={folder}", "--reward", "judge-yes-no", *judge]
    for settings, stops, statuses in (
        ("", True, None),
        ("max_failure_rate = 1.0", False, {"failed": 39}),
        ('on_failures = "none"', False, {"failed": 39}),
        ("max_in_flight = 1", False, {"scored": 39}),
    ):
        config.write_text(settings)
        document = run(editcritic, *command, code=int(statuses != {"scored": 39}))
        assert ("of the last scores failed" in document["stop_reason"]) == stops
        assert stops or document["sets"][0]["statuses"]["judge-yes-no"] == statuses
    config.write_text("ranges = {overall = [0, 2]}\n")
    editcritic("judge", "agreement", *command, code=2, says="ranges and --set do not go together")


def test_a_missing_picture_is_counted_and_wrong(editcritic: Command, tmp_path: Path) -> None:
    folder = layouts.edit_reward_json(tmp_path)
    (folder / "images/3_0_1.png").unlink()  # in two of the three pairs of a group that was right
    (folder / "images/2_0_0.png").write_bytes(b"no picture")
    (folder / "images/4_0_src.png").unlink()
    editcritic(
        *("judge", "agreement", "--set", f"edit-reward-bench={folder}", "--reward", BRIGHT),
        code=1,
        shows="6 edits have no picture, or no source: they count as wrong",
    )
    document = run(editcritic, "--set", f"edit-reward-bench={folder}", "--reward", BRIGHT, code=1)
    of_set = document["sets"][0]
    assert of_set["missing_pictures"] == 6
    assert of_set["statuses"]["brightness"] == {"scored": 14 + 9 + 16 - 6, "failed": 6}
    right = cells(document, "brightness")["groups right, 3-pair"]
    assert (right["value"], right["num_missing"]) == (pytest.approx(1 / 3), 1)
    assert (right["lowest"], right["highest"]) == pytest.approx((1 / 3, 2 / 3))
    assert cells(document, "brightness")["answered"]["value"] == pytest.approx(1 - (1 + 2 + 6) / 40)


def test_a_reward_that_abstains_gains_nothing_and_is_no_failure(editcritic: Command, tmp_path: Path) -> None:
    folder = layouts.genai_on_hub(tmp_path)
    rewards = ["--reward", BRIGHT, "--reward", f"{BRIGHT}?low=79"]
    document = run(editcritic, "--set", f"genai-bench={folder}", *rewards)
    assert document["sets"][0]["statuses"][f"{BRIGHT}?low=79"] == {"scored": 10, "abstained": 6}
    cell = cells(document, f"{BRIGHT}?low=79")["accuracy without ties"]
    # Of five preferences, those of (60, 190) and of (77, 77) are without a value now: one was right.
    assert cell["value"] == 2 / 5
    assert (cell["lowest"], cell["highest"], cell["num_missing"]) == (2 / 5, 4 / 5, 2)
    assert cells(document, f"{BRIGHT}?low=79")["accuracy where answered"]["value"] == pytest.approx(2 / 3)
    notes = " ".join(document["sets"][0]["tables"][0]["notes"])
    assert "6 of 16 without a value (6 abstained): too dark to see" in notes


def test_a_broken_row_is_named_and_the_others_are_compared(editcritic: Command, tmp_path: Path) -> None:
    rows = layouts.genai_rows()
    rows[2]["vote_type"] = "both"
    layouts.write_rows(tmp_path / "test_v1-00000-of-00001.parquet", rows)
    document = run(editcritic, "--set", f"genai-bench={tmp_path}", "--reward", BRIGHT, code=2)
    assert document["sets"][0]["comparisons"] == 7
    (problem,) = document["sets"][0]["problems"]
    assert "row 2: expected 'leftvote' or 'rightvote'" in problem


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "gen-ai=x"], "--set is NAME=FOLDER or NAME, with a name of edit-reward-bench"),
        (["--set", "genai-bench=nowhere"], "nowhere does not exist: give the folder of GenAI-Bench"),
        (["--set", "imagenhub"], "its edits are not on the hub: give the folder"),
        (["--set", "genai-bench=.", "--reward", "guards", "--reward", "guards"], "--reward guards is given twice"),
        (["--set", "genai-bench=.", "--reward", "no-such"], "--reward no-such"),
        (["--set", "genai-bench=.", "--metric", "a=b"], "--metric and --set do not go together"),
        (["results", "--set", "genai-bench=."], "RESULTS and --set do not go together"),
        (["results", "--reward", "guards"], "--reward is for --set"),
        ([], "give result folders with --labels or --swap-results, or --set"),
        (["--set", "genai-bench=."], "the other layout is valid_set2_full.json"),
    ],
)
def test_mistakes_are_said(arguments, message, editcritic, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    editcritic("judge", "agreement", *arguments, code=2, says=message)


def test_tables_and_values_are_written(editcritic: Command, tmp_path: Path) -> None:
    folder, out = layouts.genai_on_hub(tmp_path / "genai"), tmp_path / "out"
    arguments = ["--set", f"genai-bench={folder}", "--reward", BRIGHT, "--reward", "guard-not-a-copy", "-o", str(out)]
    result = editcritic("judge", "agreement", *arguments, code=0)
    text = (out / "agreement.md").read_text()
    assert text in result.stdout
    assert "| accuracy with ties | 0.500 |" in text
    assert "| EditReward (on MiMo-VL-7B) | 65.72 |" in text
    assert (out / "genai-bench.csv").is_file()
    values = list(read_jsonl(out / "values.jsonl"))
    assert len(values) == 2 * 16
    assert values[0].pop("reward_signature")
    of_set = {"set": "genai-bench", "id": "0", "reward": "brightness", "candidates": ["left"]}
    assert values[0] == of_set | {"value": 200.0, "status": "scored", "reason": ""}


def test_rewards_share_queries_and_a_second_run_asks_nothing(editcritic: Command, tmp_path: Path) -> None:
    folder, paid, cache = layouts.genai_on_hub(tmp_path / "genai"), tmp_path / "paid", tmp_path / "cache.sqlite"
    shared = tmp_path / "shared.toml"
    shared.write_text('[reward]\nuse = "weighted-mean"\nparts.yes.use = "judge-yes-no"\n', encoding="utf-8")
    arguments = ["--set", f"genai-bench={folder}", "--reward", "judge-yes-no", "--reward", shared]
    arguments += ["--experts", f"judge={JUDGE}?paid={paid}", "--cache", cache]
    first = run(editcritic, *arguments)
    asked = paid.read_text().split()
    # Both rewards ask the same; of 16 edits, all are of different sources or levels.
    assert len(asked) == len(set(asked)) == 15
    assert column(first, "judge-yes-no") == column(first, "weighted-mean")
    assert (run(editcritic, *arguments)["sets"], paid.read_text().split()) == (first["sets"], asked)


def test_a_run_that_is_killed_resumes_and_asks_nothing_twice(tmp_path: Path) -> None:
    folder = layouts.edit_reward_json(tmp_path / "data")
    paid, cache = tmp_path / "paid", tmp_path / "cache.sqlite"
    command = [sys.executable, "-c", "from editcritic.cli.main import main; main()", "judge", "agreement"]
    command += ["--set", f"edit-reward-bench={folder}", "--reward", "judge-yes-no", "--cache", str(cache), "--json"]
    command += ["--experts", f"judge={JUDGE}?paid={paid}&seconds=0.05"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    kills = []
    for moment in (1, 9, 17, 25):
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path
        ) as process:
            deadline = time.monotonic() + 60
            while (count := _lines(paid)) < moment and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.002)
            process.send_signal(signal.SIGKILL)
        kills.append(count)
    assert all(count < 39 for count in kills)  # each was killed in the middle
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    again = Counter(paid.read_text().split())
    assert len(again) == 39  # 14 + 9 + 16 edits
    # Only what was in flight when it was killed, at most a batch each time, is asked again.
    assert sum(count - 1 for count in again.values()) <= 4 * len(kills)
    other = [*command[:-4], str(tmp_path / "other.sqlite"), "--json", "--experts", f"judge={JUDGE}"]
    straight = subprocess.run(other, env=environment, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert json.loads(straight.stdout)["sets"] == json.loads(done.stdout)["sets"]


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_published_figures_have_a_source_and_a_value_per_column() -> None:
    found = {name: published_table(one) for name, one in PREFERENCE_SETS.items()}
    assert {name for name, table in found.items() if table} == {"genai-bench", "imagenhub", "edit-reward-bench"}
    for table in filter(None, found.values()):
        assert any(note.startswith("source: ") for note in table["notes"])
        assert {len(values) for values in table["rows"].values()} == {len(table["columns"])}
