"""`dev` has the tools of contributors: a test of the tree runs, and a user's file is checked."""

import subprocess
import sys

for command in (
    ["pytest", "-q", "-n", "0", "--import-mode=importlib", "--rootdir=.", "tests/reward/test_boxes.py"],
    ["mypy", "--version"],
    ["ruff", "--version"],
    ["build", "--version"],
    ["twine", "--version"],
    ["check_wheel_contents", "--version"],
):
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
