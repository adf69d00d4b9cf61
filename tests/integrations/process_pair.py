"""Two processes of one training on this machine, as a launcher starts them."""

import json
import os
import random
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


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


def found_by_both(module: str, folder: Path) -> list[Any]:
    """Run a module as either rank, with the folder as its argument; gives back what they left there, `RANK.json`."""
    group = {
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(rendezvous_port()),
        "ACCELERATE_USE_CPU": "true",
    }
    started = []
    try:
        for rank in ("0", "1"):
            with (folder / f"{rank}.log").open("w") as log:
                started.append(
                    subprocess.Popen(
                        [sys.executable, "-m", module, str(folder)],
                        cwd=ROOT,
                        env={**os.environ, **group, "RANK": rank, "LOCAL_RANK": rank, "OMP_NUM_THREADS": "1"},
                        stdout=log,
                        stderr=log,
                    )
                )
        ended = [process.wait(timeout=600) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert ended == [0, 0], "\n".join((folder / f"{rank}.log").read_text() for rank in range(2))
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]
