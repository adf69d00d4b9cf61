"""Two processes of one training on this machine, as a launcher starts them."""

import json
import random
import socket
from pathlib import Path
from typing import Any

from .prepared_processes import TrainerProcess


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
