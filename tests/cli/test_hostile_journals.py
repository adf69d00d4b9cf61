"""`edit` and `bench generate` in the folders of strangers: a line and exit code 2, and nothing is waited for."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ..benchmarks.conftest import Command
from ..reward.fakes import picture
from ..verifiers.numpy_editor import Graded, Painter
from ..verifiers.selection.test_hostile_journals import device, fifo, forge
from .test_edit_output import Reader


@pytest.fixture
def resumed(editcritic: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """Runs `edit` again in the folder `out`, where it has run."""
    mine: Any = ModuleType("mine")
    mine.painter, mine.Graded, mine.Reader = Painter(), Graded, Reader
    monkeypatch.setitem(sys.modules, "mine", mine)
    monkeypatch.setenv("EDITCRITIC_TRUST", "mine")
    picture(1).pil().save(tmp_path / "source.png")
    worth = '[reward]\nuse = "mine:Graded"\n[experts]\njudge = "mine:Reader"\n'
    (tmp_path / "worth.toml").write_text(worth, encoding="utf-8")
    options = ("--instruction", "make it blue", "--pipeline", "mine:painter", "--reward", tmp_path / "worth.toml")

    def run() -> Any:
        return editcritic(
            "edit", tmp_path / "source.png", *options, "--selector", "best-of?n=3", "-o", tmp_path / "out"
        )

    first = run()
    assert first.exit_code == 0, first.stderr
    return run


def with_fifos(folder: Path) -> None:
    for file in (folder / "images").iterdir():
        file.unlink()
        os.mkfifo(file)


def with_link(folder: Path) -> None:
    (folder / "states").rmdir()
    (folder / "states").symlink_to(folder)


def with_fifo_as_database(folder: Path) -> None:
    (folder / "journal.sqlite").unlink()
    os.mkfifo(folder / "journal.sqlite")


HOSTILE: dict[str, Callable[[Path], None]] = {
    "score": lambda folder: forge(folder, "scores", lambda row: (row[0], "[]", *row[2:])),
    "cost": lambda folder: forge(folder, "scores", lambda row: (*row[:3], "long")),
    "digest": lambda folder: forge(folder, "images", lambda row: (row[0], "../x", *row[2:])),
    "FIFOs": with_fifos,
    "link": with_link,
    "FIFO as database": with_fifo_as_database,
}


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_run_in_a_hostile_folder_ends_with_a_line(hostile, resumed, tmp_path):
    HOSTILE[hostile](tmp_path / "out" / "journal")
    result = resumed()
    assert result.exit_code == 2, result.stderr
    (line,) = (line for line in result.stderr.splitlines() if not line.startswith("editcritic: loading"))
    assert str(tmp_path / "out" / "journal") in line


@pytest.mark.parametrize("special", [fifo, device])
def test_a_report_that_is_no_file_is_not_read(special, resumed, tmp_path):
    (tmp_path / "out" / "report.json").unlink()
    special(tmp_path / "out" / "report.json")
    result = resumed()
    assert (result.exit_code, result.stderr.count("\n"), "report.json" in result.stderr) == (2, 1, True)


def test_a_hostile_journal_of_generated_outputs_ends_with_a_line(editcritic, tmp_path, monkeypatch):
    mine: Any = ModuleType("mine")
    mine.painter = Painter()
    monkeypatch.setitem(sys.modules, "mine", mine)
    (tmp_path / "out" / "journal").mkdir(parents=True)
    os.mkfifo(tmp_path / "out" / "journal" / "journal.sqlite")
    suite = "tests.benchmarks.suites.tiny_suite:Toy?count=2"
    options = ("--pipeline", "mine:painter", "--selector", "best-of?n=2", "--reward", "guards")
    result = editcritic("bench", "generate", suite, *options, "-o", tmp_path / "out", code=2, says="journal.sqlite")
    assert result.stderr.count("\n") == 1
