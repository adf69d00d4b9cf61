"""Runs of a suite in one process: rows, results, missing images, resuming, other settings."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.run.output_generation import generate_outputs
from editcritic.benchmarks.run.run_budget import BudgetLimits
from editcritic.benchmarks.run.run_journal import RowJournal
from editcritic.benchmarks.run.runner import ExecutionOptions, RunIncomplete, run_suite
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts as critics
from editcritic.benchmarks.sceneedit.suite import SceneEdit
from editcritic.benchmarks.suites.edival.suite import EdiVal
from editcritic.benchmarks.suites.gedit.suite import GEditBench
from editcritic.benchmarks.suites.results import load_results
from editcritic.benchmarks.suites.suite import SuiteItem, find_image
from editcritic.reward import EditSample, Image
from editcritic.reward.queries.specs import Spec

from ..conftest import Command
from ..suites.tiny_suite import CoinJudge, Toy, outputs
from .counting_experts import Fails, Paying, experts, files


def test_rows_are_in_the_order_of_items_and_read_back(tmp_path: Path) -> None:
    suite = Toy()
    results = run_suite(suite, outputs(tmp_path / "outputs", suite), experts=experts(CoinJudge()), out=tmp_path / "out")
    assert [row.id for row in results.rows] == [item.id for item in suite.items]
    assert all(row.value("following") is not None and row.value("guards") is not None for row in results.rows)
    loaded = load_results(tmp_path / "out")
    assert [row.to_json() for row in loaded.rows] == [row.to_json() for row in results.rows]
    assert loaded.provenance["data_digest"] == suite.digest


def test_equal_runs_have_equal_files_but_for_run_json(tmp_path: Path) -> None:
    suite = Toy()
    made = outputs(tmp_path / "outputs", suite)
    for name in ("a", "b"):
        run_suite(suite, made, experts=experts(CoinJudge()), out=tmp_path / name)
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert {"scores.jsonl", "result.json", "leaderboard.md", "leaderboard.csv", "leaderboard.tex"} <= files(
        tmp_path / "a"
    ).keys()


def test_what_has_no_picture_is_missing_with_the_reason_and_so_is_what_starts_from_it(tmp_path: Path) -> None:
    suite = Toy()
    made = outputs(tmp_path / "outputs", suite, without=["0/1", "1/2"])
    (made / "2_turn_1.png").write_bytes(b"no picture")
    judge = CoinJudge()
    results = {row.id: row for row in run_suite(suite, made, experts=experts(judge), out=tmp_path / "out").rows}
    assert results["0/1"].missing_reason == "there is no image 0_turn_1"
    assert results["0/2"].missing_reason == "it starts from 0/1: there is no image 0_turn_1"
    assert results["1/2"].missing_reason == "there is no image 1_turn_2"
    assert "2_turn_1.png" in results["2/1"].missing_reason
    assert str(tmp_path) not in results["2/1"].missing_reason
    assert not results["0/1"].scores
    assert judge.num_queries == 3


def test_the_same_again_asks_nobody_and_a_picture_that_was_made_meanwhile_is_judged(tmp_path: Path) -> None:
    suite = Toy()
    made = outputs(tmp_path / "outputs", suite, without=["3/2"])
    run_suite(suite, made, experts=experts(CoinJudge()), out=tmp_path / "out")
    outputs(made, suite)
    judge = CoinJudge()
    results = run_suite(suite, made, experts=experts(judge), out=tmp_path / "out")
    assert not any(row.missing_reason for row in results.rows)
    assert judge.num_queries == 1


def test_other_settings_are_refused_naming_what_differs(tmp_path: Path) -> None:
    suite = Toy()
    made = outputs(tmp_path / "outputs", suite)
    run_suite(suite, made, editor="one", experts=experts(CoinJudge()), out=tmp_path / "out")
    with pytest.raises(InputError, match='editor: "one" before, "two" now'):
        run_suite(suite, made, editor="two", experts=experts(CoinJudge()), out=tmp_path / "out")
    with pytest.raises(InputError, match="suite_options"):
        run_suite(Toy(count=3), made, editor="one", experts=experts(CoinJudge()), out=tmp_path / "out")


def test_a_metric_that_nobody_can_be_asked_for_is_left_out_unless_it_is_wanted(tmp_path: Path) -> None:
    suite = Toy()
    made = outputs(tmp_path / "outputs", suite)
    bound = experts(CoinJudge())
    del bound["judge"]
    results = run_suite(suite, made, experts=bound)
    assert list(results.rows[0].scores) == ["guards"]
    assert results.provenance["skipped_metrics"] == {"following": "no expert is bound to judge"}
    with pytest.raises(InputError, match="--metric following"):
        run_suite(suite, made, experts=bound, metrics=["following"])


def test_a_budget_ends_a_run_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    suite = Toy()
    made = outputs(tmp_path / "outputs", suite)
    paid = tmp_path / "paid"
    bound = experts(Paying(str(paid)))
    five = ExecutionOptions(limits=BudgetLimits(judge_calls=5))
    with pytest.raises(RunIncomplete, match=r"budget of 5 judge calls is spent.*5 of 8 items are done"):
        run_suite(suite, made, experts=bound, out=tmp_path / "out", options=five)
    assert len(paid.read_text().split()) == 5
    assert not (tmp_path / "out" / "result.json").exists()
    assert not json.loads((tmp_path / "out" / "run.json").read_text())["complete"]
    with pytest.raises(RunIncomplete):
        run_suite(suite, made, experts=bound, out=tmp_path / "out", options=five)
    assert len(paid.read_text().split()) == 5
    run_suite(
        suite, made, experts=bound, out=tmp_path / "out", options=ExecutionOptions(limits=BudgetLimits(judge_calls=8))
    )
    assert len(paid.read_text().split()) == len(set(paid.read_text().split())) == 8
    run_suite(suite, made, experts=bound, out=tmp_path / "straight")
    assert files(tmp_path / "out") == files(tmp_path / "straight")


def test_what_failed_is_a_row_that_says_so_and_is_asked_again(tmp_path: Path) -> None:
    suite = Toy()
    made = outputs(tmp_path / "outputs", suite)
    results = run_suite(suite, made, experts=experts(Fails()), metrics=["following"], out=tmp_path / "out")
    failed = [row.id for row in results.rows if row.scores["following"].status == "failed"]
    assert 0 < len(failed) < len(results.rows)
    assert (
        "no answer today" in results.rows[[row.id for row in results.rows].index(failed[0])].scores["following"].reason
    )
    again = Fails()
    run_suite(suite, made, experts=experts(again), metrics=["following"], out=tmp_path / "out")
    assert again.num_queries == len(failed)


def test_a_line_that_was_torn_off_is_judged_again(tmp_path: Path) -> None:
    suite = Toy()
    made = outputs(tmp_path / "outputs", suite)
    results = run_suite(suite, made, experts=experts(CoinJudge()), out=tmp_path / "out")
    rows = tmp_path / "out" / "journal" / "rows-0.jsonl"
    rows.write_bytes(rows.read_bytes()[:-40])
    judge = CoinJudge()
    again = run_suite(suite, made, experts=experts(judge), out=tmp_path / "out")
    assert [row.to_json() for row in again.rows] == [row.to_json() for row in results.rows]
    assert judge.num_queries == 0  # its answer was kept beside the rows
    assert len(rows.read_text().splitlines()) == len(suite.items)


def test_no_flipped_bit_of_its_rows_changes_a_number(tmp_path: Path) -> None:
    suite = Toy(count=2)
    made = outputs(tmp_path / "outputs", suite)
    results = run_suite(suite, made, experts=experts(CoinJudge()), out=tmp_path / "out")
    rows = tmp_path / "out" / "journal" / "rows-0.jsonl"
    written, chance = rows.read_bytes(), np.random.default_rng(5)
    values = {row.id: row.to_json() for row in results.rows}
    with RowJournal(tmp_path / "out" / "journal") as journal:
        for _ in range(400):
            damaged = bytearray(written)
            damaged[chance.integers(len(written))] ^= 1 << int(chance.integers(8))
            rows.write_bytes(bytes(damaged))
            for name, entries in journal.rows().items():
                assert [row for _, row in entries] == [values[name]]


def test_a_row_of_another_version_is_judged_again_and_its_results_are_refused(tmp_path: Path) -> None:
    suite = Toy()
    made = outputs(tmp_path / "outputs", suite)
    results = run_suite(suite, made, experts=experts(CoinJudge()), out=tmp_path / "out")
    rows = tmp_path / "out" / "journal" / "rows-0.jsonl"
    with RowJournal(tmp_path / "old") as old:
        for entry in map(json.loads, rows.read_text().splitlines()):
            old.append(entry["sample_key"], {**json.loads(entry["row"]), "schema": 1})
    rows.write_bytes((tmp_path / "old" / "rows-0.jsonl").read_bytes())
    again = run_suite(suite, made, experts=experts(CoinJudge()), out=tmp_path / "out")
    assert [row.to_json() for row in again.rows] == [row.to_json() for row in results.rows]
    assert len(rows.read_text().splitlines()) == 2 * len(suite.items)

    result = tmp_path / "out" / "result.json"
    result.write_text(json.dumps({**json.loads(result.read_text()), "schema": 1}))
    with pytest.raises(InputError, match="schema 1 is not 2: written by another version"):
        load_results(tmp_path / "out")


class Demanding(Toy):
    """Asks for what its data has not, and leaves one item out of one metric."""

    def metrics(self, protocol: str | None = None) -> Mapping[str, Spec]:
        return {"following": "judge-yes-no", "small": "dlebench-if"}

    def judges(self, metric: str, item: SuiteItem) -> bool:
        return metric != "following" or item.id != "0/1"


def test_what_the_data_lacks_does_not_apply_and_what_is_not_asked_is_not_there(tmp_path: Path) -> None:
    suite = Demanding(count=1)
    made = outputs(tmp_path / "outputs", suite)
    results = run_suite(suite, made, experts=experts(CoinJudge()))
    assert list(results.rows[0].scores) == ["small"]
    assert list(results.rows[1].scores) == ["following", "small"]
    assert results.rows[0].scores["small"].status == "not_applicable"
    assert "targets" in results.rows[0].scores["small"].reason


def test_the_command_tells_what_is_missing_and_writes_partial_results_when_allowed(
    editcritic: Command, tmp_path: Path
) -> None:
    suite = Toy(count=2)
    made = outputs(tmp_path / "outputs", suite, without=["1/2"])
    coin = "judge=tests.benchmarks.suites.tiny_suite:CoinJudge"
    command = ("bench", "run", "tests.benchmarks.suites.tiny_suite:Toy?count=2", "--outputs", made, "--experts", coin)
    short = (*command, "--metric", "following", "--budget", "judge_calls=1", "-o", tmp_path / "out")
    ended = editcritic(*short)
    assert ended.exit_code == 1
    assert "budget of 1 judge calls" in ended.stderr
    assert not (tmp_path / "out" / "result.json").exists()
    assert editcritic(*short, "--allow-partial").exit_code == 1
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert not result["provenance"]["complete"]
    assert result["counts"] == {
        "items": 4,
        "num_missing": 3,
        "metrics": {"following": {"scored": 1, "not_applicable": 0, "abstained": 0, "failed": 0}},
    }
    whole = editcritic(*command, "--metric", "following", "-o", tmp_path / "out", "--json")
    assert whole.exit_code == 1  # one picture is missing
    assert json.loads(whole.stdout)["counts"]["num_missing"] == 1
    assert json.loads((tmp_path / "out" / "result.json").read_text())["provenance"]["complete"]


def test_pictures_that_no_item_names_are_told_beside_the_missing_ones(editcritic: Command, tmp_path: Path) -> None:
    made = outputs(tmp_path / "outputs", Toy(count=3), without=["1/2"])
    (made / "0_turn_2.png").rename(made / "0-turn-2.png")
    (made / "1_turn_1.png").rename(made / "elsewhere.PNG")
    (made / "log.txt").write_text("no picture")
    coin = ("--experts", "judge=tests.benchmarks.suites.tiny_suite:CoinJudge")
    suite = "tests.benchmarks.suites.tiny_suite:Toy?count=3"
    command = ("bench", "run", suite, "--outputs", made, *coin, "-o", tmp_path / "out")
    told = editcritic(*command)
    assert "2 pictures among the outputs are of no item that is looked for: 0-turn-2.png, elsewhere.PNG" in told.stderr
    document = json.loads(editcritic(*command, "--json").stdout)
    assert document["unnamed_outputs"] == {"count": 2, "first": ["0-turn-2.png", "elsewhere.PNG"]}
    assert (document["counts"]["items"], document["counts"]["num_missing"]) == (6, 3)


def test_sources_beside_the_outputs_are_no_outputs_of_nobody() -> None:
    assert not Toy().is_source_name("0_turn_2.png")
    assert EdiVal.is_source_name("7_input_raw.jpg")
    assert GEditBench.is_source_name("ab12_SRCIMG.png")
    assert not EdiVal.is_source_name("7_input_raw_turn_1.png")


def test_an_output_is_found_under_the_other_unicode_form_of_its_name(tmp_path: Path) -> None:
    composed, decomposed = (unicodedata.normalize(form, "thé") for form in ("NFC", "NFD"))
    (tmp_path / f"{decomposed}.jpg").write_bytes(b"a picture")
    assert find_image(tmp_path / composed) == tmp_path / f"{decomposed}.jpg"


def test_what_is_typed_wrong_is_told_before_any_work(editcritic: Command, tmp_path: Path) -> None:
    command = ("bench", "run", "tests.benchmarks.suites.tiny_suite:Toy", "--outputs", tmp_path, "-o", tmp_path / "out")
    for wrong, message in {
        ("--experts", "nobody"): "role=spec",
        ("--experts", "judge=nobody"): "unknown expert",
        ("--metric", "beauty"): "following, guards",
        ("--budget", "calls=1"): "judge_calls",
        ("--outputs", tmp_path / "nowhere"): "does not exist",
    }.items():
        refused = editcritic(*command, *wrong)
        assert refused.exit_code == 2
        assert message in refused.stderr
    assert not (tmp_path / "out").exists()


def test_sceneedit_runs_from_made_outputs_to_its_tables(tmp_path: Path) -> None:
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

    id = "unmoved"
    nfe = 0
    batch_size = 4

    def edit(
        self,
        images: Sequence[tuple[Image, ...]],
        instructions: Sequence[str],
        seeds: Sequence[int],
        *,
        history: Sequence[tuple[EditSample, ...]] | None = None,
    ) -> Sequence[Image]:
        return [sources[0] for sources in images]
