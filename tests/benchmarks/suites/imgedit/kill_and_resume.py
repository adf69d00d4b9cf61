"""A run of ImgEdit-Bench is killed while it is judged, again and again: `python -m … DATA MADE FOLDER`."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from editcritic.benchmarks.run.runner import run_suite
from editcritic.benchmarks.suites.imgedit.suite import ImgEditBench

from .layout import Grading

MOMENTS = (1, 5, 11)
"""Questions after which it is killed."""


def main(data: Path, made: Path, folder: Path) -> None:
    suite = ImgEditBench(data)
    log = folder / "log"
    for moment in MOMENTS:
        child = os.fork()
        if not child:
            judged(suite, made, log, folder / "killed")
            os._exit(0)
        deadline = time.monotonic() + 60
        while asked(log) < moment and time.monotonic() < deadline:
            time.sleep(0.002)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), "it was done before it was killed"
    judged(suite, made, log, folder / "killed")
    log.rename(folder / "log_when_killed")  # the judge's file is part of its spec, which is part of the results
    judged(suite, made, log, folder / "straight")


def judged(suite: ImgEditBench, made: Path, log: Path, out: Path) -> None:
    run_suite(suite, made, experts={"judge": Grading(str(log), 0.02)}, out=out)


def asked(log: Path) -> int:
    return log.read_bytes().count(b"\n") if log.exists() else 0


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
