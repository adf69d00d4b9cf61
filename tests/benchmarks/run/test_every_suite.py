"""Every suite from its published layout to its tables, with equal files for any number of processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from editcritic.benchmarks.run.runner import execute
from editcritic.benchmarks.suites.results import load_results

from .all_suites import HOW, SUITES, recipe, write
from .counting_experts import files

ROOT = Path(__file__).parents[3]
TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """With data, outputs, and in `one` what one process makes of them."""
    path = tmp_path_factory.mktemp("suites")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(path / "cache"))
        write(path)
        for name in SUITES:
            execute(recipe(path, name).build(), HOW, out=path / "one" / name)
        yield path


def started(folder: Path, way: str, *launcher: str) -> None:
    done = subprocess.run(
        [sys.executable, *launcher, "-m", "tests.benchmarks.run.all_suites", str(folder), way],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_is_judged_whole(folder: Path, name: str) -> None:
    results = load_results(folder / "one" / name)
    assert not [row.id for row in results.rows if row.missing_reason]
    scored = [score for row in results.rows for score in row.scores.values() if score.status == "scored"]
    assert len(scored) >= len(results.rows) / 2
    assert results.provenance["suite"] == name
    tables = json.loads((folder / "one" / name / "result.json").read_text())["tables"]
    assert any(cell["value"] is not None for row in tables[0]["rows"].values() for cell in row.values())


def test_two_processes_write_what_one_writes(folder: Path) -> None:
    started(folder, "share", *TORCHRUN)
    for name in SUITES:
        assert files(folder / "two" / name) == files(folder / "one" / name)
        facts = json.loads((folder / "two" / name / "run.json").read_text())
        assert len(facts["processes"]) == 2
