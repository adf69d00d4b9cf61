"""A suite of six items, its outputs, and `bench run` of it."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from typer.testing import Result

from ..conftest import Folder
from ..suites.tiny_suite import Toy, outputs

TOY = "tests.benchmarks.suites.tiny_suite:Toy?count=3"
COIN = "judge=tests.benchmarks.suites.tiny_suite:CoinJudge"
SCORED = ("--experts", COIN, "--metric", "following")

Bench = Callable[..., Result]
ROOT = Path(__file__).parents[3]
ENVIRONMENT = {
    **os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT),
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
}  # fmt: skip


def python(*words: object, cwd: Path = ROOT, code: int = 0) -> str:
    """What Python prints in a process of its own, which has to end with this code."""
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=600)
    assert done.returncode == code, done.stderr
    return done.stdout


@pytest.fixture
def trusted(tmp_path, monkeypatch):
    """What files of these tests name beyond what is installed."""
    addresses = "https://api.openai.com/v1 http://127.0.0.1:8000/v1 ray://head:10001"
    monkeypatch.setenv("EDITCRITIC_TRUST", f"tests {tmp_path} {addresses}")


@pytest.fixture
def made(tmp_path):
    return outputs(tmp_path / "outputs", Toy(count=3))


@pytest.fixture
def bench(editcritic):
    """Runs `bench run`. says: what it prints on standard error; code: its exit code."""

    def run(*arguments: object, says: str = "", code: int | None = 0) -> Result:
        return editcritic("bench", "run", *arguments, code=code, says=says)

    return run


@pytest.fixture(scope="session")
def recorded(tmp_path_factory, editcritic):
    """A recording of three edits, with crops and rewritten queries, beside its samples."""
    folder = Folder(tmp_path_factory.mktemp("recorded"))
    boxes = {"helmet": [[70, 85, 127, 127]], "face": [[47, 13, 73, 41]]}
    rows = [folder.row(id=name, edited=f"{name}.png", boxes=boxes) for name in ("copy", "patched", "blank")]
    path = folder / "run.db"
    reward = folder / "reward.toml"
    reward.write_text(
        '[reward]\nuse = "weighted-mean"\nparts.consistency.use = "edival-cc"\nparts.changed.use = "guard-not-a-copy"\n'
    )
    result = editcritic("score", folder.samples(*rows), "--reward", reward, "--record", path)
    assert result.exit_code in (0, 2), result.stderr
    return path


@pytest.fixture
def recording(folder, recorded):
    """A copy of it."""
    for file in (recorded, recorded.with_name("samples.jsonl")):
        shutil.copyfile(file, folder / file.name)
    return folder / recorded.name


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        yield db
