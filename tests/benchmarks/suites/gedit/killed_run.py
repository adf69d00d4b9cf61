"""A run of GEdit-Bench is killed again and again: `python -m … FOLDER` leaves FOLDER/kills.json.

FOLDER has `data` and `made`. What each of them pays for is in `paid_when_killed` and, of an undisturbed run, in `paid`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from editcritic.benchmarks.run.runner import run_suite
from editcritic.benchmarks.suites.gedit.suite import GEditBench
from editcritic.reward.reward import default_experts

from .judge import Grading

MOMENTS = (0, 10, 40, 90, 130, 170)
"""Queries that are paid for when the run is killed."""


def main(folder: Path) -> None:
    suite = GEditBench(folder / "data")
    kills: list[list[int]] = []
    paid = folder / "paid"
    for moment in MOMENTS:
        child = os.fork()
        if not child:
            judged(suite, folder, folder / "killed")
            os._exit(0)
        while lines(paid) < moment and not os.waitpid(child, os.WNOHANG)[0]:
            time.sleep(0.0005)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        kills.append([lines(paid), os.WIFSIGNALED(status)])
    judged(suite, folder, folder / "killed")
    paid.rename(folder / "paid_when_killed")  # the judge's file is part of its spec, which is part of the results
    judged(suite, folder, folder / "straight")
    (folder / "kills.json").write_text(json.dumps(kills))


def judged(suite: GEditBench, folder: Path, out: Path) -> None:
    experts = {**default_experts(), "judge": Grading(str(folder / "paid"), 0.005)}
    run_suite(suite, folder / "made", editor="mine", experts=experts, out=out)


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


if __name__ == "__main__":
    main(Path(sys.argv[1]))
