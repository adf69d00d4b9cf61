"""`bench run --config`: settings of a file, overridden by options, and written as used."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.run.run_settings import (
    DECIDED_BY_LOCK,
    BudgetSettings,
    RaySettings,
    RunSettings,
    read_run_settings,
    write_run_settings,
)

from ..conftest import Command
from ..suites.tiny_suite import Toy, outputs
from .counting_experts import files

TOY = "tests.benchmarks.suites.tiny_suite:Toy?count=3"
COIN = "judge=tests.benchmarks.suites.tiny_suite:CoinJudge"
DOCUMENT = Path(__file__).parents[3] / "docs" / "suites.md"


@pytest.fixture(autouse=True)
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What these files name beyond what is installed."""
    monkeypatch.setenv(
        "EDITCRITIC_TRUST", f"tests {tmp_path} https://api.openai.com/v1 http://127.0.0.1:8000/v1 ray://head:10001"
    )


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return outputs(tmp_path / "outputs", Toy(count=3))


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_run_is_repeated_from_the_settings_it_wrote(editcritic: Command, made: Path, tmp_path: Path) -> None:
    mine = written(
        tmp_path / "mine.toml",
        'experts = "experts.toml"\nbootstrap_samples = 50\nseed = 3\nmax_in_flight = 2\n[prices]\njudge = 0.5\n',
    )
    written(tmp_path / "experts.toml", f'judge = "{COIN.partition("=")[2]}"\n')
    run = ("bench", "run", TOY, "--outputs", made, "--metric", "following", "--config", mine)
    first = editcritic(*run, "--budget", "cost=20", "-o", tmp_path / "a")
    assert first.exit_code == 0, first.stderr
    settings = read_run_settings(tmp_path / "a" / "run.toml")
    assert (settings.seed, settings.max_in_flight, settings.prices) == (3, 2, {"judge": 0.5})
    assert (settings.budget.cost, settings.metrics, settings.editor_name) == (20.0, ("following",), "outputs")
    again = editcritic("bench", "run", "--config", tmp_path / "a" / "run.toml", "-o", tmp_path / "elsewhere" / "b")
    assert again.exit_code == 0, again.stderr
    assert files(tmp_path / "a") == files(tmp_path / "elsewhere" / "b")
    resumed = editcritic("bench", "run", "--config", tmp_path / "a" / "run.toml", "--json")
    assert json.loads(resumed.stdout)["out"] == str(tmp_path / "a")
    assert read_run_settings(tmp_path / "a" / "run.toml") == settings


def test_the_settings_of_a_locked_run_name_the_lock(editcritic: Command, made: Path, tmp_path: Path) -> None:
    lock = tmp_path / "protocol.toml"
    editcritic("bench", "run", TOY, "--experts", COIN, "--metric", "following", "--write-lock", lock)
    first = editcritic("bench", "run", "--lock", lock, "--outputs", made, "-o", tmp_path / "a")
    assert first.exit_code == 0, first.stderr
    settings = read_run_settings(tmp_path / "a" / "run.toml")
    assert settings.lock is not None
    assert settings.lock.samefile(lock)
    assert not settings.model_fields_set & set(DECIDED_BY_LOCK)
    again = editcritic("bench", "run", "--config", tmp_path / "a" / "run.toml", "-o", tmp_path / "b")
    assert again.exit_code == 0, again.stderr
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_options_override_the_file(editcritic: Command, made: Path, tmp_path: Path) -> None:
    config = written(
        tmp_path / "run.toml",
        f'suite = "{TOY}"\noutputs = "outputs"\nout = "from-file"\nexperts = "{COIN}"\nmetrics = ["guards"]\n'
        "reproducible = true\neditor_name = 'file'\n",
    )
    options = ("--metric", "following", "--no-reproducible", "--editor-name", "option", "-o", tmp_path / "option")
    ran = editcritic("bench", "run", "--config", config, *options)
    assert ran.exit_code == 0, ran.stderr
    result = json.loads((tmp_path / "option" / "result.json").read_text())
    assert (result["editor"], result["provenance"]["reproducible"]) == ("option", False)
    assert list(result["counts"]["metrics"]) == ["following"]
    assert not (tmp_path / "from-file").exists()
    assert "from-file" in config.read_text()


