"""Judge servers in processes of their own."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from editcritic.benchmarks.run.run_settings import format_toml

ROOT = Path(__file__).parents[3]


@contextmanager
def config_file(settings: Mapping[str, Any]) -> Iterator[str]:
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(format_toml(settings))
        file.flush()
        yield file.name


@contextmanager
def judge(
    *options: str,
    seconds: float = 0.0,
    stdout: int | None = None,
    settings: Mapping[str, Any] | None = None,
    **environment: str,
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Address and process of a server of `judge_server_process`. seconds: a sample takes. settings: of its file."""
    with (
        config_file(settings or {}) as config,
        subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.integrations.serving.judge_server_process"),
                *("--reward", "tests.reward.fakes:Rated"),
                *("--experts", f"preference=tests.integrations.serving.judge_server_process:Slow?seconds={seconds}"),
                *(() if "--port" in options else ("--port", "0")),
                *("--config", config, "--trust", config),
                *options,
            ],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line.startswith("serving"), line + process.stderr.read()
            url = line.split()[-1]
            while httpx2.get(f"{url}/readyz").status_code != 200:
                time.sleep(0.02)
            yield url, process
        finally:
            process.kill()
