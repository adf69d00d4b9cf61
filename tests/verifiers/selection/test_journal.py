"""A journal gives back what it was given, also after spoilt files, and refuses what is not one."""

import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from editcritic.reward import Evidence, Image, Score
from editcritic.verifiers import BestOfN, Journal
from editcritic.verifiers.selection import Cost, JournalError

from ...forked import forked
from ...reward.fakes import picture
from ..numpy_editor import Painter, graded, judge, pick

ARRAYS: dict[str, NDArray[Any]] = {
    "latents": np.arange(6, dtype=np.float32).reshape(2, 3)[:, ::-1],
    "random": np.arange(5, dtype=np.uint8),
}
SCORE = Score.of(0.5, "half", parts={"one": Score.abstained("dark")}, evidence=[Evidence("seen", numbers={"n": 1.0})])


@pytest.fixture(params=["memory", "folder"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Journal:
    return Journal(tmp_path / "j" if request.param == "folder" else None)


def test_what_was_kept_is_there(journal: Journal) -> None:
    journal.put_image("a", picture(1), Cost(8, 0, 1.5), ARRAYS)
    journal.put_score("b", SCORE, Cost(0, 3, 0.5))
    image, arrays = journal.get_image("a"), journal.get_state("a")
    assert image == (picture(1), Cost(8, 0, 1.5))
    assert arrays is not None
    assert all(np.array_equal(arrays[name], array) for name, array in ARRAYS.items())
    assert journal.get_score("b") == (SCORE, Cost(0, 3, 0.5))
    assert [journal.get_image("b"), journal.get_state("b"), journal.get_score("a")] == [None] * 3
    journal.close()


def test_a_failed_score_is_not_kept(journal: Journal) -> None:
    journal.put_score("a", Score.failed("down"), Cost(0, 1))
    journal.put_score("b", Score.abstained("dark"), Cost(0, 1))
    assert journal.get_score("a") is None
    assert journal.get_score("b") is not None
    journal.close()


def _emptied(file: Path) -> None:
    file.write_bytes(b"")


def _truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _exchanged(file: Path) -> None:
    picture(99).pil().save(file, "PNG")


@pytest.mark.parametrize("kind", ["images", "states"])
@pytest.mark.parametrize("spoil", [Path.unlink, _emptied, _truncated, _exchanged])
def test_a_spoilt_picture_or_draft_is_unknown_until_it_is_kept_again(tmp_path: Path, spoil: Any, kind: str) -> None:
    with Journal(tmp_path) as journal:
        journal.put_image("a", picture(1), Cost(8), ARRAYS)
        (file,) = (tmp_path / kind).iterdir()
        spoil(file)
        assert [journal.get_image("a") is None, journal.get_state("a") is None] == [kind == "images", kind == "states"]
        journal.put_image("a", picture(1), Cost(8), ARRAYS)
        assert None not in (journal.get_image("a"), journal.get_state("a"))


def test_a_run_makes_spoilt_pictures_again_and_no_others(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        before = pick(BestOfN(4), journal=journal)[0]
    winner = before.picture
    assert winner is not None
    _truncated(tmp_path / "images" / f"{winner.digest}.png")
    painter, expert = Painter(), judge()
    with Journal(tmp_path) as journal:
        after = pick(BestOfN(4), editor=painter, reward=graded(expert), journal=journal)[0]
    assert painter.calls == [1]
    assert not expert.seen
    assert after.picture == winner
    assert Image.open(tmp_path / "images" / f"{winner.digest}.png") == winner


@pytest.mark.parametrize("name", ["j", "j/journal.sqlite"])
def test_a_folder_that_is_a_file_and_a_file_that_is_no_database_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("this is not a database, however long it is" * 100)
    with pytest.raises(JournalError, match=str(tmp_path / name)):
        Journal(tmp_path / "j")


def test_a_database_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "journal.sqlite") as other:
        other.execute("create table made (cakes)")
    other.close()
    with pytest.raises(JournalError, match="a database of something else: give a new folder"):
        Journal(tmp_path)
    other = sqlite3.connect(tmp_path / "journal.sqlite")
    assert other.execute("select name from sqlite_master").fetchall() == [("made",)]
    other.close()


def test_a_journal_of_another_version_is_refused(tmp_path: Path) -> None:
    Journal(tmp_path).close()
    with sqlite3.connect(tmp_path / "journal.sqlite") as database:
        database.execute("update meta set value = '99' where key = 'schema'")
    database.close()
    with pytest.raises(JournalError, match="schema 99"):
        Journal(tmp_path)


OPENING = """
import sys, time
from editcritic.verifiers import Journal
folder, start = sys.argv[1], float(sys.argv[2])
for number in range(60):
    while time.time() < start + 0.02 * number:
        pass
    Journal(f"{folder}/{number}").close()
"""


def test_processes_may_make_a_journal_at_the_same_moment(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OPENING, str(tmp_path), str(time.time() + 4)]
    runs = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    errors = [run.communicate(timeout=60)[1] for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0], errors


def test_a_damaged_row_counts_as_not_stored_and_no_number_changes(tmp_path):
    score, cost = Score.of(0.875, "good"), Cost(0, 3, 0.5)
    with Journal(tmp_path) as journal:
        journal.put_score("key", score, cost)
        journal.put_image("key", picture(1), Cost(4, 0, 0.25))
        stored = [journal.get_score("key"), journal.get_image("key")]
        changes = [
            ("scores", "score", '\'{"value": 0.975, "status": "scored"}\''),
            ("scores", "judge_calls", "4"),
            ("scores", "seconds", "0.25"),
            ("images", "nfe", "5"),
            ("images", "digest", f"'{picture(2).digest}'"),
        ]
        journal.put_image("other", picture(2), Cost(4, 0, 0.25))
        for table, column, value in changes:
            before = journal._db.execute(f"select {column} from {table} where key = 'key'").fetchone()[0]
            journal._db.execute(f"update {table} set {column} = {value} where key = 'key'")
            assert [journal.get_score("key"), journal.get_image("key")].count(None) == 1
            journal._db.execute(f"update {table} set {column} = ? where key = 'key'", (before,))
            assert [journal.get_score("key"), journal.get_image("key")] == stored
        journal._db.execute("update scores set key = 'another'")
        assert journal.get_score("another") is None
        journal.put_score("another", score, cost)
        assert journal.get_score("another") == (score, cost)


def test_a_damaged_state_or_that_of_another_key_counts_as_not_stored(tmp_path):
    arrays = {"x": np.arange(6.0).reshape(2, 3), "n": np.array([1, 2])}
    with Journal(tmp_path) as journal:
        journal.put_image("a" * 64, picture(1), Cost(3, 0, 1.0), arrays)
        journal.put_image("b" * 64, picture(2), Cost(3, 0, 1.0), {"x": np.zeros(3)})
        files = {name: tmp_path / "states" / f"{name * 64}.safetensors" for name in "ab"}
        state = journal.get_state("a" * 64)
        assert state is not None
        assert all(np.array_equal(state[name], array) for name, array in arrays.items())
        written = files["a"].read_bytes()
        files["a"].write_bytes(written[:-1] + bytes([written[-1] ^ 64]))
        assert journal.get_state("a" * 64) is None
        files["a"].write_bytes(files["b"].read_bytes())
        assert journal.get_state("a" * 64) is None


def test_a_forked_child_uses_the_journal_while_a_thread_of_the_parent_writes(tmp_path):
    with Journal(tmp_path) as journal:
        journal.put_score("key", Score.of(0.5), Cost(0, 1, 0.0))
        stop = threading.Event()

        def write():
            number = 0
            while not stop.is_set():
                journal.put_score(f"other {number}", Score.of(0.25), Cost())
                number += 1

        thread = threading.Thread(target=write)
        thread.start()
        try:
            for _ in range(10):
                assert forked(lambda: journal.get_score("key")) == (Score.of(0.5), Cost(0, 1, 0.0))
        finally:
            stop.set()
            thread.join()
