"""Killed at any moment, a run goes on from its journal, and what comes of it is what would have come of it."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from editcritic.verifiers import BestOf, Journal, select

from .editors import Painter, graded, scenes
from .test_best_of import without_time

ROOT = Path(__file__).parents[2]

SCRIPT = """
import os, signal, sys, threading
from pathlib import Path
from editcritic.reward import Measured
from editcritic.verifiers import BestOf, Journal, journal, select
from tests.verifiers.editors import Painter, graded, judge, read, scenes

folder, left, lock = Path(sys.argv[1]), int(sys.argv[2]), threading.Lock()

def tick():
    global left
    with lock:
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

class Noted(Painter):
    def advance(self, drafts, until):
        tick()
        with (folder / "calls").open("a") as file:
            file.write(f"{len(drafts)}\\n")
        made = super().advance(drafts, until)
        tick()
        return made

class Mortal(Journal):
    def keep_made(self, *given):
        super().keep_made(*given)
        tick()

    def keep_scored(self, *given):
        tick()
        super().keep_scored(*given)

writing = journal._whole

def whole(*given):
    writing(*given)
    tick()  # the picture is there, and nobody knows of it yet

journal._whole = whole

def rule(query):
    tick()
    return Measured(read(query.image, query.prompt))

select(
    BestOf(4), scenes(3), editor=Noted(batch=2), reward=graded(judge(rule=rule)), journal=Mortal(folder / "journal")
)
"""


@pytest.mark.parametrize("moment", [1, 4, 13, 30, 50])  # of 60: calls begin and end, files, answers and entries
def test_a_killed_run_goes_on_where_it_was(tmp_path: Path, moment: int) -> None:
    killed = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path), str(moment)], cwd=ROOT, timeout=120)
    assert killed.returncode == -signal.SIGKILL
    calls = tmp_path / "calls"
    before = [int(line) for line in calls.read_text().split()] if calls.exists() else []
    painter = Painter(batch=2)

    with Journal(tmp_path / "journal") as journal:
        found = select(BestOf(4), scenes(3), editor=painter, reward=graded(), journal=journal)

    whole = select(BestOf(4), scenes(3), editor=Painter(batch=2), reward=graded())
    assert without_time(found.to_json()) == without_time(whole.to_json())
    # One call may have been under way, with its pictures not kept.
    assert 12 <= sum(before) + sum(painter.calls) <= 12 + 2
    assert found.known.evaluations == 8 * (12 - sum(painter.calls))
