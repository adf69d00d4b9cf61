"""Killed at any moment, a run goes on from its journal, and what comes of it is what would have come of it."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from editcritic.verifiers import BestOfN, Journal, select

from .numpy_editor import Painter, graded, scenes, without_time

ROOT = Path(__file__).parents[2]

SCRIPT = """
import os, signal, sys, threading
from contextlib import contextmanager
from pathlib import Path
from editcritic.reward.queries import Measurement
from editcritic.verifiers import BestOfN, Journal, select
from editcritic.verifiers.selection import journal
from tests.verifiers.numpy_editor import Painter, graded, judge, read, scenes

folder, left, lock = Path(sys.argv[1]), int(sys.argv[2]), threading.Lock()

def tick():
    global left
    with lock:
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

class Noted(Painter):
    def advance(self, drafts, until_step):
        tick()
        with (folder / "calls").open("a") as file:
            file.write(f"{len(drafts)}\\n")
        results = super().advance(drafts, until_step)
        tick()
        return results

class Mortal(Journal):
    def put_image(self, *args):
        super().put_image(*args)
        tick()

    def put_score(self, *args):
        tick()
        super().put_score(*args)

replacement = journal.atomic_replacement

@contextmanager
def replacement_and_tick(target):
    with replacement(target) as path:
        yield path
    tick()  # the file exists, and the journal has no row for it yet

journal.atomic_replacement = replacement_and_tick

def rule(query):
    tick()
    return Measurement(read(query.image, query.prompt))

select(
    BestOfN(4),
    scenes(3),
    editor=Noted(batch_size=2),
    reward=graded(judge(rule=rule)),
    journal=Mortal(folder / "journal"),
)
"""


@pytest.mark.parametrize("moment", [1, 4, 13, 30, 50])  # of 60: calls begin and end, files, answers and entries
def test_a_killed_run_goes_on_where_it_was(tmp_path: Path, moment: int) -> None:
    killed = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path), str(moment)], cwd=ROOT, timeout=120)
    assert killed.returncode == -signal.SIGKILL
    calls = tmp_path / "calls"
    before = [int(line) for line in calls.read_text().split()] if calls.exists() else []
    painter = Painter(batch_size=2)
    with Journal(tmp_path / "journal") as journal:
        result = select(BestOfN(4), scenes(3), editor=painter, reward=graded(), journal=journal)
    whole = select(BestOfN(4), scenes(3), editor=Painter(batch_size=2), reward=graded())
    assert without_time(result.to_json()) == without_time(whole.to_json())
    # One call may have been under way, with its images not kept.
    assert 12 <= sum(before) + sum(painter.calls) <= 12 + 2
    assert result.cached_cost.nfe == 8 * (12 - sum(painter.calls))
