"""A real `transformers serve` on this machine, for the models of folders."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

START_S = 90.0
"""Seconds that a server has for its start: most of them for importing torch."""


@contextmanager
def serving_models(log_path: Path, *models: Path) -> Iterator[str]:
    """The address of a server, as in `http://127.0.0.1:8000/v1`; it ends with the context. log_path: what the server
    prints. models: a folder that it loads at once and serves alone; without one, a request names the folder, which the
    server then loads."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = "import sys; from transformers.cli.transformers import main; sys.argv[0] = 'transformers'; main()"
    options = ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu", "--dtype", "float32"]
    with log_path.open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-c", script, "serve", *map(str, models), *options],
            env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", server, log_path)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait(10)


def _wait_for(address: str, server: "subprocess.Popen[bytes]", log_path: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=2):
                return
        except OSError:
            time.sleep(0.1)
    pytest.fail(f"transformers serve did not start: {log_path.read_text()[-2000:]}")
