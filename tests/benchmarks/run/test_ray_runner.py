"""A Ray cluster of two workers judges a suite, and nobody can tell from what is written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from editcritic.benchmarks.suite_run.raying import _each, _over
from editcritic.benchmarks.suite_run.running import How, carry_out
from editcritic.benchmarks.suite_run.spending import Limits, Spent

from ..suites.toy import Toy, outputs
from .asked import files

ROOT = Path(__file__).parents[3]


def test_two_workers_within_a_budget_and_then_without_write_what_one_process_writes(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    from .on_ray import recipe

    outputs(tmp_path / "outputs", Toy(count=5), without=["2/1"])
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.suite_run.on_ray", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    first, second = json.loads((tmp_path / "found.json").read_text())
    assert "budget of 2 judge calls is spent" in first["ended"]
    assert "the share of one of 2 workers" in first["ended"]
    assert 2 <= first["paid"] <= 4
    assert second == {"ended": "", "missing": 2, "paid": 8, "questions": 8}
    ran = carry_out(recipe(tmp_path).asked(), How(), out=tmp_path / "one")
    assert ran is not None
    assert files(tmp_path / "one") == files(tmp_path / "ray")


def test_a_budget_is_divided_among_the_workers() -> None:
    limits, before = Limits(judge_calls=11, spend=5.0), Spent(judge_calls=2, spend=1.0)
    assert _each(limits, before, 4) == Limits(judge_calls=2, spend=1.0)
    assert not _over(limits, before, 4)
    assert "11 judge calls" in _over(limits, Spent(judge_calls=9), 4)
