"""A run of ImgEdit-Bench is killed while it is judged, again and again: `python -m … DATA MADE FOLDER PROCESSES`."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from editcritic.benchmarks.run.rendezvous import SINGLE_PROCESS, ProcessRank
from editcritic.benchmarks.run.run_config import ExecutionOptions, RunConfig
from editcritic.benchmarks.run.runner import execute
from editcritic.benchmarks.suites.imgedit.suite import ImgEditBench

from .layout import Grading

MOMENTS = (1, 5, 11)
"""Questions after which it is killed."""


def main(data: Path, made: Path, folder: Path, processes: int) -> None:
    suite = ImgEditBench(data)
    log = folder / "log"

    def started() -> list[int]:
        """The processes that resume the run in FOLDER/killed."""
        children = []
        for rank in range(processes):
            child = os.fork()
            if not child:
                judged(suite, made, log, folder / "killed", ProcessRank(rank, processes))
                os._exit(0)
            children.append(child)
        return children

    for moment in MOMENTS:
        children = started()
        deadline = time.monotonic() + 60
        while asked(log) < moment and time.monotonic() < deadline:
            time.sleep(0.002)
        for child in children:
            os.kill(child, signal.SIGKILL)
        statuses = [os.waitpid(child, 0)[1] for child in children]
        assert all(map(os.WIFSIGNALED, statuses)), "it was done before it was killed"
    statuses = [os.waitpid(child, 0)[1] for child in started()]
    assert not any(statuses), statuses
    log.rename(folder / "log_when_killed")  # the judge's file is part of its spec, which is part of the results
    judged(suite, made, log, folder / "straight")


def judged(suite: ImgEditBench, made: Path, log: Path, out: Path, process: ProcessRank = SINGLE_PROCESS) -> None:
    config = RunConfig(suite, made, "mine", {"judge": Grading(str(log), 0.02)})
    execute(config, ExecutionOptions(), out=out, process=process)


def asked(log: Path) -> int:
    return log.read_bytes().count(b"\n") if log.exists() else 0


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
