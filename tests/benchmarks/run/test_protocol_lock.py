"""Locked protocols and reproduction of results: equal files are recognised, differences are named."""

import json

import pytest

from ..suites.tiny_suite import Toy
from .conftest import COIN, SCORED, TOY
from .counting_experts import files

pytestmark = pytest.mark.usefixtures("trusted")


def test_what_a_lock_says_gives_the_same_results(bench, made, tmp_path):
    locked = tmp_path / "protocol.toml"
    (tmp_path / "bootstrap.toml").write_text("bootstrap_samples = 50\nseed = 3\n")
    options = (TOY, *SCORED, "--config", tmp_path / "bootstrap.toml")
    bench(*options, "--write-lock", locked)
    bench(*options, "--outputs", made, "-o", tmp_path / "a", "--write-lock", locked)  # the lock is the same: it stays
    bench(TOY, "--experts", COIN, "--write-lock", locked, says="exists already, with other contents", code=2)
    bench("--lock", locked, "--outputs", made, "-o", tmp_path / "b")
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_experts_of_a_function_are_bound_by_it_again(bench, made, tmp_path):
    locked = tmp_path / "protocol.toml"
    critics = "editcritic.benchmarks.sceneedit.scene_experts:scene_experts"
    bench(TOY, "--experts", critics, "--metric", "following", "--write-lock", locked)
    assert bench("--lock", locked, "--outputs", made, "-o", tmp_path / "b", code=None).exit_code in (0, 1)
    assert "scene-judge" in (tmp_path / "b" / "result.json").read_text()


def test_other_data_and_what_a_lock_decides_are_refused(bench, made, tmp_path):
    locked = tmp_path / "protocol.toml"
    bench(TOY, "--experts", COIN, "--write-lock", locked)
    (tmp_path / "seed.toml").write_text("seed = 0\nbootstrap_samples = 1000\n")
    run = ("--lock", locked, "--outputs", made, "-o", tmp_path / "b")
    for more, message in (
        ((TOY,), "the lock decides suite"),
        (("--experts", COIN, "--metric", "following"), "the lock decides experts, metrics"),
        (("--no-reproducible",), "the lock decides reproducible"),
        (("--config", tmp_path / "seed.toml"), "the lock decides bootstrap_samples, seed"),
        (("--config", tmp_path / "seed.toml", "--protocol", "x"), "the lock decides protocol, bootstrap_samples, seed"),
        (("--write-lock", tmp_path / "other.toml"), "give --write-lock or --lock"),
    ):
        bench(*more, *run, says=message, code=2)
    locked.write_text(locked.read_text().replace(Toy(count=3).digest, "0" * 64))
    bench(*run, says="data_digest:", code=2)
    assert not (tmp_path / "b").exists()


def test_a_result_is_done_again_from_its_files(bench, editcritic, made, tmp_path):
    out = tmp_path / "results" / "mine"
    bench(TOY, "--outputs", made, *SCORED, "-o", out)
    editcritic("bench", "verify", out, code=0, shows="equal to the byte: all files, 6 items")
    (made / "1_turn_2.png").write_bytes((made / "0_turn_2.png").read_bytes())
    again = editcritic("bench", "verify", out, "--json", code=1)
    document = json.loads(again.stdout)
    assert document["items"] == ["1/2"]
    assert {"scores.jsonl", "result.json"} <= set(document["files"])
    assert "outputs_digest" in document["provenance"]
