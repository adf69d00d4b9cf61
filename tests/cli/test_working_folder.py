"""Modules of the working folder, where a stranger's may lie, are not run by the processes that a command starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from editcritic.reward.child_python import python_command


@pytest.mark.skipif(sys.version_info < (3, 11), reason="older interpreters look in the working folder whatever is set")
def test_processes_of_a_pool_run_no_modules_of_the_working_folder(tmp_path: Path) -> None:
    for name in ("editcritic", "json", "multiprocessing", "numpy"):
        (tmp_path / f"{name}.py").write_text("open('was-run', 'w').close()\nraise SystemExit")
    validity = ("dev", "validity", "--reward", "guard-not-blank", "--num-cases", "8", "--processes", "2")
    command = python_command("from editcritic.cli.main import main; main()", *validity, "--no-noise-sweep")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    ran = subprocess.run(
        [*command, "-o", "report.html"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240
    )
    assert ran.returncode == 0, ran.stderr
    assert not (tmp_path / "was-run").exists()
