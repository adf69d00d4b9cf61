"""Locked protocols and reproduction of results: equal files are recognised, differences are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ..conftest import Command
from ..suites.tiny_suite import Toy, outputs
from .counting_experts import files

TOY = "tests.benchmarks.suites.tiny_suite:Toy?count=3"
COIN = "judge=tests.benchmarks.suites.tiny_suite:CoinJudge"


@pytest.fixture(autouse=True)
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What these files name beyond what is installed."""
    monkeypatch.setenv("EDITCRITIC_TRUST", "tests")


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return outputs(tmp_path / "outputs", Toy(count=3))


def test_what_a_lock_says_gives_the_same_results(editcritic: Command, made: Path, tmp_path: Path) -> None:
    locked = tmp_path / "protocol.toml"
    (tmp_path / "bootstrap.toml").write_text("bootstrap_samples = 50\nseed = 3\n")
    options = ("--experts", COIN, "--metric", "following", "--config", tmp_path / "bootstrap.toml")
    assert editcritic("bench", "run", TOY, *options, "--write-lock", locked).exit_code == 0
    run = ("bench", "run", TOY, "--outputs", made, *options, "-o", tmp_path / "a")
    straight = editcritic(*run, "--write-lock", locked)  # the lock is the same: it stays
    assert straight.exit_code == 0, straight.stderr
    other = editcritic("bench", "run", TOY, "--experts", COIN, "--write-lock", locked)
    assert (other.exit_code, "exists already, with other contents" in other.stderr) == (2, True)
    by_lock = editcritic("bench", "run", "--lock", locked, "--outputs", made, "-o", tmp_path / "b")
    assert by_lock.exit_code == 0, by_lock.stderr
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_experts_of_a_function_are_bound_by_it_again(editcritic: Command, made: Path, tmp_path: Path) -> None:
    locked = tmp_path / "protocol.toml"
    critics = "editcritic.benchmarks.sceneedit.scene_experts:scene_experts"
    done = editcritic("bench", "run", TOY, "--experts", critics, "--metric", "following", "--write-lock", locked)
    assert done.exit_code == 0, done.stderr
    by_lock = editcritic("bench", "run", "--lock", locked, "--outputs", made, "-o", tmp_path / "b")
    assert by_lock.exit_code in (0, 1), by_lock.stderr
    assert "scene-judge" in (tmp_path / "b" / "result.json").read_text()


def test_other_data_than_was_locked_is_refused(editcritic: Command, made: Path, tmp_path: Path) -> None:
    locked = tmp_path / "protocol.toml"
    editcritic("bench", "run", TOY, "--experts", COIN, "--write-lock", locked)
    locked.write_text(locked.read_text().replace(Toy(count=3).digest, "0" * 64))
    refused = editcritic("bench", "run", "--lock", locked, "--outputs", made, "-o", tmp_path / "b")
    assert refused.exit_code == 2
    assert "data_digest:" in refused.stderr


def test_what_a_lock_decides_is_refused_beside_it(editcritic: Command, made: Path, tmp_path: Path) -> None:
    locked = tmp_path / "protocol.toml"
    editcritic("bench", "run", TOY, "--experts", COIN, "--write-lock", locked)
    (tmp_path / "seed.toml").write_text("seed = 0\nbootstrap_samples = 1000\n")
    for more, message in (
        ((TOY,), "the lock decides suite"),
        (("--experts", COIN, "--metric", "following"), "the lock decides experts, metrics"),
        (("--no-reproducible",), "the lock decides reproducible"),
        (("--config", tmp_path / "seed.toml"), "the lock decides bootstrap_samples, seed"),
        (("--write-lock", tmp_path / "other.toml"), "give --write-lock or --lock"),
    ):
        refused = editcritic("bench", "run", *more, "--lock", locked, "--outputs", made, "-o", tmp_path / "b")
        assert (refused.exit_code, message in refused.stderr) == (2, True), refused.stderr
    assert not (tmp_path / "b").exists()


def test_a_result_is_done_again_from_its_files(editcritic: Command, made: Path, tmp_path: Path) -> None:
    out = tmp_path / "results" / "mine"
    editcritic("bench", "run", TOY, "--outputs", made, "--experts", COIN, "--metric", "following", "-o", out)
    again = editcritic("bench", "verify", out)
    assert again.exit_code == 0, again.stderr
    assert "equal to the byte: all files, 6 items" in again.stdout


def test_items_that_come_out_otherwise_are_named(editcritic: Command, made: Path, tmp_path: Path) -> None:
    out = tmp_path / "results"
    editcritic("bench", "run", TOY, "--outputs", made, "--experts", COIN, "--metric", "following", "-o", out)
    (made / "1_turn_2.png").write_bytes((made / "0_turn_2.png").read_bytes())
    again = editcritic("bench", "verify", out, "--json")
    assert again.exit_code == 1
    document = json.loads(again.stdout)
    assert document["items"] == ["1/2"]
    assert {"scores.jsonl", "result.json"} <= set(document["files"])
    assert "outputs_digest" in document["provenance"]
