"""Processes of trainers, forked from one that has imported their libraries: it begins once a session.

A trainer's libraries take several seconds to import, most tests start two processes, and none of them is about
imports. The process that is forked from has one thread and no test's state; what it forks gets the environment of now.
"""

import importlib
import json
import os
import random
import signal
import socket
import sys
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PREPARED = ("tests.pipelines", "tests.integrations.trl_runs", "fastapi", "uvicorn")
"""Imported before the first fork, as long as the working folder is the root of the repository."""


class TrainerProcess:
    """A process of a session of its own that calls `module:function` with texts, and ends with an exit code."""

    def __init__(self, call: str, *arguments: str, log: Path, **environment: str) -> None:
        """log: the file that it writes its output to. environment: beside that of this process."""
        context = get_context("forkserver")
        context.set_forkserver_preload([*PREPARED])
        self.log = log
        self._process: ForkServerProcess = context.Process(
            target=_run, args=(call, arguments, log, {**os.environ, **environment, "OMP_NUM_THREADS": "1"})
        )
        self._process.start()

    @property
    def ended(self) -> bool:
        return self._process.exitcode is not None

    def wait(self, timeout_s: float) -> int | None:
        """The exit code; None if it still runs then."""
        self._process.join(timeout_s)
        return self._process.exitcode

    def kill(self) -> None:
        """With its own children, by SIGKILL. Nothing if it has ended: its number may be another's."""
        if self.ended:
            return
        with suppress(ProcessLookupError):  # before its session has begun
            os.killpg(self._process.pid or 0, signal.SIGKILL)
        self._process.kill()
        self._process.join()


def _run(call: str, arguments: tuple[str, ...], log: Path, environment: dict[str, str]) -> None:
    os.setsid()
    os.chdir(ROOT)
    with log.open("w") as output:
        os.dup2(output.fileno(), sys.__stdout__.fileno())  # type: ignore[union-attr]
        os.dup2(output.fileno(), sys.__stderr__.fileno())  # type: ignore[union-attr]
    os.environ.clear()
    os.environ.update(environment)
    module, _, function = call.partition(":")
    getattr(importlib.import_module(module), function)(*arguments)


def rendezvous_port() -> int:
    """A free port that no server beside this test is given meanwhile: those ask for any, and get higher ones."""
    while True:
        port = random.Random().randrange(10_000, 30_000)
        with socket.socket() as free:
            try:
                free.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def found_by_both(call: str, folder: Path) -> list[Any]:
    """Let both ranks call `module:function` with the folder; gives back what they left there, `RANK.json`."""
    group = {
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(rendezvous_port()),
        "ACCELERATE_USE_CPU": "true",
    }
    started: list[TrainerProcess] = []
    try:
        for rank in ("0", "1"):
            log = folder / f"{rank}.log"
            started.append(TrainerProcess(call, str(folder), log=log, **group, RANK=rank, LOCAL_RANK=rank))
        ended = [process.wait(600) for process in started]
    finally:
        for process in started:
            process.kill()
    assert ended == [0, 0], "\n".join(process.log.read_text() for process in started)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]
