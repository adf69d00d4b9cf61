"""Runs of a suite in one process: rows, results, missing images, resuming, other settings."""

import json
import socket
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.run.output_generation import generate_outputs
from editcritic.benchmarks.run.run_journal import RowJournal
from editcritic.benchmarks.run.runner import RunIncomplete, RunSettings, run_suite
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts as critics
from editcritic.benchmarks.sceneedit.suite import SceneEdit
from editcritic.benchmarks.suites.edival.suite import EdiVal
from editcritic.benchmarks.suites.gedit.suite import GEditBench
from editcritic.benchmarks.suites.results import Results, load_results
from editcritic.benchmarks.suites.suite import SuiteItem, find_image
from editcritic.reward import Expert
from editcritic.reward.queries.specs import Spec

from ..suites.tiny_suite import CoinJudge, Toy, outputs
from .conftest import COIN, SCORED, TOY
from .counting_experts import Fails, Paying, experts, files

ROWS = Path("journal") / "rows-0.jsonl"


@pytest.fixture
def toy(tmp_path):
    """Its outputs are there."""
    outputs(tmp_path / "outputs", Toy())
    return Toy()


def run(
    folder: Path, judge: Expert | None = None, suite: Toy | None = None, out: str = "out", **options: Any
) -> Results:
    return run_suite(
        suite or Toy(), folder / "outputs", experts=experts(judge or CoinJudge()), out=folder / out, **options
    )


def texts(results: Results) -> list[dict[str, Any]]:
    return [row.to_json() for row in results.rows]


def test_rows_are_in_the_order_of_items_and_equal_runs_have_equal_files(toy, tmp_path):
    results = run(tmp_path)
    assert [row.id for row in results.rows] == [item.id for item in toy.items]
    assert all(row.value("following") is not None and row.value("guards") is not None for row in results.rows)
    loaded = load_results(tmp_path / "out")
    assert (texts(loaded), loaded.provenance["data_digest"]) == (texts(results), toy.digest)
    run(tmp_path, out="again")
    assert files(tmp_path / "out") == files(tmp_path / "again")
    written = {"scores.jsonl", "result.json", "leaderboard.md", "leaderboard.csv", "leaderboard.tex"}
    assert written <= files(tmp_path / "out").keys()
    with pytest.raises(InputError, match='editor: "editor" before, "two" now'):
        run(tmp_path, editor="two")
    with pytest.raises(InputError, match="suite_options"):
        run(tmp_path, suite=Toy(count=3))


def test_a_missing_picture_has_its_reason_and_is_scored_once_it_is_there(tmp_path):
    made = outputs(tmp_path / "outputs", Toy(), without=["0/1", "1/2"])
    (made / "2_turn_1.png").write_bytes(b"no picture")
    judge = CoinJudge()
    results = {row.id: row for row in run(tmp_path, judge).rows}
    assert results["0/1"].missing_reason == "there is no image 0_turn_1"
    assert results["0/2"].missing_reason == "it starts from 0/1: there is no image 0_turn_1"
    assert results["1/2"].missing_reason == "there is no image 1_turn_2"
    assert "2_turn_1.png" in results["2/1"].missing_reason
    assert str(tmp_path) not in results["2/1"].missing_reason
    assert not results["0/1"].scores
    assert judge.num_queries == 3
    outputs(made, Toy())
    assert not any(row.missing_reason for row in run(tmp_path, judge).rows)
    assert judge.num_queries == 8
    run(tmp_path, judge)
    assert judge.num_queries == 8


def test_a_metric_without_experts_is_left_out_unless_it_is_asked_for(toy, tmp_path):
    bound = experts(CoinJudge())
    del bound["judge"]
    results = run_suite(toy, tmp_path / "outputs", experts=bound)
    assert list(results.rows[0].scores) == ["guards"]
    assert results.provenance["skipped_metrics"] == {"following": "no expert is bound to judge"}
    with pytest.raises(InputError, match="--metric following"):
        run_suite(toy, tmp_path / "outputs", experts=bound, metrics=["following"])


def test_a_budget_ends_a_run_and_a_larger_one_goes_on(toy: Toy, tmp_path: Path) -> None:
    paid = tmp_path / "paid"
    judge = Paying(str(paid))
    for _ in range(2):
        with pytest.raises(RunIncomplete, match=r"budget of 5 judge calls is spent.*5 of 8 items are done"):
            run(tmp_path, judge, options=RunSettings(budget={"judge_calls": 5}))  # type: ignore[arg-type]
        assert len(paid.read_text().split()) == 5
    assert not (tmp_path / "out" / "result.json").exists()
    assert not json.loads((tmp_path / "out" / "run.json").read_text())["complete"]
    run(tmp_path, judge, options=RunSettings(budget={"judge_calls": 8}))  # type: ignore[arg-type]
    assert len(paid.read_text().split()) == len(set(paid.read_text().split())) == 8
    run(tmp_path, judge, out="straight")
    assert files(tmp_path / "out") == files(tmp_path / "straight")


