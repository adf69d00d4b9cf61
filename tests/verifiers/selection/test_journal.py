"""A journal gives back what it was given, also after spoilt files, and refuses what is not one."""

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from editcritic.reward import Evidence, Image, Score
from editcritic.verifiers import BestOf, Cost, Journal, JournalError, select

from ..reward.fakes import picture
from .editors import Painter, graded, judge, scenes

DRAFT: dict[str, NDArray[Any]] = {
    "latents": np.arange(6, dtype=np.float32).reshape(2, 3)[:, ::-1],
    "random": np.arange(5, dtype=np.uint8),
}
SCORE = Score.of(0.5, "half", parts={"one": Score.abstained("dark")}, evidence=[Evidence("seen", numbers={"n": 1.0})])


@pytest.fixture(params=["memory", "folder"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Journal:
    return Journal(tmp_path / "j" if request.param == "folder" else None)


def test_what_was_kept_is_there(journal: Journal) -> None:
    journal.keep_made("a", picture(1), Cost(8, 0, 1.5), DRAFT)
    journal.keep_scored("b", SCORE, Cost(0, 3, 0.5))

    made, draft = journal.made("a"), journal.draft("a")

    assert made == (picture(1), Cost(8, 0, 1.5))
    assert draft is not None
    assert all(np.array_equal(draft[name], array) for name, array in DRAFT.items())
    assert journal.scored("b") == (SCORE, Cost(0, 3, 0.5))
    assert [journal.made("b"), journal.draft("b"), journal.scored("a")] == [None] * 3
    journal.close()


def test_a_failed_score_is_not_kept(journal: Journal) -> None:
    journal.keep_scored("a", Score.failed("down"), Cost(0, 1))
    journal.keep_scored("b", Score.abstained("dark"), Cost(0, 1))

    assert journal.scored("a") is None
    assert journal.scored("b") is not None
    journal.close()


def test_what_was_kept_outlives_the_process(tmp_path: Path) -> None:
    with Journal(tmp_path) as first:
        first.keep_made("a", picture(1), Cost(8), DRAFT)
        first.keep_scored("a", SCORE, Cost())

    with Journal(tmp_path) as second:
        made, draft = second.made("a"), second.draft("a")
        assert made is not None
        assert np.array_equal(made[0].pixels, picture(1).pixels)
        assert draft is not None
        assert np.array_equal(draft["latents"], DRAFT["latents"])
        assert second.scored("a") == (SCORE, Cost())


def _emptied(file: Path) -> None:
    file.write_bytes(b"")


def _truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _exchanged(file: Path) -> None:
    picture(99).pil().save(file, "PNG")


@pytest.mark.parametrize("spoil", [Path.unlink, _emptied, _truncated, _exchanged])
def test_a_spoilt_picture_is_unknown_until_it_is_kept_again(tmp_path: Path, spoil: object) -> None:
    assert callable(spoil)
    with Journal(tmp_path) as journal:
        journal.keep_made("a", picture(1), Cost(8))
        (file,) = (tmp_path / "pictures").iterdir()
        spoil(file)

        assert journal.made("a") is None
        journal.keep_made("a", picture(1), Cost(8))
        assert journal.made("a") is not None


@pytest.mark.parametrize("spoil", [Path.unlink, _emptied, _truncated])
def test_a_spoilt_draft_is_unknown(tmp_path: Path, spoil: object) -> None:
    assert callable(spoil)
    with Journal(tmp_path) as journal:
        journal.keep_made("a", picture(1), Cost(8), DRAFT)
        (file,) = (tmp_path / "drafts").iterdir()
        spoil(file)

        assert journal.draft("a") is None
        assert journal.made("a") is not None


def test_a_run_makes_spoilt_pictures_again_and_no_others(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        before = select(BestOf(4), scenes(1), editor=Painter(), reward=graded(), journal=journal)[0]
    winner = before.picture
    assert winner is not None
    _truncated(tmp_path / "pictures" / f"{winner.digest}.png")
    painter, expert = Painter(), judge()

    with Journal(tmp_path) as journal:
        after = select(BestOf(4), scenes(1), editor=painter, reward=graded(expert), journal=journal)[0]

    assert painter.calls == [1]
    assert not expert.seen
    assert after.picture == winner
    assert Image.open(tmp_path / "pictures" / f"{winner.digest}.png") == winner


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "j").write_text("no")
    with pytest.raises(JournalError, match=str(tmp_path / "j")):
        Journal(tmp_path / "j")


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "journal.sqlite").write_text("this is not a database, however long it is" * 100)
    with pytest.raises(JournalError, match=r"journal\.sqlite"):
        Journal(tmp_path)


def test_a_database_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "journal.sqlite") as other:
        other.execute("create table made (cakes)")
    other.close()

    with pytest.raises(JournalError, match="something else"):
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