def test_a_file_of_the_users_in_the_result_folder_stays_as_it_is(
    editcritic: Command, made: Path, tmp_path: Path
) -> None:
    text = f'# mine\nsuite = "{TOY}"\noutputs = "../outputs"\nout = "."\nexperts = "{COIN}"\nmetrics = "following"\n'
    (tmp_path / "out").mkdir()
    config = written(tmp_path / "out" / "run.toml", text.replace('"following"', '["following"]'))
    before = config.read_text()
    ran = editcritic("bench", "run", "--config", config)
    assert ran.exit_code == 0, ran.stderr
    assert config.read_text() == before


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
        ("seed = ", "is not TOML"),
        ('journal = "a\\u0000"', "journal: value error, a path has no null character"),
    ],
)
def test_what_is_wrong_in_a_file_is_told(text: str, message: str, editcritic: Command, tmp_path: Path) -> None:
    config = written(tmp_path / "run.toml", text)
    refused = editcritic("bench", "run", TOY, "--outputs", tmp_path, "-o", tmp_path / "out", "--config", config)
    assert refused.exit_code == 2
    assert f"{config}" in refused.stderr
    assert message in refused.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bootstrap_samples = 2_000_000_000", "bootstrap samples: expected an integer of 0 to 100,000, got 2000000000"),
        ("seed = -1", "the seed: expected an integer of 0 to"),
        (f"seed = {10**30}", "is not TOML: an integer has more than 64 bits"),
    ],
)
def test_numbers_of_a_file_are_bounded(
    text: str, message: str, editcritic: Command, made: Path, tmp_path: Path
) -> None:
    config = written(tmp_path / "mine.toml", f'experts = "{COIN}"\n{text}\n')
    run = ("bench", "run", TOY, "--outputs", made, "-o", tmp_path / "out", "--config", config)
    refused = editcritic(*run)
    assert refused.exit_code == 2
    assert message in refused.stderr


def test_experts_in_a_file_that_cannot_be_split_are_refused_without_a_traceback(
    editcritic: Command, made: Path, tmp_path: Path
) -> None:
    config = written(tmp_path / "run.toml", 'experts = ["judge=\'a"]')
    refused = editcritic("bench", "run", TOY, "--outputs", made, "-o", tmp_path / "out", "--config", config)
    assert refused.exit_code == 2
    assert "cannot parse the experts: No closing quotation" in refused.stderr


def test_what_a_run_lacks_is_named(editcritic: Command, made: Path, tmp_path: Path) -> None:
    for arguments, message in (
        ((TOY,), "give --outputs and --out"),
        ((TOY, "--outputs", made), "give --out,"),
        ((TOY, "--outputs", made, "--write-lock", tmp_path / "lock.toml"), "give --out,"),
        (("--outputs", made, "-o", tmp_path / "out"), "give a SUITE"),
        ((TOY, "--config", tmp_path / "none.toml"), "cannot read"),
    ):
        refused = editcritic("bench", "run", *arguments)
        assert (refused.exit_code, message in refused.stderr) == (2, True), refused.stderr


def test_all_settings_are_written_and_read_back(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "results"
    folder.mkdir(parents=True)
    everything = RunSettings(
        suite={"use": "edival", "mode": "singlepass"},
        data=tmp_path / "data",
        outputs=tmp_path / "made",
        out=folder,
        editor_name='a "name"',
        experts=("judge=served?model=x detector=owlv2-base", f"{tmp_path / 'my experts.toml'}".replace(" ", "\\ ")),
        protocol="paper",
        metrics=("if", "cc"),
        reproducible=True,
        bootstrap_samples=0,
        seed=7,
        journal=tmp_path / "journal",
        max_in_flight=8,
        max_failure_rate=0.1,
        on_failures="wait",
        outage_timeout_s=60.0,
        allow_partial=True,
        budget=BudgetSettings(judge_calls=9, seconds=1.5),
        prices={"judge.quality": 0.25},
        ray=RaySettings(address="ray://head:10001", workers=8, cpus=2.0, gpus=0.5),
    )
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


def test_a_run_that_ends_early_has_written_its_settings(editcritic: Command, made: Path, tmp_path: Path) -> None:
    run = ("bench", "run", TOY, "--outputs", made, "--experts", COIN, "--metric", "following", "-o", tmp_path / "a")
    assert editcritic(*run, "--budget", "judge_calls=1").exit_code == 1
    settings = tmp_path / "a" / "run.toml"
    assert read_run_settings(settings).budget.judge_calls == 1
    assert editcritic("bench", "run", "--config", settings, "--budget", "judge_calls=99").exit_code == 0
    assert read_run_settings(settings).budget.judge_calls == 99


def test_a_table_binds_experts_too(tmp_path: Path) -> None:
    config = written(tmp_path / "run.toml", '[experts]\njudge = "colour"\n')
    assert read_run_settings(config).experts == {"judge": "colour"}


def test_what_is_given_beside_a_lock_is_known_from_both_sources(tmp_path: Path) -> None:
    settings = read_run_settings(written(tmp_path / "run.toml", "seed = 0\n")).overridden({"protocol": "paper"})
    with pytest.raises(InputError, match="the lock decides protocol, seed"):
        settings.require_nothing_locked()


def test_every_key_is_documented() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    keys = [*RunSettings.model_fields, *(f"budget.{name}" for name in BudgetSettings.model_fields)]
    keys += [f"ray.{name}" for name in RaySettings.model_fields]
    assert [key for key in keys if f"`{key}`" not in text] == []


def test_the_settings_shown_are_valid(tmp_path: Path) -> None:
    _, shown = DOCUMENT.read_text(encoding="utf-8").split("```toml\n")
    settings = read_run_settings(written(tmp_path / "run.toml", shown.partition("```")[0]))
    assert (settings.out, settings.budget.cost) == (tmp_path / "results" / "mine", 20.0)
