"""A run of GEdit-Bench that is killed resumes without paying again, and ends as if it had not been."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from ...run.counting_experts import files
from .judge import Grading
from .killed_run import MOMENTS
from .layout import KEYS, on_hub, outputs

ROOT = Path(__file__).parents[4]
TYPES = 11


@pytest.mark.skipif(os.name == "nt", reason="Windows has no fork")
@pytest.mark.parametrize("processes", [1, 2])
def test_a_killed_run_ends_as_one_of_one_process_that_was_not(tmp_path: Path, processes: int) -> None:
    on_hub(tmp_path / "data")
    outputs(tmp_path / "made")
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.suites.gedit.killed_run", str(tmp_path), str(processes)],
        cwd=ROOT,
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
        },
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    kills = json.loads((tmp_path / "kills.json").read_text())
    assert sum(killed for _, killed in kills) >= len(MOMENTS) - 1
    assert len({paid for paid, _ in kills}) > 3
    assert files(tmp_path / "killed") == files(tmp_path / "straight")

    paid = (tmp_path / "paid_when_killed").read_text().split()
    num_queries = 2 * (2 * KEYS * TYPES)  # SC and PQ of each edit
    assert len(set(paid)) == num_queries == len((tmp_path / "paid").read_text().split())
    again = sum(times - 1 for times in Counter(paid).values())
    assert again <= len(kills) * processes * Grading.batch, "only what was in flight when it was killed"
