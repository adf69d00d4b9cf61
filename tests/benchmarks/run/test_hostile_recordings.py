"""Recordings, answer logs and journals of a stranger: a line and exit code 2, and nothing runs, waits or grows."""

import os
import random
import signal
import sqlite3
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from editcritic.reward import AnswerLog
from editcritic.reward.engine import shared_database
from editcritic.reward.engine.answer_log import LogError
from editcritic.verifiers.selection import Journal, JournalError

from ..conftest import Command, Folder
from .conftest import opened

DEEP = "[" * 100_000
ENDLESS = "with recursive endless(n) as (select 1 union all select n + 1 from endless) select"
TOUCH = "insert or replace into meta values ('ran', 'it did', 'x')"


# -- files ------------------------------------------------------------------------------------------------------------


Change = tuple[str, ...] | bytes | Callable[[Path], object]
"""SQL to execute, another content, or what changes the file."""


def change(path: Path, what: Change) -> None:
    if isinstance(what, bytes):
        path.write_bytes(what)
    elif callable(what):
        what(path)
    else:
        with opened(path) as db:
            for statement in what:
                db.execute(statement)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: 3 * 4096 + 100])


def foreign(path: Path) -> None:
    path.unlink()
    change(path, ("create table people (name text)", "insert into people values ('Ada')"))