def test_what_failed_is_a_row_that_says_so_and_is_asked_again(toy, tmp_path):
    scores = [row.scores["following"] for row in run(tmp_path, Fails(), metrics=["following"]).rows]
    failed = [score for score in scores if score.status == "failed"]
    assert 0 < len(failed) < len(scores)
    assert "no answer today" in failed[0].reason
    again = Fails()
    run(tmp_path, again, metrics=["following"])
    assert again.num_queries == len(failed)


def test_a_torn_line_and_a_row_of_another_version_are_scored_again(toy, tmp_path):
    results = texts(run(tmp_path))
    rows = tmp_path / "out" / ROWS
    rows.write_bytes(rows.read_bytes()[:-40])
    judge = CoinJudge()
    assert texts(run(tmp_path, judge)) == results
    assert judge.num_queries == 0  # its answer was kept beside the rows
    assert len(rows.read_text().splitlines()) == len(toy.items)

    with RowJournal(tmp_path / "old") as old:
        for entry in map(json.loads, rows.read_text().splitlines()):
            old.append(entry["sample_key"], {**json.loads(entry["row"]), "schema": 1})
    rows.write_bytes((tmp_path / "old" / "rows-0.jsonl").read_bytes())
    assert texts(run(tmp_path)) == results
    assert len(rows.read_text().splitlines()) == 2 * len(toy.items)
    result = tmp_path / "out" / "result.json"
    result.write_text(json.dumps({**json.loads(result.read_text()), "schema": 1}))
    with pytest.raises(InputError, match="schema 1 is not 2: written by another version"):
        load_results(tmp_path / "out")


def test_no_flipped_bit_of_its_rows_changes_a_number(tmp_path):
    outputs(tmp_path / "outputs", Toy(count=2))
    values = {row["id"]: row for row in texts(run(tmp_path, suite=Toy(count=2)))}
    rows = tmp_path / "out" / ROWS
    written, chance = rows.read_bytes(), np.random.default_rng(5)
    with RowJournal(tmp_path / "out" / "journal") as journal:
        for _ in range(400):
            damaged = bytearray(written)
            damaged[chance.integers(len(written))] ^= 1 << int(chance.integers(8))
            rows.write_bytes(bytes(damaged))
            for name, entries in journal.rows().items():
                assert [row for _, row in entries] == [values[name]]


class Demanding(Toy):
    """Asks for what its data has not, and leaves one item out of one metric."""

    def metrics(self, protocol: str | None = None) -> Mapping[str, Spec]:
        return {"following": "judge-yes-no", "small": "dlebench-if"}

    def judges(self, metric: str, item: SuiteItem) -> bool:
        return metric != "following" or item.id != "0/1"


def test_what_the_data_lacks_does_not_apply_and_what_is_not_asked_is_not_there(tmp_path):
    outputs(tmp_path / "outputs", Demanding(count=1))
    first, second = run(tmp_path, suite=Demanding(count=1)).rows
    assert (list(first.scores), list(second.scores)) == (["small"], ["following", "small"])
    assert first.scores["small"].status == "not_applicable"
    assert "targets" in first.scores["small"].reason


def test_the_command_writes_partial_results_when_allowed(bench, tmp_path):
    made = outputs(tmp_path / "outputs", Toy(count=2), without=["1/2"])
    command = (TOY.replace("3", "2"), "--outputs", made, *SCORED, "-o", tmp_path / "out")
    bench(*command, "--budget", "judge_calls=1", says="budget of 1 judge calls", code=1)
    assert not (tmp_path / "out" / "result.json").exists()
    bench(*command, "--budget", "judge_calls=1", "--allow-partial", code=1)
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert not result["provenance"]["complete"]
    counts = {"scored": 1, "not_applicable": 0, "abstained": 0, "failed": 0}
    assert result["counts"] == {"items": 4, "num_missing": 3, "metrics": {"following": counts}}
    whole = bench(*command, "--json", code=1)  # one picture is missing
    assert json.loads(whole.stdout)["counts"]["num_missing"] == 1
    assert json.loads((tmp_path / "out" / "result.json").read_text())["provenance"]["complete"]


