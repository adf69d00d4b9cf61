"""A run of GEdit-Bench is killed again and again: `python -m … FOLDER PROCESSES` leaves FOLDER/kills.json.

FOLDER has `data` and `made`. What is paid for is in `paid_when_killed` and, of an undisturbed run of one process, in
`paid`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from editcritic.benchmarks.run.run_journal import SINGLE_PROCESS, ProcessRank
from editcritic.benchmarks.run.runner import RunConfig, RunSettings, execute
from editcritic.benchmarks.suites.gedit.suite import GEditBench
from editcritic.reward.reward import default_experts

from .judge import Grading

MOMENTS = (0, 10, 40, 90, 130, 170)
"""Queries that are paid for when the run is killed."""


def main(folder: Path, processes: int) -> None:
    suite = GEditBench(folder / "data")
    kills: list[list[int]] = []
    paid = folder / "paid"
    for moment in MOMENTS:
        children = started(suite, folder, processes)
        deadline = time.monotonic() + 60
        while lines(paid) < moment and time.monotonic() < deadline:
            time.sleep(0.0005)
        for child in children:
            os.kill(child, signal.SIGKILL)
        statuses = [os.waitpid(child, 0)[1] for child in children]
        kills.append([lines(paid), all(map(os.WIFSIGNALED, statuses))])
    statuses = [os.waitpid(child, 0)[1] for child in started(suite, folder, processes)]
    assert not any(statuses), statuses
    paid.rename(folder / "paid_when_killed")  # the judge's file is part of its spec, which is part of the results
    judged(suite, folder, folder / "straight")
    (folder / "kills.json").write_text(json.dumps(kills))


def started(suite: GEditBench, folder: Path, processes: int) -> list[int]:
    """The processes that resume the run in FOLDER/killed."""
    children = []
    for rank in range(processes):
        child = os.fork()
        if not child:
            judged(suite, folder, folder / "killed", ProcessRank(rank, processes))
            os._exit(0)
        children.append(child)
    return children


def judged(suite: GEditBench, folder: Path, out: Path, process: ProcessRank = SINGLE_PROCESS) -> None:
    experts = {**default_experts(), "judge": Grading(str(folder / "paid"), 0.005)}
    settings = RunSettings(outputs=folder / "made", editor_name="mine", out=out)
    execute(RunConfig.build(settings, experts, suite), process=process)


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