def entangled(table: str, levels: int = 6) -> Callable[[Path], object]:
    """A tree of pages where all the children of each page are one page: a scan has 10^15 rows."""

    def run(path: Path) -> None:
        with opened(path) as db:
            db.execute("pragma journal_mode = delete")
            roots = dict(db.execute("select name, rootpage from sqlite_master"))
        data = bytearray(path.read_bytes())
        size = int.from_bytes(data[16:18], "big")
        root = roots.get(table, 1)
        head = 100 if root == 1 else 0  # of the file
        page = data[(root - 1) * size : root * size]
        with_rowid = page[head] in (5, 13)
        data += page[head:].ljust(size, b"\0") if root > 1 else _schema_leaf(page)
        for _ in range(levels):
            data += _inner_page(size, len(data) // size, with_rowid)
        data[(root - 1) * size : root * size] = _inner_page(size, len(data) // size, with_rowid, bytes(page[:head]))
        data[28:32] = struct.pack(">I", len(data) // size)
        data[24:28] = data[92:96]
        path.write_bytes(data)

    return run


def _schema_leaf(page: bytearray) -> bytes:
    """The first page without the head of the file; its cells keep their place."""
    cells = int.from_bytes(page[105:107], "big")
    pointers = page[100 : 108 + 2 * int.from_bytes(page[103:105], "big")]
    return bytes(pointers.ljust(cells, b"\0") + page[cells:])


def _inner_page(size: int, child: int, with_rowid: bool, head: bytes = b"") -> bytes:
    """As many cells as fit, all for the same child."""
    cell = struct.pack(">I", child) + (b"\1" if with_rowid else b"\5\5\0\0\0\0")
    count = (size - len(head) - 12) // (len(cell) + 2)
    begin = size - count * len(cell)
    kind = 5 if with_rowid else 2
    page = head + struct.pack(">BHHHBI", kind, 0, count, begin, 0, child)
    page += b"".join(struct.pack(">H", begin + len(cell) * number) for number in range(count))
    return page.ljust(begin, b"\0") + cell * count


def view(table: str, columns: str) -> tuple[str, ...]:
    return f"drop table {table}", f"create view {table} as {ENDLESS} {columns} from endless"


SCHEMA = "update meta set value = {} where key = 'schema'"
FILES: dict[str, Change] = {
    "cut": cut,
    "zero bytes": b"",
    "random": random.Random(0).randbytes(50_000),
    "header and random": b"SQLite format 3\0" + random.Random(1).randbytes(50_000),
    "foreign": foreign,
    "wrong columns": ("drop table samples", "create table samples (number integer primary key, sample text)"),
    "other columns": ("drop table answers", "create table answers (a, b, c, d)"),
    "with a rowid": (
        "drop table rewritings",
        (
            "create table rewritings (expert_number integer not null, sample_digest blob not null, "
            "query_digest blob not null, rewritten text not null, checksum text not null, "
            "primary key (expert_number, sample_digest, query_digest))"
        ),
    ),
    "trigger": (f"create trigger t after insert on experts begin {TOUCH}; end",),
    "temporary name": ("create table sqlitelike (a)",),
    "index": ("create index i on meta (hex(zeroblob(length(value))))",),
    "endless view": (f"create view v as {ENDLESS} n from endless",),
    "view as meta": view("meta", "'schema', '3', 'x'"),
    "view as answers": view("answers", "n, 'x', 'y', 'z'"),
    "virtual table": ("create virtual table v using fts5(a)",),
    "generated column": (  # a row of ours in a table with a column more, whose value is computed when it is read
        (
            "create table other (key text primary key, value text not null, checksum text not null, "
            "more text generated always as (upper(value)) virtual) without rowid"
        ),
        "insert into other select * from meta",
        "drop table meta",
        "alter table other rename to meta",
    ),
    "forged root": (  # two tables of ours that claim the same pages
        "pragma writable_schema = on",
        (
            "update sqlite_master set rootpage = (select rootpage from sqlite_master where name = 'samples') "
            "where name = 'experts' and type = 'table'"
        ),
    ),
    "no meta": ("delete from meta",),
    "other schema": (SCHEMA.format("'999999999999999999999999999999'"),),
    "huge schema": (SCHEMA.format("hex(zeroblob(20000000))"),),
    "blob as schema": (SCHEMA.format("x'ff00'"),),
    "many tables": tuple(f"create table t{number} (a)" for number in range(200)),
    "no-break space": (  # to SQLite a letter of the column's type
        "drop table samples",
        "create table samples (number integer primary key, sample text\u00a0not\u00a0null, checksum text not null)",
    ),
    "trigger after many indexes": (
        "pragma writable_schema = on",
        *["insert into sqlite_master select * from sqlite_master where name = 'sqlite_autoindex_experts_1'"] * 7,
        "create trigger late after insert on answers begin delete from answers; end",
    ),
    "entangled schema": entangled("sqlite_master"),
}
READ_ONLY = ("zero bytes", "no meta", "forged root")
"""What a cache is made of anew, or shows only when all is read."""


@pytest.mark.parametrize("kind", FILES)
def test_a_file_of_somebody_else_is_refused_and_left_alone(kind, editcritic, folder, recording):
    change(recording, FILES[kind])
    before = recording.read_bytes()
    for reward in ("-", "guard-not-blank"):
        refused(editcritic("dev", "replay", reward, recording), recording)
    for option in ("--cache", "--record") if kind not in READ_ONLY else ():
        refused(score(editcritic, folder, option, recording), recording)
    assert recording.read_bytes() == before
    assert not recording.with_name("run.db-wal").exists()


def score(editcritic: Command, folder: Folder, *options: object) -> Any:
    return editcritic("score", folder / "samples.jsonl", "--reward", folder.cheap, *options)


JOURNALS: dict[str, Change] = {
    "trigger": ("create trigger t after insert on scores begin delete from images; end",),
    "view as meta": view("meta", "'schema', '3'"),
    "generated column": ("drop table scores", "create table scores (key text, score text as (hex(key)))"),
    **{kind: FILES[kind] for kind in ("endless view", "random", "foreign")},
}


@pytest.mark.parametrize("kind", JOURNALS)
def test_a_journal_of_somebody_else_is_refused_and_left_alone(kind, tmp_path):
    for name, error, changes in (
        ("journal.sqlite", JournalError, JOURNALS),
        ("answers.sqlite", LogError, {**JOURNALS, **dict.fromkeys([*JOURNALS][:3], FILES["trigger"])}),
    ):
        folder = tmp_path / name
        with Journal(folder) as journal:
            assert journal.answer_log is not None
        change(folder / name, changes[kind])
        before = (folder / name).read_bytes()
        with pytest.raises(error, match=name), Journal(folder) as journal:
            _ = journal.answer_log
        assert (folder / name).read_bytes() == before


@pytest.mark.parametrize("table", ["samples", "answers", "experts", "meta", "rewritings", "queries", "image_files"])
def test_a_scan_of_pages_that_lead_into_each_other_ends(table, editcritic, folder, recording):
    """It went on in SQLite's code, whatever signal came. Looking single rows up in such a table is quick."""
    change(recording, entangled(table))
    before = recording.read_bytes()
    refused(editcritic("dev", "replay", recording), recording)
    refused(editcritic("log", "merge", recording, "--out", folder / "merged.db"), recording)
    with pytest.raises(LogError, match="damaged"), AnswerLog(recording, read_only=True) as log:
        log.verify()
    assert recording.read_bytes() == before
    score(editcritic, folder, "--cache", recording)


def test_a_statement_has_steps_in_proportion_to_its_file(recording, monkeypatch):
    monkeypatch.setattr(shared_database, "_MIN_STEPS", 500_000)
    change(recording, entangled("samples"))
    with AnswerLog(recording, read_only=True) as log, pytest.raises(sqlite3.DatabaseError, match="more steps than"):
        log.samples()


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_statement_and_is_no_damage(number, code, recording):
    change(recording, entangled("samples"))
    script = (
        "import sys; from editcritic.reward.engine import shared_database as d, answer_log as a; "
        "d._MIN_STEPS = 10**15; from editcritic.benchmarks.common.interruption import end_after; "
        "log = a.AnswerLog(sys.argv[1], read_only=True); print('reading', flush=True); end_after(log.samples)"
    )
    command = [sys.executable, "-c", script, str(recording)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "reading\n"
        time.sleep(0.5)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (code, "editcritic: interrupted\n")


def test_every_entry_of_a_schema_of_ours_is_known():
    """Otherwise everything would be refused, or what a table of ours is made of would not be compared."""
    with AnswerLog(":memory:") as log:
        entries = log._db.execute("select name, sql from sqlite_master").fetchall()
    assert {name for name, _ in entries if not name.startswith("sqlite_")} == {
        *("answers", "derived_images", "experts", "image_files", "meta", "queries", "rewritings", "samples")
    }


# -- what is no file --------------------------------------------------------------------------------------------------


def special(path: Path, kind: str) -> None:
    match kind:
        case "directory":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "loop":
            path.symlink_to(path.with_name("other"))
            path.with_name("other").symlink_to(path)
        case target:
            path.symlink_to(target)


@pytest.mark.parametrize("kind", ["directory", "fifo", "/dev/zero", "loop", "missing"])
def test_what_is_no_regular_file_is_not_opened(kind, editcritic, folder, three):
    path = folder / "run.db"
    special(path, kind)
    refused(editcritic("dev", "replay", path), path)
    for option in ("--cache", "--record") if kind != "missing" else ():  # a link of the user's own: the file is made
        refused(score(editcritic, folder, option, path), path)


@pytest.mark.parametrize("suffix", ["-wal", "-journal", "-shm"])
@pytest.mark.parametrize("kind", ["victim", "fifo", "directory"])
def test_what_lies_beside_a_cache_is_not_followed(kind, suffix, editcritic, folder, recording):
    """SQLite would take what a link leads to for its own log, and empty it."""
    victim = folder / "victim"
    victim.write_bytes(b"of somebody else" * 100)
    special(recording.with_name(recording.name + suffix), kind)
    before = recording.read_bytes()
    refused(score(editcritic, folder, "--cache", recording), recording)
    if (kind, suffix) != ("victim", "-wal"):  # a replay has no use for it
        editcritic("dev", "replay", recording, shows="3/3 agree")
    assert victim.read_bytes() == b"of somebody else" * 100
    assert recording.read_bytes() == before


def super_journal(victim: Path, pages: int) -> bytes:
    """A rollback journal of no pages that names a file as its super-journal, which SQLite deletes after it."""
    name, magic = os.fsencode(victim), bytes.fromhex("d9d505f920a163d7")
    header = magic + struct.pack(">IIIII", 0, 0, pages, 512, 4096)
    checksum = sum(struct.unpack(f"{len(name)}b", name)) & 0xFFFFFFFF
    page = struct.pack(">I", 2**30 // 4096 + 1)
    return header.ljust(512, b"\0") + page + name + struct.pack(">II", len(name), checksum) + magic


def test_a_rollback_journal_beside_a_cache_is_not_replayed(editcritic, folder, recording):
    victim, beside = folder / "victim", recording.with_name("run.db-journal")
    victim.write_bytes(b"of somebody else")
    beside.write_bytes(super_journal(victim, recording.stat().st_size // 4096))
    editcritic("dev", "replay", recording, shows="3/3 agree")
    result = score(editcritic, folder, "--cache", recording)
    assert "beside it lies run.db-journal" in refused(result, recording)
    assert victim.read_bytes() == b"of somebody else"
    assert beside.exists()
    # What is prevented, or else this test could not fail: SQLite alone deletes the victim.
    with closing(sqlite3.connect(recording)) as db:
        db.execute("select * from meta").fetchall()
    assert not victim.exists()


def test_a_wal_of_another_database_is_refused_or_has_no_effect(editcritic, recording, tmp_path):
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other, isolation_level=None)) as db:
        db.execute("pragma journal_mode = wal")
        db.execute("create table people (name text)")
        db.execute("insert into people values ('Ada')")
        wal = Path(f"{other}-wal").read_bytes()
    beside = recording.with_name("run.db-wal")
    beside.write_bytes(wal)
    before = recording.read_bytes()
    refused(editcritic("dev", "replay", recording), recording)
    assert (recording.read_bytes(), beside.read_bytes()) == (before, wal)
    beside.write_bytes(os.urandom(10_000))
    editcritic("dev", "replay", recording, shows="3/3 agree")


def refused(result: Any, path: Path) -> str:
    """The one line of a refusal."""
    assert result.exit_code == 2, (result.stdout, result.stderr)
    assert result.stdout == ""
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("editcritic: ")
    assert path.name in line
    assert len(line) < 1_500
    return str(line)