def test_a_run_in_which_no_metric_has_a_value_says_why_and_ends_with_1(bench, tmp_path):
    made = outputs(tmp_path / "outputs", Toy(count=2))
    command = (TOY.replace("3", "2"), "--outputs", made, "--metric", "following", "-o", tmp_path / "out")
    told = "following has no value, it abstained from every edit: nobody knows"
    bench(*command, "--experts", "judge=tests.benchmarks.suites.tiny_suite:AbstainingJudge", says=told, code=1)
    command = (*command[:-1], tmp_path / "judged")
    document = json.loads(bench(*command, "--experts", COIN, "--json").stdout)
    assert (document["without_value"], document["exit_code"]) == ({}, 0)


def test_a_judge_that_is_not_there_is_named_with_its_cause(bench, tmp_path):
    made = outputs(tmp_path / "outputs", Toy(count=1))
    command = (TOY.replace("3", "1"), "--outputs", made, "--metric", "following", "-o", tmp_path / "out")
    with socket.socket() as bound:  # to a port at which nobody listens
        bound.bind(("127.0.0.1", 0))
        judge = f"judge=openai:http://127.0.0.1:{bound.getsockname()[1]}/v1?model=m&retries=1"
        told = bench(*command, "--experts", judge, code=1).stderr
    assert "2 items have failed scores, e.g. 0/1: " in told
    assert "no connection" in told


def test_pictures_that_no_item_names_are_told_beside_the_missing_ones(bench, tmp_path):
    made = outputs(tmp_path / "outputs", Toy(count=3), without=["1/2"])
    (made / "0_turn_2.png").rename(made / "0-turn-2.png")
    (made / "1_turn_1.png").rename(made / "elsewhere.PNG")
    (made / "log.txt").write_text("no picture")
    command = (TOY, "--outputs", made, "--experts", COIN, "-o", tmp_path / "out")
    told = "2 pictures among the outputs are of no item that is looked for: 0-turn-2.png, elsewhere.PNG"
    bench(*command, says=told, code=1)
    document = json.loads(bench(*command, "--json", code=1).stdout)
    assert document["unnamed_outputs"] == {"count": 2, "first": ["0-turn-2.png", "elsewhere.PNG"]}
    assert (document["counts"]["items"], document["counts"]["num_missing"]) == (6, 3)
    for kind, name in ((EdiVal, "7_input_raw.jpg"), (GEditBench, "ab12_SRCIMG.png")):
        assert kind.is_source_name(name)
    for other, name in ((Toy, "0_turn_2.png"), (EdiVal, "7_input_raw_turn_1.png")):
        assert not other.is_source_name(name)
    composed, decomposed = (unicodedata.normalize(form, "thé") for form in ("NFC", "NFD"))
    (tmp_path / f"{decomposed}.jpg").write_bytes(b"a picture")
    assert find_image(tmp_path / composed) == tmp_path / f"{decomposed}.jpg"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("--experts", "nobody"), "role=spec"),
        (("--experts", "judge=nobody"), "unknown expert"),
        (("--metric", "beauty"), "following, guards"),
        (("--budget", "calls=1"), "judge_calls"),
        (("--outputs", "nowhere"), "does not exist"),
    ],
)
def test_what_is_typed_wrong_is_told_before_any_work(wrong, message, bench, tmp_path):
    bench(TOY, "--outputs", tmp_path, "-o", tmp_path / "out", *wrong, says=message, code=2)
    assert not (tmp_path / "out").exists()


def test_sceneedit_runs_from_made_outputs_to_its_tables(tmp_path):
    suite = SceneEdit(prompts=9)
    generate_outputs(suite, tmp_path / "outputs", Unmoved())
    results = run_suite(suite, tmp_path / "outputs", editor="unmoved", experts=critics(), out=tmp_path / "out")
    assert [row.value("truth-unchanged") for row in results.rows] == [1.0] * 9
    assert [row.value("truth-followed") for row in results.rows] == [0.0] * 9
    tables = json.loads((tmp_path / "out" / "result.json").read_text())["tables"]
    assert tables[0]["rows"]["all"]["truth-unchanged"]["value"] == 100.0
    facts = json.loads((tmp_path / "out" / "run.json").read_text())
    assert facts["generation_seconds"].keys() == {item.id for item in suite.items}


class Unmoved:
    """Returns its inputs."""

    id, nfe, batch_size = "unmoved", 0, 4

    def edit(self, images, instructions, seeds, *, history=None):
        return [sources[0] for sources in images]
