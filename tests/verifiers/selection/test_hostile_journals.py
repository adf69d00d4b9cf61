"""Journals of strangers: what is intact and yet nothing that a run writes ends the run with one line.

The rows here have right checksums: whoever makes them can compute those as well.
"""

import contextlib
import json
import os
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from editcritic.reward import Evidence, Score
from editcritic.verifiers import Journal
from editcritic.verifiers.selection import Cost, JournalError
from editcritic.verifiers.selection.journal import MAX_ROW_BYTES, MAX_STATE_BYTES, _with_checksum
from editcritic.verifiers.selectors import SuccessiveHalving

from ...reward.fakes import picture
from ..numpy_editor import Painter, pick

SCORE = {"value": 0.5, "status": "scored"}
SCORES: dict[str, object] = {
    "no JSON": "{",
    "no object": "[0.5]",
    "number": "5",
    "blob": b"\xff\x00",
    "no status": '{"value": 0.5}',
    "unknown status": '{"value": null, "status": "great", "reason": "so"}',
    "text as value": '{"value": "0.5", "status": "scored"}',
    "boolean as value": '{"value": true, "status": "scored"}',
    "NaN": '{"value": NaN, "status": "scored"}',
    "infinite": '{"value": 1e999, "status": "scored"}',
    "huge integer": f'{{"value": {"9" * 300}, "status": "scored"}}',
    "list as parts": json.dumps({**SCORE, "parts": [1]}),
    "number as a part": json.dumps({**SCORE, "parts": {"one": 1}}),
    "text as evidence": json.dumps({**SCORE, "evidence": "seen"}),
    "deep": '{"value": 0.5, "status": "scored", "parts": {"a": ' * 5_000 + "1" + "}}" * 5_000,
    "lone surrogate": '{"value": 0.5, "status": "scored", "reason": "\\ud800"}',
    "twice": '{"value": 0.5, "value": 0.9, "status": "scored"}',
    "many values": json.dumps({**SCORE, "credits": {}})[:-2] + ",".join(f'"{n}":0' for n in range(10**6)) + "}}",
    "huge": f'{{"value": 0.5, "status": "scored", "reason": "{"x" * MAX_ROW_BYTES}"}}',
}
COSTS: dict[str, tuple[object, object]] = {
    "text as calls": ("three", 0.5),
    "fraction of a call": (0.5, 0.5),
    "negative calls": (-1, 0.5),
    "huge calls": (2**62, 0.5),
    "blob as calls": (b"3", 0.5),
    "text as seconds": (3, "long"),
    "infinite seconds": (3, float("inf")),
    "negative seconds": (3, -1.0),
}
DIGESTS: dict[str, object] = {
    "path": "../../secret",
    "absolute": "/etc/hostname",
    "null": "\0" * 64,
    "upper case": "A" * 64,
    "short": "abc",
    "line break": "a" * 64 + "\n",
    "number": "5",
    "blob": b"a" * 64,
}


