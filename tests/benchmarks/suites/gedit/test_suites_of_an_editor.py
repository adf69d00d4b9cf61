"""GEdit-Bench and both parts of ImgEdit-Bench: scored by one command, each question once, and reported on one page."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from editcritic.benchmarks.suites.imgedit.suite import ImgEditBench
from editcritic.reward.queries import Judge, Reply

from ...conftest import Command
from ...run.all_suites import Drawn
from ..imgedit import layout as imgedit
from .layout import KEYS, on_hub, outputs, rows

KINDS = ("subject-add", "text_change")
VARIANTS = ("gedit", "english=gedit?language=en", "imgedit", "hard=imgedit?part=uge")


class Logged(Drawn):
    """Writes the digest of each question to a file."""

    id = "logged@1"

    def __init__(self, log: str) -> None:
        self.log = log

    def __call__(self, queries: Sequence[Judge]) -> Sequence[Reply]:
        with Path(self.log).open("a", encoding="utf-8") as file:
            file.writelines(f"{query.digest}\n" for query in queries)
        return super().__call__(queries)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With `data`, and in `made` the outputs of an editor, English ones of GEdit-Bench twice."""
    on_hub(tmp_path / "data" / "gedit", rows(KINDS))
    data = imgedit.repository(tmp_path / "data" / "imgedit")
    for name in ("gedit", "english"):
        outputs(tmp_path / "made" / name, KINDS)
    imgedit.outputs(tmp_path / "made" / "imgedit", ImgEditBench(data))
    imgedit.outputs(tmp_path / "made" / "hard", ImgEditBench(data, part="uge"))
    return tmp_path


def run_all(editcritic: Command, folder: Path, *options: object) -> dict[str, str]:
    """The state of each suite that was not left out."""
    judge = f"judge={__name__}:Logged?log={folder / 'log'}"
    folders = ("--data", folder / "data", "--outputs", folder / "made", "-o", folder / "results" / "mine")
    result = editcritic("bench", "run", "all", *folders, "--experts", judge, "--json", *options)
    assert result.exit_code == 0, result.output
    suites = json.loads(result.stdout)["suites"]
    return {one["name"]: one["state"] for one in suites if one["state"] != "left out"}


def test_suites_whose_data_are_there_are_run_and_each_question_is_asked_once(editcritic: Command, folder: Path) -> None:
    assert run_all(editcritic, folder) == {"gedit": "complete", "imgedit": "complete"}
    asked = (folder / "log").read_text().split()
    grades = 2 * (2 * KEYS * len(KINDS))  # SC and PQ of each edit
    assert len(asked) == len(set(asked)) == grades + len(imgedit.basic_rows())
    chosen = [word for variant in VARIANTS for word in ("--suite", variant)]
    assert run_all(editcritic, folder, *chosen) == dict.fromkeys(("gedit", "english", "imgedit", "hard"), "complete")
    again = (folder / "log").read_text().split()
    assert len(again) == len(set(again)) == len(asked) + len(imgedit.uge_rows()), "the English ones were all known"

    page = folder / "mine.html"
    words = ("bench", "report", folder / "results" / "mine", "--data", folder / "data", "-o", page, "--json")
    shown = editcritic(*words, "--bootstrap-samples", 100)
    assert shown.exit_code == 0, shown.output
    document: dict[str, Any] = json.loads(shown.stdout)
    assert [one["suite"] for one in document["suites"]] == ["gedit", "gedit", "imgedit", "imgedit"]
    text = page.read_text(encoding="utf-8")
    titles = ("GEdit-Bench", "GEdit-Bench (language=both)", "ImgEdit-Bench", "ImgEdit-Bench (part=basic)")
    assert re.findall("<h2>([^<]*)", text) == ["Summary", *titles]
    assert "GEdit-Bench by type, Chinese" in text
