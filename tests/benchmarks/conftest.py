"""Fixtures of command line tests: real commands on real files."""

import io
import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import typer.testing
from typer.main import get_command
from typer.testing import CliRunner, Result

from editcritic.benchmarks.demo.photographs import PHOTOS
from editcritic.cli.app import app

# Converting our commands into click's takes longer than most of them run: once, and not at each call of a test.
typer.testing._get_command = cache(get_command)  # type: ignore[attr-defined]

SIDE = 128

# Two guards that look at pixels alone: a reward that takes milliseconds and understands any instruction.
CHEAP = """
[reward]
use = "weighted-mean"
parts.changed.use = "guard-not-a-copy"
parts.not_blank.use = "guard-not-blank"
"""

Command = Callable[..., Result]


@pytest.fixture(scope="session")
def editcritic() -> Command:
    """Runs a command, which has to exit without a traceback. code: its exit code. says, shows: texts that it prints on
    standard error, and on standard output."""

    def run(
        *arguments: object,
        code: int | None = None,
        says: str | Sequence[str] = (),
        shows: str | Sequence[str] = (),
    ) -> Result:
        result = CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(argument) for argument in arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert "Traceback" not in result.stdout + result.stderr
        assert code is None or result.exit_code == code, (result.exit_code, result.stderr)
        for texts, printed in ((says, result.stderr), (shows, result.stdout)):
            for text in (texts,) if isinstance(texts, str) else texts:
                assert text in printed, (text, printed)
        return result

    return run


def photograph() -> PIL.Image.Image:
    """The astronaut, small."""
    return PIL.Image.fromarray(PHOTOS["astronaut"].pixels).resize((SIDE, SIDE))


def patched(share: float) -> PIL.Image.Image:
    """The photograph with a green square of this share of its side."""
    pixels = np.array(photograph())
    pixels[: int(share * SIDE), : int(share * SIDE)] = (20, 180, 40)
    return PIL.Image.fromarray(pixels)


@cache
def pictures() -> dict[str, bytes]:
    """The files of a folder's pictures, by name."""
    images = {
        "source": photograph(),
        "copy": photograph(),
        "patched": patched(0.4),
        "blank": PIL.Image.new("RGB", (SIDE, SIDE), (9, 9, 9)),
    }
    files = {}
    for name, image in images.items():
        image.save(buffer := io.BytesIO(), "PNG")
        files[f"{name}.png"] = buffer.getvalue()
    return files


class Folder:
    """A folder with `source.png`, three edits of it, and sample files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cheap = path / "cheap.toml"
        self.cheap.write_text(CHEAP, encoding="utf-8")
        for name, content in pictures().items():
            (path / name).write_bytes(content)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def row(self, **fields: object) -> dict[str, object]:
        """A line of a sample file."""
        return {"instruction": "Remove helmet", "source": "source.png", "edited": "patched.png", **fields}

    def samples(self, *rows: dict[str, object] | str, name: str = "samples.jsonl") -> Path:
        path = self.path / name
        lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def three_edits(folder: Folder) -> Path:
    """A sample file: a copy, a patched and a blank edit of one source."""
    return folder.samples(*(folder.row(id=name, edited=f"{name}.png") for name in ("copy", "patched", "blank")))


@pytest.fixture
def three(folder: Folder) -> Path:
    return three_edits(folder)


def read_jsonl(path: Path) -> Iterator[dict[str, object]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)