def forge(folder: Path, table: str, change: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> None:
    with contextlib.closing(sqlite3.connect(folder / "journal.sqlite", isolation_level=None)) as database:
        for row in database.execute(f"select * from {table}").fetchall():
            changed = change(row[:-1])
            checked = _with_checksum(table, *changed)
            database.execute(f"replace into {table} values ({', '.join('?' * len(row))})", checked)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    with Journal(tmp_path / "journal") as journal:
        journal.put_image("a", picture(1), Cost(8, 0, 1.5), {"latents": np.zeros(3, np.float32)})
        journal.put_score("a", Score.of(0.5, "half"), Cost(0, 3, 0.5))
    return tmp_path / "journal"


def refused(folder: Path, read: Callable[[Journal], object]) -> str:
    with Journal(folder) as journal, pytest.raises(JournalError, match=re.escape(str(folder))) as error:
        read(journal)
    assert len(str(error.value)) < 1_000
    assert "\n" not in str(error.value)
    assert "give another folder" in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("case", SCORES)
def test_a_score_that_no_run_has_written_is_refused(case: str, made: Path) -> None:
    forge(made, "scores", lambda row: (row[0], SCORES[case], *row[2:]))
    refused(made, lambda journal: journal.get_score("a"))


@pytest.mark.parametrize("case", COSTS)
def test_a_cost_that_no_run_has_written_is_refused(case: str, made: Path) -> None:
    forge(made, "scores", lambda row: (*row[:2], *COSTS[case]))
    forge(made, "images", lambda row: (*row[:2], *COSTS[case]))
    assert "a cost of" in refused(made, lambda journal: journal.get_score("a"))
    assert "a cost of" in refused(made, lambda journal: journal.get_image("a"))


@pytest.mark.parametrize("case", DIGESTS)
def test_an_image_is_named_by_a_digest_only(case: str, made: Path) -> None:
    forge(made, "images", lambda row: (row[0], DIGESTS[case], *row[2:]))
    assert "digest" in refused(made, lambda journal: journal.get_image("a"))


def test_a_huge_row_is_not_fetched(made: Path) -> None:
    """Each column is bounded, also those of numbers, and the checksum."""
    for columns in ("nfe = zeroblob(100000000)", "checksum = zeroblob(100000000)"):
        with contextlib.closing(sqlite3.connect(made / "journal.sqlite", isolation_level=None)) as database:
            database.execute(f"update images set {columns}")
        assert "a row of more than" in refused(made, lambda journal: journal.get_image("a"))


def fifo(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def outside(path: Path) -> None:
    elsewhere = path.parents[2] / "elsewhere"
    elsewhere.write_bytes(b"secret")
    path.symlink_to(elsewhere)


SPECIAL = [Path.mkdir, fifo, device, outside]


@pytest.mark.parametrize("special", SPECIAL)
@pytest.mark.parametrize("kind", ["images", "states"])
def test_what_is_no_file_of_the_folder_is_not_opened(kind: str, special: Callable[[Path], None], made: Path) -> None:
    (file,) = (made / kind).iterdir()
    file.unlink()
    special(file)
    refused(made, lambda journal: journal.get_image("a") if kind == "images" else journal.get_state("a"))


@pytest.mark.parametrize("kind", ["images", "states"])
def test_a_folder_of_files_that_is_a_link_is_not_written_through(kind: str, made: Path, tmp_path: Path) -> None:
    (made / kind).rename(tmp_path / "victim")
    (made / kind).symlink_to(tmp_path / "victim")
    with pytest.raises(JournalError, match=f"{kind} is a link"):
        Journal(made)


def test_a_state_is_bounded(made: Path) -> None:
    (file,) = (made / "states").iterdir()
    with file.open("r+b") as opened:
        opened.truncate(MAX_STATE_BYTES + 1)  # no byte of it is on the disk
    assert "more than" in refused(made, lambda journal: journal.get_state("a"))
    save_file({str(number): np.zeros(1, np.uint8) for number in range(1_001)}, file)
    assert "1,001 arrays" in refused(made, lambda journal: journal.get_state("a"))


def test_whatever_is_stored_is_read_again() -> None:
    """A judge's words may have what no file holds: such a score counts as not stored, rather than end the next run."""
    with Journal() as journal:
        for number, score in enumerate(
            (
                Score.of(1, "\ud800"),
                Score.of(1, "x" * (MAX_ROW_BYTES + 1)),
                Score.of(1, evidence=[Evidence("n", numbers={"n": 2**70})]),
            )
        ):
            journal.put_score(str(number), score, Cost())
            assert journal.get_score(str(number)) is None
        journal.put_score("good", Score.of(1, "\U0001f600 \u202e"), Cost())
        assert journal.get_score("good") is not None


def test_a_hostile_state_is_not_a_failure_of_the_editor(tmp_path: Path) -> None:
    """A candidate's failure would be paid for, and told as the editor's."""
    selector = SuccessiveHalving(4)

    def run(painter: Painter) -> None:
        with Journal(tmp_path) as journal:
            pick(selector, editor=painter, journal=journal)

    run(Painter(bad_calls=range(2, 100)))
    states = list((tmp_path / "states").iterdir())
    assert states
    for file in states:
        file.unlink()
        os.mkfifo(file)
    with pytest.raises(JournalError, match="a FIFO"):
        run(Painter())
