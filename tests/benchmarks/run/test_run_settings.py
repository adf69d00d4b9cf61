"""`bench run --config`: settings of a file, overridden by options, and written as used."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.benchmarks.run.ray_cluster import RayCluster
from editcritic.benchmarks.run.run_settings import (
    DECIDED_BY_LOCK,
    BudgetSettings,
    RunSettings,
    format_toml,
    read_run_settings,
    write_run_settings,
)
from editcritic.reward.toml_files import tomllib

from .conftest import COIN, ROOT, SCORED, TOY
from .counting_experts import files

pytestmark = pytest.mark.usefixtures("trusted")


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_run_is_repeated_from_the_settings_it_wrote(bench, made, tmp_path):
    text = 'experts = "experts.toml"\nbootstrap_samples = 50\nseed = 3\nmax_in_flight = 2\n[prices]\njudge = 0.5\n'
    mine = written(tmp_path / "mine.toml", text)
    written(tmp_path / "experts.toml", f'judge = "{COIN.partition("=")[2]}"\n')
    run = (TOY, "--outputs", made, "--metric", "following", "--config", mine)
    bench(*run, "--budget", "cost=20", "-o", tmp_path / "a")
    used = tmp_path / "a" / "run.toml"
    settings = read_run_settings(used)
    assert (settings.seed, settings.max_in_flight, settings.prices) == (3, 2, {"judge": 0.5})
    assert (settings.budget.cost, settings.metrics, settings.editor_name) == (20.0, ("following",), "outputs")
    bench("--config", used, "-o", tmp_path / "elsewhere" / "b")
    assert files(tmp_path / "a") == files(tmp_path / "elsewhere" / "b")
    assert json.loads(bench("--config", used, "--json").stdout)["out"] == str(tmp_path / "a")
    assert read_run_settings(used) == settings


def test_the_settings_of_a_locked_run_name_the_lock(bench, made, tmp_path):
    lock = tmp_path / "protocol.toml"
    bench(TOY, *SCORED, "--write-lock", lock)
    bench("--lock", lock, "--outputs", made, "-o", tmp_path / "a")
    settings: Any = read_run_settings(tmp_path / "a" / "run.toml")
    assert settings.lock.samefile(lock)
    assert not settings.model_fields_set & set(DECIDED_BY_LOCK)
    bench("--config", tmp_path / "a" / "run.toml", "-o", tmp_path / "b")
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_a_run_that_ends_early_has_written_its_settings(bench, made, tmp_path):
    settings = tmp_path / "a" / "run.toml"
    bench(TOY, "--outputs", made, *SCORED, "-o", tmp_path / "a", "--budget", "judge_calls=1", code=1)
    assert read_run_settings(settings).budget.judge_calls == 1
    bench("--config", settings, "--budget", "judge_calls=99")
    assert read_run_settings(settings).budget.judge_calls == 99


def test_options_override_the_file(bench, made, tmp_path):
    text = f'suite = "{TOY}"\noutputs = "outputs"\nout = "from-file"\nexperts = "{COIN}"\nmetrics = ["guards"]\n'
    config = written(tmp_path / "run.toml", f"{text}reproducible = true\neditor_name = 'file'\n")
    options = ("--metric", "following", "--no-reproducible", "--editor-name", "option", "-o", tmp_path / "option")
    bench("--config", config, *options)
    result = json.loads((tmp_path / "option" / "result.json").read_text())
    assert (result["editor"], result["provenance"]["reproducible"]) == ("option", False)
    assert list(result["counts"]["metrics"]) == ["following"]
    assert not (tmp_path / "from-file").exists()
    assert "from-file" in config.read_text()
    text = f'# mine\nsuite = "{TOY}"\noutputs = "../outputs"\nout = "."\nexperts = "{COIN}"\nmetrics = ["following"]\n'
    mine = written(tmp_path / "out" / "run.toml", text)
    bench("--config", mine)
    assert mine.read_text() == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("window = 3", "unknown key window: the keys are suite, data, outputs, out, "),
        ("[budget]\ncalls = 3", "unknown key budget.calls: the keys are judge_calls, seconds, cost"),
        ("[ray]\nnodes = 3", "unknown key ray.nodes: the keys are address, workers, cpus, gpus"),
        ("max_in_flight = 0", "max_in_flight: input should be greater than 0, got 0"),
        ("on_failures = 'hope'", "on_failures: input should be 'raise', 'none' or 'wait', got 'hope'"),
        ("[prices]\njudge = -1", "prices.judge: input should be greater than or equal to 0, got -1"),
        ("[prices]\njudge = nan", "prices.judge: input should be a finite number, got nan"),
        ("[prices]\njudge = 1e308", "prices.judge: input should be less than or equal to 1000000000"),
        ("experts = 3", "experts: input should be a valid"),
        ('experts = ["judge=\'a"]', "cannot parse the experts: No closing quotation"),
        ("seed = ", "is not TOML"),
        ("seed = -1", "seed: input should be greater than or equal to 0, got -1"),
        (f"seed = {10**30}", "is not TOML: an integer has more than 64 bits"),
        ("bootstrap_samples = 2_000_000_000", "input should be less than or equal to 100000, got 2000000000"),
        ('journal = "a\\u0000"', "journal: a path has no null character"),
    ],
)
def test_what_is_wrong_in_a_file_is_told(text, message, bench, made, tmp_path):
    config = written(tmp_path / "run.toml", text)
    refused = bench(TOY, "--outputs", made, "-o", tmp_path / "out", "--config", config, says=message, code=2)
    assert f"{config}" in refused.stderr or "cannot parse" in message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((TOY,), "--outputs and --out are missing: give the folder of the editor's images"),
        ((TOY, "--outputs", "outputs"), "--out is missing: "),
        ((TOY, "--outputs", "outputs", "--write-lock", "lock.toml"), "--out is missing: "),
        (("--outputs", "outputs", "-o", "out"), "give a SUITE"),
        ((TOY, "--config", "none.toml"), "cannot read"),
    ],
)
def test_what_a_run_lacks_is_named(arguments, message, bench):
    bench(*arguments, says=message, code=2)


def test_all_settings_are_written_and_read_back(tmp_path):
    folder = tmp_path / "a" / "results"
    everything = RunSettings(
        suite={"use": "edival", "mode": "singlepass"}, data=tmp_path / "data", outputs=tmp_path / "made", out=folder,
        editor_name='a "name"',
        experts=("judge=served?model=x detector=owlv2-base", f"{tmp_path / 'my experts.toml'}".replace(" ", "\\ ")),
        protocol="paper", metrics=("if", "cc"), reproducible=True, bootstrap_samples=0, seed=7,
        journal=tmp_path / "journal", max_in_flight=8, max_failure_rate=0.1, on_failures="wait", outage_timeout_s=60.0,
        allow_partial=True, budget=BudgetSettings(judge_calls=9, seconds=1.5), prices={"judge.quality": 0.25},
        ray=RayCluster(address="ray://head:10001", workers=8, cpus=2.0, gpus=0.5),
    )  # fmt: skip
    write_run_settings(everything, folder)
    back = read_run_settings(folder / "run.toml")
    assert isinstance(back.experts, tuple)
    assert back.experts[0] == "judge=served?model=x detector=owlv2-base"
    (moved,) = shlex.split(back.experts[1])
    assert Path(moved).resolve() == tmp_path / "my experts.toml"
    moved_keys = {"data", "outputs", "out", "journal", "experts"}
    assert back.model_dump(exclude=moved_keys) == everything.model_dump(exclude=moved_keys)
    for name in ("data", "outputs", "out", "journal"):
        assert getattr(back, name).resolve() == getattr(everything, name).resolve()
    table = written(tmp_path / "run.toml", '[experts]\njudge = "colour"\n')
    assert read_run_settings(table).experts == {"judge": "colour"}


def test_every_key_is_documented_and_the_settings_shown_are_valid(tmp_path):
    text = (ROOT / "docs" / "suites.md").read_text(encoding="utf-8")
    keys = [*RunSettings.model_fields, *(f"budget.{name}" for name in BudgetSettings.model_fields)]
    keys += [f"ray.{name}" for name in RayCluster.model_fields]
    assert [key for key in keys if f"`{key}`" not in text] == []
    shown = text.split("```toml\n")[1]
    settings = read_run_settings(written(tmp_path / "run.toml", shown.partition("```")[0]))
    assert (settings.out, settings.budget.cost) == (tmp_path / "results" / "mine", 20.0)


PLAIN = st.recursive(
    st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(), inside, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), PLAIN, max_size=4))
def test_what_is_written_as_toml_is_read_back(table):
    assert tomllib.loads(format_toml(table)) == table
