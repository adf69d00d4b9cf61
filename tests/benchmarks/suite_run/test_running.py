"""A suite is judged in one process: rows, results, what is missing, going on, other settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from editcritic.benchmarks.inputs import InputError
from editcritic.benchmarks.suite_run.running import How, RunIncomplete, run
from editcritic.benchmarks.suite_run.spending import Limits
from editcritic.benchmarks.suites.results import Results

from ..suites.toy import CoinJudge, Toy, outputs
from .asked import Paying, experts, files


def test_rows_are_in_the_order_of_items_and_read_back(tmp_path: Path) -> None:
    suite = Toy()
    found = run(suite, outputs(tmp_path / "outputs", suite), experts=experts(CoinJudge()), out=tmp_path / "out")
    assert [row.id for row in found.rows] == [item.id for item in suite.items]
    assert all(row.value("following") is not None and row.value("guards") is not None for row in found.rows)
    loaded = Results.load(tmp_path / "out")
    assert [row.to_json() for row in loaded.rows] == [row.to_json() for row in found.rows]
    assert loaded.provenance["data"] == suite.digest


def test_equal_runs_have_equal_files_but_for_run_json(tmp_path: Path) -> None:
    suite = Toy()
    made = outputs(tmp_path / "outputs", suite)
    for name in ("a", "b"):
        run(suite, made, experts=experts(CoinJudge()), out=tmp_path / name)
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert {"scores.jsonl", "result.json", "leaderboard.md", "leaderboard.csv", "leaderboard.tex"} <= files(
        tmp_path / "a"
    ).keys()


def test_what_has_no_picture_is_missing_with_the_reason_and_so_is_what_starts_from_it(tmp_path: Path) -> None:
    suite = Toy()
    made = outputs(tmp_path / "outputs", suite, without=["0/1", "1/2"])
    (made / "2_turn_1.png").write_bytes(b"no picture")
    judge = CoinJudge()
    found = {row.id: row for row in run(suite, made, experts=experts(judge), out=tmp_path / "out").rows}
    assert found["0/1"].missing == "there is no picture 0_turn_1"
    assert found["0/2"].missing == "it starts from 0/1: there is no picture 0_turn_1"
    assert found["1/2"].missing == "there is no picture 1_turn_2"
    assert "2_turn_1.png" in found["2/1"].missing
    assert str(tmp_path) not in found["2/1"].missing
    assert not found["0/1"].scores
    assert judge.asked == 3


def test_the_same_again_asks_nobody_and_a_picture_that_was_made_meanwhile_is_judged(tmp_path: Path) -> None:
    suite = Toy()
    made = outputs(tmp_path / "outputs", suite, without=["3/2"])
    run(suite, made, experts=experts(CoinJudge()), out=tmp_path / "out")
    outputs(made, suite)
    judge = CoinJudge()
    found = run(suite, made, experts=experts(judge), out=tmp_path / "out")
    assert not any(row.missing for row in found.rows)
    assert judge.asked == 1


def test_other_settings_are_refused_naming_what_differs(tmp_path: Path) -> None:
    suite = Toy()
    made = outputs(tmp_path / "outputs", suite)
    run(suite, made, editor="one", experts=experts(CoinJudge()), out=tmp_path / "out")
    with pytest.raises(InputError, match='editor: "one" there, "two" now'):
        run(suite, made, editor="two", experts=experts(CoinJudge()), out=tmp_path / "out")
    with pytest.raises(InputError, match="options"):
        run(Toy(count=3), made, editor="one", experts=experts(CoinJudge()), out=tmp_path / "out")


def test_a_metric_that_nobody_can_be_asked_for_is_left_out_unless_it_is_wanted(tmp_path: Path) -> None:
    suite = Toy()
    made = outputs(tmp_path / "outputs", suite)
    bound = experts(CoinJudge())
    del bound["judge"]
    found = run(suite, made, experts=bound)
    assert list(found.rows[0].scores) == ["guards"]
    assert found.provenance["left_out"] == {"following": "it asks judge, and nobody is bound to that"}
    with pytest.raises(InputError, match="--metric following"):
        run(suite, made, experts=bound, metrics=["following"])


def test_a_budget_ends_a_run_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    suite = Toy()
    made = outputs(tmp_path / "outputs", suite)
    paid = tmp_path / "paid"
    bound = experts(Paying(str(paid)))
    five = How(limits=Limits(judge_calls=5))
    with pytest.raises(RunIncomplete, match=r"budget of 5 judge calls is spent.*5 of 8 items are done"):
        run(suite, made, experts=bound, out=tmp_path / "out", how=five)
    assert len(paid.read_text().split()) == 5
    assert not (tmp_path / "out" / "result.json").exists()
    assert not json.loads((tmp_path / "out" / "run.json").read_text())["complete"]
    with pytest.raises(RunIncomplete):
        run(suite, made, experts=bound, out=tmp_path / "out", how=five)
    assert len(paid.read_text().split()) == 5
    run(suite, made, experts=bound, out=tmp_path / "out", how=How(limits=Limits(judge_calls=8)))
    assert len(paid.read_text().split()) == len(set(paid.read_text().split())) == 8
    run(suite, made, experts=bound, out=tmp_path / "straight")
    assert files(tmp_path / "out") == files(tmp_path / "straight")
