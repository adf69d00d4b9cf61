"""Locked protocols and reproduction of results: equal files are recognised, differences are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.benchmarks.run.protocol_lock import format_toml
from editcritic.reward.tomllib_compat import tomllib

from ..conftest import Command
from ..suites.tiny_suite import Toy, outputs
from .counting_experts import files

TOY = "tests.benchmarks.suites.tiny_suite:Toy?count=3"
COIN = "judge=tests.benchmarks.suites.tiny_suite:CoinJudge"


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return outputs(tmp_path / "outputs", Toy(count=3))


def test_what_a_lock_says_gives_the_same_results(editcritic: Command, made: Path, tmp_path: Path) -> None:
    locked = tmp_path / "protocol.toml"
    options = ("--experts", COIN, "--metric", "following", "--bootstrap-samples", 50, "--seed", 3)
    assert editcritic("bench", "lock", TOY, *options, "-o", locked).exit_code == 0
    assert "already" in editcritic("bench", "lock", TOY, *options, "-o", locked).stderr
    straight = editcritic("bench", "run", TOY, "--outputs", made, *options, "-o", tmp_path / "a")
    assert straight.exit_code == 0, straight.stderr
    by_lock = editcritic("bench", "run", "--lock", locked, "--outputs", made, "-o", tmp_path / "b")
    assert by_lock.exit_code == 0, by_lock.stderr
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_experts_of_a_function_are_bound_by_it_again(editcritic: Command, made: Path, tmp_path: Path) -> None:
    locked = tmp_path / "protocol.toml"
    critics = "editcritic.benchmarks.sceneedit.scene_experts:scene_experts"
    done = editcritic("bench", "lock", TOY, "--experts", critics, "--metric", "following", "-o", locked)
    assert done.exit_code == 0, done.stderr
    by_lock = editcritic("bench", "run", "--lock", locked, "--outputs", made, "-o", tmp_path / "b")
    assert by_lock.exit_code in (0, 1), by_lock.stderr
    assert "scene-judge" in (tmp_path / "b" / "result.json").read_text()


def test_other_data_than_was_locked_is_refused(editcritic: Command, made: Path, tmp_path: Path) -> None:
    locked = tmp_path / "protocol.toml"
    editcritic("bench", "lock", TOY, "--experts", COIN, "-o", locked)
    locked.write_text(locked.read_text().replace(Toy(count=3).digest, "0" * 64))
    refused = editcritic("bench", "run", "--lock", locked, "--outputs", made, "-o", tmp_path / "b")
    assert refused.exit_code == 2
    assert "data_digest:" in refused.stderr
    refused = editcritic("bench", "run", TOY, "--lock", locked, "--outputs", made, "-o", tmp_path / "b")
    assert refused.exit_code == 2


def test_a_result_is_done_again_from_its_files(editcritic: Command, made: Path, tmp_path: Path) -> None:
    out = tmp_path / "results" / "mine"
    editcritic("bench", "run", TOY, "--outputs", made, "--experts", COIN, "--metric", "following", "-o", out)
    again = editcritic("bench", "reproduce", out)
    assert again.exit_code == 0, again.stderr
    assert "equal to the byte: all files, 6 items" in again.stdout


def test_items_that_come_out_otherwise_are_named(editcritic: Command, made: Path, tmp_path: Path) -> None:
    out = tmp_path / "results"
    editcritic("bench", "run", TOY, "--outputs", made, "--experts", COIN, "--metric", "following", "-o", out)
    (made / "1_turn_2.png").write_bytes((made / "0_turn_2.png").read_bytes())
    again = editcritic("bench", "reproduce", out, "--json")
    assert again.exit_code == 1
    document = json.loads(again.stdout)
    assert document["items"] == ["1/2"]
    assert {"scores.jsonl", "result.json"} <= set(document["files"])
    assert "outputs_digest" in document["provenance"]


PLAIN = st.recursive(
    st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(), inside, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), PLAIN, max_size=4))
def test_what_is_written_as_toml_is_read_back(table: dict[str, object]) -> None:
    assert tomllib.loads(format_toml(table)) == table
