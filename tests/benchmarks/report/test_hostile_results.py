"""Result folders of strangers: a line and exit code 2, or tables and a page, whatever stands in them."""

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from ..conftest import Command
from .synthetic_results import Drawn

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no FIFOs or device files")
SUITE = ("--suite", f"{Drawn.__module__}:Drawn")
_ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 2**62, 1e308, -1e308),
    *("", "x", "\x1b[2J", "=1+1", "[/red]", "../../../../etc/passwd", "a" * 5_000),
    *([], {}, [[]], [None, None], {"": ""}, {"use": "os:system"}, [1, 2], ["a"], {"a": {"b": {"c": None}}}),
)


def mutated(value: Any, chance: random.Random) -> Any:
    """JSON with one value of it replaced, removed or renamed."""
    if not isinstance(value, dict | list) or not value or chance.random() < 0.1:
        return chance.choice(_ODD)
    if isinstance(value, list):
        place = chance.randrange(len(value))
        return [mutated(item, chance) if number == place else item for number, item in enumerate(value)]
    name = chance.choice(list(value))
    rest = {key: item for key, item in value.items() if key != name}
    return rest if chance.random() < 0.1 else {**rest, name: mutated(value[name], chance)}


def test_mutated_results_are_compared_or_refused(editcritic: Command, folders: Path, tmp_path: Path) -> None:
    chance = random.Random(28)
    files = [folders / "bad" / name for name in ("result.json", "scores.jsonl", "scores.jsonl", "run.json")]
    generated = tmp_path / "pictures" / "generated.jsonl"
    codes = []
    for number in range(60):
        path = chance.choice([*files, generated])
        intact = path.read_text(encoding="utf-8")
        lines = intact.splitlines()
        place = chance.randrange(len(lines))
        lines[place] = json.dumps(mutated(json.loads(lines[place]), chance))
        path.write_text("\n".join(lines), encoding="utf-8")
        page = tmp_path / "report.html"
        command = ("report", folders, *SUITE, "-o", page) if number % 2 else ("compare", *folders.iterdir(), *SUITE)
        result = editcritic("bench", *command, "--trust", SUITE[1].partition(":")[0], "--trust", folders / "bad")
        codes.append(result.exit_code)
        assert result.exit_code in (0, 1, 2), lines[place]
        assert "\x1b" not in result.stdout + result.stderr
        if result.exit_code == 2:
            assert result.stderr.strip()
            assert len(result.stderr) < 5_000
        path.write_text(intact, encoding="utf-8")
        shutil.rmtree(tmp_path / "report_files", ignore_errors=True)
    assert {0, 2} <= set(codes)


@pytest.mark.parametrize("name", ["result.json", "scores.jsonl"])
@pytest.mark.parametrize("kind", ["fifo", "device", "folder"])
def test_results_are_regular_files(name: str, kind: str, editcritic: Command, folders: Path) -> None:
    path = folders / "bad" / name
    path.unlink()
    {"fifo": os.mkfifo, "device": lambda one: one.symlink_to("/dev/zero"), "folder": Path.mkdir}[kind](path)
    editcritic("bench", "report", folders / "good", folders / "bad", *SUITE, code=2, says="it is a ")


def test_an_editors_outputs_lie_in_their_folder(editcritic: Command, folders: Path, tmp_path: Path) -> None:
    pictures = tmp_path / "pictures"
    first, second, third = sorted(pictures.glob("*.png"))[:3]
    (tmp_path / "secret.png").write_bytes(first.read_bytes())
    for path, target in ((first, "../secret.png"), (second, "/dev/zero")):
        path.unlink()
        path.symlink_to(target)
    third.unlink()
    os.mkfifo(third)
    page = tmp_path / "report.html"
    editcritic("bench", "report", folders, *SUITE, "--outputs", f"bad={pictures}", "-o", page, code=0)
    assert "it leads out of" in page.read_text(encoding="utf-8")


def test_results_show_no_pictures_of_a_place_that_only_they_name(editcritic, folders, tmp_path, monkeypatch):
    monkeypatch.chdir(folders / "good")
    page, pictures = tmp_path / "report.html", tmp_path / "pictures"
    command = ("bench", "report", folders, *SUITE, "-o", page)
    editcritic(*command, code=2, says=f"add `--trust {pictures}`")
    assert not page.exists()
    for said in (("--trust", pictures), ("--trust", folders / "bad"), ("--outputs", f"bad={pictures}")):
        assert editcritic(*command, *said).exit_code == 0
    monkeypatch.chdir(tmp_path)
    assert editcritic(*command).exit_code == 0
