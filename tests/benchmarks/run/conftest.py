"""A suite of six items, its outputs, and `bench run` of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from ..conftest import Command
from ..suites.tiny_suite import Toy, outputs

TOY = "tests.benchmarks.suites.tiny_suite:Toy?count=3"
COIN = "judge=tests.benchmarks.suites.tiny_suite:CoinJudge"
SCORED = ("--experts", COIN, "--metric", "following")

Bench = Callable[..., Result]


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What files of these tests name beyond what is installed."""
    addresses = "https://api.openai.com/v1 http://127.0.0.1:8000/v1 ray://head:10001"
    monkeypatch.setenv("EDITCRITIC_TRUST", f"tests {tmp_path} {addresses}")


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return outputs(tmp_path / "outputs", Toy(count=3))


@pytest.fixture
def bench(editcritic: Command) -> Bench:
    """Runs `bench run`. says: what it prints on standard error; code: its exit code."""

    def run(*arguments: object, says: str = "", code: int | None = 0) -> Result:
        return editcritic("bench", "run", *arguments, code=code, says=says)

    return run
