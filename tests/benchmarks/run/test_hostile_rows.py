"""Rows that nobody wrote in recordings, answer logs and journals, with right checksums: refused, or not stored."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from editcritic.benchmarks.run.run_journal import RowJournal
from editcritic.reward import AnswerLog
from editcritic.reward.digests import record_checksum
from editcritic.reward.engine.answer_log import MAX_ROW_BYTES
from editcritic.reward.queries import Measurement, Reply
from editcritic.reward.queries.answers import Detections
from editcritic.reward.queries.kinds import Detect

from ...reward.fakes import picture, question, verdict
from .conftest import opened

DEEP = "[" * 100_000
DIGEST = "0" * 64
META: dict[str, tuple[str, str | bytes]] = {
    "spec no JSON": ("spec", "nonsense"),
    "spec a number": ("spec", "1e999"),
    "spec deep": ("spec", DEEP),
    "spec empty": ("spec", "{}"),
    "spec of nothing": ("spec", '{"reward": 3}'),
    "spec NaN": ("spec", '{"reward": {"use": "guard-not-blank", "min_contrast": NaN}}'),
    "spec of bytes": ("spec", b"\xff\xfe{}"),
    "spec huge": ("spec", '"' + "x" * (MAX_ROW_BYTES + 1) + '"'),
    "spec of many values": ("spec", "[" + "0," * 2_000_000 + "0]"),
    "spec with a lone surrogate": ("spec", '{"reward": {"use": "\\ud800"}}'),
    "spec with a long integer": ("spec", '{"reward": ' + "9" * 100_000 + "}"),
    "experts a list": ("experts", "[]"),
    "experts of numbers": ("experts", '{"judge": 7}'),
    "experts without ids": ("experts", '{"judge": {"id": ["x"], "rewrites": true}}'),
    "experts of bytes": ("experts", b"\x80"),
    "score a text": ("score:copy", '"x"'),
    "score no JSON": ("score:copy", "{"),
    "score without a value": ("score:copy", "{}"),
    "score of texts": ("score:copy", '{"value": "x", "status": "scored"}'),
    "score NaN": ("score:copy", '{"value": NaN, "status": "scored"}'),
    "score deep": ("score:copy", '{"value": ' + DEEP),
}
SAMPLES: dict[str, str | bytes | dict[str, Any]] = {  # another text of the first sample, or other fields of it
    "no JSON": "x",
    "a list": '[{"id": "copy"}]',
    "deep": '{"metadata": ' + DEEP,
    "huge": {"hint": "x" * (MAX_ROW_BYTES + 1)},
    "of many values": {"metadata": {"a": [0] * 1_100_000}},
    "of bytes": b"\xff\xfe",
    "with a path": {"edited": "patched.png"},
    "with a device": {"edited": "/dev/zero"},
    "of no size": {"edited": {"digest": DIGEST, "size": [0, 128]}},
    "of a negative size": {"edited": {"digest": DIGEST, "size": [-8, 128]}},
    "of 10^18 pixels": {"edited": {"digest": DIGEST, "size": [10**9, 10**9]}},
    "of a size in text": {"edited": {"digest": DIGEST, "size": "big"}},
    "with a lone surrogate": {"id": "\ud800"},
    "with an escape": {"id": "\x1b[2J"},
    "with a NaN": {"metadata": {"a": float("nan")}},
    "with another field": {"more": 1},
    "with many wrong boxes": {"fractions": {"x": [["y"]] * 20_000}},
    "of wrong types": {"instruction": 7, "history": "x"},
}


def write_sample(path: Path, change: str | bytes | dict[str, Any]) -> None:
    with opened(path) as db:
        number, text = db.execute("select number, sample from samples order by number").fetchone()
        row = json.dumps({**json.loads(text), **change}) if isinstance(change, dict) else change
        values = (row, record_checksum("sample", row), number)
        db.execute("update samples set sample = ?, checksum = ? where number = ?", values)


@pytest.mark.parametrize("kind", [*META, *SAMPLES])
def test_a_row_that_nobody_wrote_ends_a_replay_with_a_line(kind, editcritic, recording):
    """Its checksum is right."""
    if kind in SAMPLES:
        write_sample(recording, SAMPLES[kind])
    else:
        key, value = META[kind]
        with opened(recording) as db:
            row = (key, value, record_checksum("meta", key, value))
            db.execute("insert or replace into meta values (?, ?, ?)", row)
    before = recording.read_bytes()
    result = editcritic("dev", "replay", recording, code=2)
    assert result.stderr.strip().splitlines()[-1].startswith("editcritic: ")
    assert len(result.stderr) < 2_000
    assert result.stdout == ""
    assert recording.read_bytes() == before


ANSWERS = {
    "no JSON": "x",
    "a number": "7",
    "deep": DEEP,
    "of another kind": '{"abstained": 7}',
    "unknown": '{"nothing": 1}',
    "NaN": '{"value": NaN, "share": 1}',
    "infinite": '{"value": 1e999, "share": 1}',
    "a text as a number": '{"value": "0.5", "share": 1}',
    "long integers": '{"value": ' + "9" * 100_000 + ', "share": 1}',
    "vectors of 10^9": '{"vectors": [], "dim": 1000000000, "patches": []}',
    "vectors of text": '{"vectors": [["x"]], "dim": 1, "patches": [1]}',
    "a mask of 10^18": '{"mask": "eJwDAAAAAAE=", "shape": [1000000000, 1000000000], "score": 1}',
    "a mask of negative size": '{"mask": "eJxjAAAAAQAB", "shape": [-1, -8], "score": 1}',
    "boxes of text": '{"boxes": [["a", "b"]], "min_score": "x"}',
    "a picture": '{"png": "AAAA"}',
    "a change map": '{"change_map": "eJwDAAAAAAE=", "shape": [1000000000, 1000000000], "numbers": {}}',
    "a plan": '{"plan": {"operations": ' + "[" * 500 + "]" * 500 + "}}",
    "a reply": '{"reply": 7, "probabilities": []}',
    "a list of 10^5": str([0] * 100_000),
}


def answer_all(recording: Path, text: str) -> None:
    with opened(recording) as db:
        rows = db.execute(
            "select id, number, lower(hex(query_digest)) from answers join experts on number = expert_number"
        ).fetchall()
        for expert, number, digest in rows:
            db.execute(
                "update answers set answer = ?, checksum = ? where expert_number = ? and query_digest = ?",
                (text, record_checksum("answer", expert, digest, text), number, bytes.fromhex(digest)),
            )


@pytest.mark.parametrize("kind", ANSWERS)
def test_an_answer_that_is_none_counts_as_not_stored(kind, editcritic, recording):
    answer_all(recording, ANSWERS[kind])
    result = editcritic("dev", "replay", recording, "--json")
    assert result.exit_code in (1, 2), (result.stdout, result.stderr)
    document = json.loads(result.stdout)
    assert document["summary"]["counts"]["scored"] == 0
    assert all(len(line) < 3_000 for line in result.stderr.splitlines())
    reasons = " ".join(row["reason"] for row in document["summary"]["unscored"])
    assert "the recording has no answer to this query" in reasons or document["exit_code"] == 2


def test_a_reason_of_a_megabyte_is_not_printed(editcritic, recording):
    answer_all(recording, json.dumps({"abstained": "z" * 1_000_000}))
    result = editcritic("dev", "replay", recording, code=1, says="zzz")
    assert max(len(result.stderr), len(result.stdout)) < 20_000


DERIVED = ['"crop"', '["crop", [1], {"a": 2}]', '["resize", 1000000000, 1000000000, "lanczos"]', DEEP, "x"]


def test_derived_images_that_are_none_are_not_read(editcritic, recording):
    """Those that no metric asks for, and one whose digest is none."""
    with opened(recording) as db:
        parent, operation = db.execute("select parent_digest, operation from derived_images").fetchone()
        for row in (*((DIGEST, text, "x" * 1_000) for text in DERIVED), (parent, operation, "\x1b[2J")):
            checksum = record_checksum("derived image", *row)
            db.execute("insert or replace into derived_images values (?, ?, ?, ?)", (*row, checksum))
            if row[0] == DIGEST:
                editcritic("dev", "replay", recording, shows="3/3 agree")
    with AnswerLog(recording, read_only=True) as log:
        assert log.derived_digest(parent, operation) is None


@pytest.mark.parametrize(
    "entry", [("x" * 64, "8", "8"), (DIGEST, "0", "8"), (DIGEST, "-8", "8"), (DIGEST, "9" * 9, "9" * 9), ("", "", "")]
)
def test_an_entry_of_the_index_of_files_that_is_none_counts_as_missing(entry, tmp_path):
    with AnswerLog(tmp_path / "log") as log:
        checksum = record_checksum("image file", DIGEST, *entry)
        log._db.execute("insert into image_files values (?, ?, ?, ?, ?)", (DIGEST, *entry, checksum))
        assert log.files.get(DIGEST) is None


def test_rows_that_are_too_long_are_neither_written_nor_read(tmp_path, monkeypatch):
    monkeypatch.setattr("editcritic.reward.engine.answer_log.MAX_ANSWER_BYTES", 100)
    with AnswerLog(tmp_path / "log") as log:
        log.put("fake", [(verdict(1), Reply("x" * 1_000, {"yes": 1.0, "no": 0.0})), (question(1), Measurement(0.5))])
        assert len(log) == 1
        assert log.get("fake", [question(1)]) == {question(1).digest: Measurement(0.5)}
        log._db.execute("update answers set answer = ?", (json.dumps({"value": 0.5, "share": 1.0}) + " " * 100,))
        with pytest.warns(RuntimeWarning, match="is damaged"):
            assert log.get("fake", [question(1)]) == {question(1).digest: None}


def test_an_answer_of_millions_of_lists_is_not_parsed(tmp_path):
    query = Detect(picture(1), ("cup",))
    with AnswerLog(tmp_path / "cache.db") as log:
        log.put("seer", [(query, Detections((), 0.1))])
    text = "[" + "[]," * 1_000_000 + "0]"
    with opened(tmp_path / "cache.db") as db:
        checksum = record_checksum("answer", "seer", query.digest, text)
        db.execute("update answers set answer = ?, checksum = ?", (text, checksum))
    with AnswerLog(tmp_path / "cache.db") as log, pytest.warns(RuntimeWarning, match="lists and tables"):
        assert log.get("seer", [query]) == {query.digest: None}


def test_an_opened_database_trusts_no_functions_of_its_schema(tmp_path):
    for read_only in (False, True):
        with AnswerLog(tmp_path / "log", read_only=read_only) as log:
            assert log._db.execute("pragma trusted_schema").fetchone() == (0,)
    with AnswerLog(tmp_path / "log", read_only=True) as log, pytest.raises(sqlite3.OperationalError, match="readonly"):
        log.meta("a", "b")


@pytest.mark.parametrize("row", [DEEP, '{"id": ["a"]}', "7", "{}"])
def test_a_row_of_a_journal_that_is_none_is_scored_again(row, tmp_path):
    whole = json.dumps({"id": "a"})
    lines = [{"sample_key": "k", "row": text, "checksum": record_checksum("row", "k", text)} for text in (row, whole)]
    (tmp_path / "rows-0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with RowJournal(tmp_path) as journal:
        assert journal.rows() == {"a": [("k", {"id": "a"})]}
