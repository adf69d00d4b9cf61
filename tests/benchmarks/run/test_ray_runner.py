"""A Ray cluster of two workers writes the same results as one process."""

import json
import subprocess

import pytest

from editcritic.benchmarks.run.ray_runner import _exhausted_limit, _share_of_limits
from editcritic.benchmarks.run.run_budget import Usage
from editcritic.benchmarks.run.runner import RunConfig, RunSettings, execute
from editcritic.reward.child_python import python_command

from ..suites.tiny_suite import Toy, outputs
from . import all_suites
from .conftest import ENVIRONMENT, python
from .counting_experts import files
from .test_every_suite import started


def test_two_workers_within_a_budget_and_then_without_write_what_one_process_writes(tmp_path):
    pytest.importorskip("ray")
    from .ray_run import recipe

    outputs(tmp_path / "outputs", Toy(count=5), without=["2/1"])
    python("-m", "tests.benchmarks.run.ray_run", tmp_path)
    first, second = json.loads((tmp_path / "runs.json").read_text())
    assert "budget of 2 judge calls is spent" in first["stop_reason"]
    assert "the share of one of 2 workers" in first["stop_reason"]
    assert 2 <= first["paid"] <= 4
    assert second == {"stop_reason": "", "missing": 2, "paid": 8, "questions": 8}
    ran = execute(RunConfig.build(recipe(tmp_path, "one")))
    assert ran is not None
    assert files(tmp_path / "one") == files(tmp_path / "ray")


def test_two_workers_write_of_real_suites_what_one_process_writes(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    all_suites.write(tmp_path)
    for name in all_suites.RAY_SUITES:
        execute(RunConfig.build(all_suites.recipe(tmp_path, name)))
    started(tmp_path, "ray")
    for name in all_suites.RAY_SUITES:
        assert files(tmp_path / "ray" / name) == files(tmp_path / "one" / name)


def test_workers_run_no_modules_of_the_working_folder(tmp_path):
    pytest.importorskip("ray")
    for name in ("pandas", "pyarrow", "pydantic"):  # which workers import
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'was-run')!r}, 'w').close()\nraise SystemExit")
    (tmp_path / "outputs").mkdir()
    (tmp_path / "run.toml").write_text(
        'suite = "sceneedit?prompts=1"\nmetrics = ["any-edit"]\noutputs = "outputs"\nout = "results"\n'
        "[ray]\nworkers = 1\n"
    )
    command = python_command("from editcritic.cli.main import main; main()", "bench", "run", "--config", "run.toml")
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert not (tmp_path / "was-run").exists()
    assert done.returncode == 1, done.stderr  # its image is missing


def test_a_budget_is_divided_among_the_workers():
    budget = {"judge_calls": 11, "cost": 5.0}
    settings, before = RunSettings().overridden({"budget": budget, "ray": {"workers": 4}}), Usage({}, 2, 0, 1.0)
    assert _share_of_limits(settings, before).model_dump(exclude_none=True) == {"judge_calls": 2, "cost": 1.0}
    assert not _exhausted_limit(settings, before)
    assert "11 judge calls" in _exhausted_limit(settings, Usage(judge_calls=9))
