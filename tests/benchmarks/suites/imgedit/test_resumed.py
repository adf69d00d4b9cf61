"""A killed run of ImgEdit-Bench resumes, asks nothing again that was answered, and ends as an undisturbed one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from editcritic.benchmarks.suites.imgedit.suite import ImgEditBench

from ...run.counting_experts import files
from .kill_and_resume import MOMENTS
from .layout import basic_rows, outputs, repository

ROOT = Path(__file__).parents[4]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no fork")
@pytest.mark.parametrize("processes", [1, 2])
def test_a_run_that_is_killed_ends_as_one_of_one_process_that_was_not(tmp_path: Path, processes: int) -> None:
    data = repository(tmp_path / "data")
    made = outputs(tmp_path / "made", ImgEditBench(data))
    arguments = map(str, (data, made, tmp_path, processes))
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.suites.imgedit.kill_and_resume", *arguments],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    assert files(tmp_path / "killed") == files(tmp_path / "straight")
    questions = Counter((tmp_path / "log_when_killed").read_text().split())
    assert len(questions) == len(basic_rows())
    again = sum(count - 1 for count in questions.values())
    assert again <= processes * len(MOMENTS), "only a question that was not answered when it was killed"
