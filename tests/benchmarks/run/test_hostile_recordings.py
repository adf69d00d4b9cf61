"""Recordings, answer logs and journals of a stranger: a line and exit code 2, and nothing runs, waits or grows."""

import json
import os
import random
import shutil
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
from typer.testing import CliRunner

from editcritic.benchmarks.run.replay import RecordingWriter
from editcritic.benchmarks.run.run_journal import RowJournal
from editcritic.cli.app import app
from editcritic.reward import AnswerLog, Reward, default_experts
from editcritic.reward.digests import record_checksum
from editcritic.reward.engine import shared_database
from editcritic.reward.engine.answer_log import MAX_ROW_BYTES, LogError
from editcritic.reward.engine.shared_database import SharedDatabase
from editcritic.reward.queries.kinds import Detect, Detections
from editcritic.verifiers.selection import Journal, JournalError

from ...reward.fakes import picture
from ..conftest import Command, Folder

DEEP = "[" * 100_000
ENDLESS = "with recursive endless(n) as (select 1 union all select n + 1 from endless) select"
TOUCH = "insert or replace into meta values ('ran', 'it did', 'x')"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of three edits, with crops and rewritten queries, beside its samples."""
    folder = Folder(tmp_path_factory.mktemp("made"))
    boxes = {"helmet": [[70, 85, 127, 127]], "face": [[47, 13, 73, 41]]}
    rows = [folder.row(id=name, edited=f"{name}.png", boxes=boxes) for name in ("copy", "patched", "blank")]
    path = folder / "run.db"
    reward = folder / "reward.toml"
    reward.write_text(
        '[reward]\nuse = "weighted-mean"\nparts.consistency.use = "edival-cc"\nparts.changed.use = "guard-not-a-copy"\n'
    )
    arguments = ["score", folder.samples(*rows), "--reward", reward, "--record", path]
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code in (0, 2), result.stderr
    return path


@pytest.fixture
def recording(folder: Folder, made: Path) -> Path:
    """A copy of it."""
    for file in (made, made.with_name("samples.jsonl")):
        shutil.copyfile(file, folder / file.name)
    return folder / made.name


# -- files ------------------------------------------------------------------------------------------------------------


def execute(*statements: str) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            for statement in statements:
                db.execute(statement)

    return run


def remade(table: str, statement: str) -> Callable[[Path], None]:
    """Another entry of the schema under the name of a table of ours."""
    return execute(f"drop table {table}", statement)


def write(content: bytes) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        path.write_bytes(content)

    return run


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: 3 * 4096 + 100])


def foreign(path: Path) -> None:
    path.unlink()
    execute("create table people (name text)", "insert into people values ('Ada')")(path)


def hidden_column(path: Path) -> None:
    """A row of ours in a table with a column more, whose value is computed when it is read."""
    execute(
        "create table other (key text primary key, value text not null, checksum text not null, "
        "more text generated always as (upper(value)) virtual) without rowid",
        "insert into other select * from meta",
        "drop table meta",
        "alter table other rename to meta",
    )(path)


def forged_root(path: Path) -> None:
    """Two tables of ours that claim the same pages."""
    execute(
        "pragma writable_schema = on",
        "update sqlite_master set rootpage = (select rootpage from sqlite_master where name = 'samples') "
        "where name = 'experts' and type = 'table'",
    )(path)


def view_of(table: str) -> Callable[[Path], None]:
    columns = {"meta": "'schema', '3', 'x'", "samples": "n, 'x', 'y'", "answers": "n, 'x', 'y', 'z'"}[table]
    return remade(table, f"create view {table} as {ENDLESS} {columns} from endless")


def entangled(table: str, levels: int = 6) -> Callable[[Path], None]:
    """A tree of pages where all the children of each page are one page: a scan has 10^15 rows."""

    def run(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
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


FILES: dict[str, Callable[[Path], None]] = {
    "cut": cut,
    "zero bytes": write(b""),
    "random": write(random.Random(0).randbytes(50_000)),
    "header and random": write(b"SQLite format 3\0" + random.Random(1).randbytes(50_000)),
    "foreign": foreign,
    "wrong columns": remade("samples", "create table samples (number integer primary key, sample text)"),
    "other columns": remade("answers", "create table answers (a, b, c, d)"),
    "with a rowid": remade(
        "rewritings",
        "create table rewritings (expert_number integer not null, sample_digest blob not null, query_digest blob not "
        "null, rewritten text not null, checksum text not null, "
        "primary key (expert_number, sample_digest, query_digest))",
    ),
    "trigger": execute(f"create trigger t after insert on experts begin {TOUCH}; end"),
    "temporary name": execute("create table sqlitelike (a)"),
    "index": execute("create index i on meta (hex(zeroblob(length(value))))"),
    "endless view": execute(f"create view v as {ENDLESS} n from endless"),
    "view as meta": view_of("meta"),
    "view as samples": view_of("samples"),
    "view as answers": view_of("answers"),
    "virtual table": execute("create virtual table v using fts5(a)"),
    "generated column": hidden_column,
    "forged root": forged_root,
    "no meta": execute("delete from meta"),
    "other schema": execute("update meta set value = '999999999999999999999999999999' where key = 'schema'"),
    "huge schema": execute("update meta set value = hex(zeroblob(20000000)) where key = 'schema'"),
    "blob as schema": execute("update meta set value = x'ff00' where key = 'schema'"),
    "many tables": execute(*(f"create table t{number} (a)" for number in range(200))),
    "no-break space": remade(  # to SQLite a letter of the column's type
        "samples",
        "create table samples (number integer primary key, sample text\u00a0not\u00a0null, checksum text not null)",
    ),
    "trigger after many indexes": execute(
        "pragma writable_schema = on",
        *["insert into sqlite_master select * from sqlite_master where name = 'sqlite_autoindex_experts_1'"] * 7,
        "create trigger late after insert on answers begin delete from answers; end",
    ),
    "entangled schema": entangled("sqlite_master"),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_is_no_recording_of_ours_is_refused_and_left_alone(
    kind: str, editcritic: Command, recording: Path
) -> None:
    FILES[kind](recording)
    before = recording.read_bytes()
    for reward in ("-", "guard-not-blank"):
        refused(editcritic("dev", "replay", reward, recording), recording)
    assert recording.read_bytes() == before


@pytest.mark.parametrize("kind", [kind for kind in FILES if kind not in ("zero bytes", "no meta", "forged root")])
def test_a_cache_that_is_none_of_ours_is_refused_and_left_alone(
    kind: str, editcritic: Command, folder: Folder, recording: Path
) -> None:
    FILES[kind](recording)
    before = recording.read_bytes()
    for option in ("--cache", "--record"):
        refused(editcritic("score", folder / "samples.jsonl", "--reward", folder.cheap, option, recording), recording)
    assert recording.read_bytes() == before
    assert not recording.with_name("run.db-wal").exists()


@pytest.mark.parametrize("kind", ["trigger", "endless view", "view as meta", "generated column", "random", "foreign"])
def test_a_journal_that_is_none_of_ours_is_refused_and_left_alone(kind: str, tmp_path: Path) -> None:
    def entry(path: Path) -> None:
        match kind:
            case "trigger":
                execute("create trigger t after insert on scores begin delete from images; end")(path)
            case "view as meta":
                remade("meta", f"create view meta as {ENDLESS} 'schema', '3' from endless")(path)
            case "generated column":
                execute("drop table scores", "create table scores (key text, score text as (hex(key)))")(path)
            case _:
                FILES[kind](path)

    for name, error in (("journal.sqlite", JournalError), ("answers.sqlite", LogError)):
        folder = tmp_path / name
        with Journal(folder) as journal:
            assert journal.answer_log is not None
        if name == "answers.sqlite" and kind in ("trigger", "generated column", "view as meta"):
            execute(f"create trigger t after insert on experts begin {TOUCH}; end")(folder / name)
        else:
            entry(folder / name)
        before = (folder / name).read_bytes()
        with pytest.raises(error, match=name), Journal(folder) as journal:
            _ = journal.answer_log
        assert (folder / name).read_bytes() == before


@pytest.mark.parametrize("table", ["samples", "answers", "experts", "meta", "rewritings", "queries", "image_files"])
def test_a_scan_of_pages_that_lead_into_each_other_ends(
    table: str, editcritic: Command, folder: Folder, recording: Path
) -> None:
    """It went on in SQLite's code, whatever signal came. Looking single rows up in such a table is quick."""
    entangled(table)(recording)
    before = recording.read_bytes()
    refused(editcritic("dev", "replay", recording), recording)
    refused(editcritic("log", "merge", recording, "--out", folder / "merged.db"), recording)
    with pytest.raises(LogError, match="damaged"), AnswerLog(recording, read_only=True) as log:
        log.verify()
    assert recording.read_bytes() == before
    editcritic("score", folder / "samples.jsonl", "--reward", folder.cheap, "--cache", recording)


def test_a_statement_has_steps_in_proportion_to_its_file(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_database, "_MIN_STEPS", 500_000)
    entangled("samples")(recording)
    with AnswerLog(recording, read_only=True) as log, pytest.raises(sqlite3.DatabaseError, match="more steps than"):
        log.samples()


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_statement_and_is_no_damage(number: int, code: int, recording: Path) -> None:
    entangled("samples")(recording)
    script = (
        "import sys; from editcritic.reward.engine import shared_database as d, answer_log as a; "
        "d._MIN_STEPS = 10**15; from editcritic.benchmarks.common.interruption import end_after; "
        "log = a.AnswerLog(sys.argv[1], read_only=True); print('reading', flush=True); end_after(log.samples)"
    )
    command = [sys.executable, "-c", script, str(recording)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "reading\n"
        time.sleep(0.5)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (code, "editcritic: interrupted\n")


def test_every_entry_of_a_schema_of_ours_is_known() -> None:
    """Otherwise everything would be refused, or what a table of ours is made of would not be compared."""
    with AnswerLog(":memory:") as log:
        entries = log._db.execute("select name, sql from sqlite_master").fetchall()
    assert {name for name, _ in entries if not name.startswith("sqlite_")} == {
        *("answers", "derived_images", "experts", "image_files", "meta", "queries", "rewritings", "samples")
    }


# -- what is no file --------------------------------------------------------------------------------------------------


def special(kind: str, path: Path) -> None:
    path.unlink(missing_ok=True)
    match kind:
        case "directory":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "zero":
            path.symlink_to("/dev/zero")
        case "loop":
            path.symlink_to(path.with_name("other"))
            path.with_name("other").symlink_to(path)
        case _:
            path.symlink_to(path.with_name("missing"))


@pytest.mark.parametrize("kind", ["directory", "fifo", "zero", "loop", "broken link"])
def test_what_is_no_regular_file_is_not_opened(kind: str, editcritic: Command, folder: Folder, three: Path) -> None:
    path = folder / "run.db"
    special(kind, path)
    refused(editcritic("dev", "replay", path), path)
    if kind == "broken link":  # the user's own: the file is made
        return
    for option in ("--cache", "--record"):
        refused(editcritic("score", three, "--reward", folder.cheap, option, path), path)


@pytest.mark.parametrize("suffix", ["-wal", "-journal", "-shm"])
@pytest.mark.parametrize("kind", ["link", "fifo", "directory"])
def test_what_lies_beside_a_cache_is_not_followed(
    kind: str, suffix: str, editcritic: Command, folder: Folder, recording: Path
) -> None:
    """SQLite would take what a link leads to for its own log, and empty it."""
    victim = folder / "victim"
    victim.write_bytes(b"of somebody else" * 100)
    beside = recording.with_name(recording.name + suffix)
    match kind:
        case "link":
            beside.symlink_to(victim)
        case "fifo":
            os.mkfifo(beside)
        case _:
            beside.mkdir()
    before = recording.read_bytes()
    refused(editcritic("score", folder / "samples.jsonl", "--reward", folder.cheap, "--cache", recording), recording)
    if (kind, suffix) != ("link", "-wal"):  # a replay has no use for it
        assert "3/3 agree" in editcritic("dev", "replay", recording).stdout
    assert victim.read_bytes() == b"of somebody else" * 100
    assert recording.read_bytes() == before


def super_journal(victim: Path, pages: int) -> bytes:
    """A rollback journal of no pages that names a file as its super-journal, which SQLite deletes after it."""
    name = os.fsencode(victim)
    header = bytes.fromhex("d9d505f920a163d7") + struct.pack(">IIIII", 0, 0, pages, 512, 4096)
    magic = bytes.fromhex("d9d505f920a163d7")
    checksum = sum(struct.unpack(f"{len(name)}b", name)) & 0xFFFFFFFF
    page = struct.pack(">I", 2**30 // 4096 + 1)
    return header.ljust(512, b"\0") + page + name + struct.pack(">II", len(name), checksum) + magic


def test_a_rollback_journal_beside_a_cache_is_not_replayed(
    editcritic: Command, folder: Folder, recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = folder / "victim"
    victim.write_bytes(b"of somebody else")
    recording.with_name("run.db-journal").write_bytes(super_journal(victim, recording.stat().st_size // 4096))
    assert "3/3 agree" in editcritic("dev", "replay", recording).stdout
    result = editcritic("score", folder / "samples.jsonl", "--reward", folder.cheap, "--cache", recording)
    assert "beside it lies run.db-journal" in refused(result, recording)
    assert victim.read_bytes() == b"of somebody else"
    assert recording.with_name("run.db-journal").exists()
    # What is prevented, or else this test could not fail: SQLite alone deletes the victim.
    with closing(sqlite3.connect(recording)) as db:
        db.execute("select * from meta").fetchall()
    assert not victim.exists()


def test_a_wal_of_another_database_is_refused_or_has_no_effect(
    editcritic: Command, folder: Folder, recording: Path, tmp_path: Path
) -> None:
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
    assert "3/3 agree" in editcritic("dev", "replay", recording).stdout


def refused(result: Any, path: Path) -> str:
    """The one line of a refusal."""
    assert result.exit_code == 2, (result.stdout, result.stderr)
    assert result.stdout == ""
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("editcritic: ")
    assert path.name in line
    assert len(line) < 1_500
    return str(line)


# -- rows with right checksums ----------------------------------------------------------------------------------------


def meta(key: str, value: str | bytes) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            row = (key, value, record_checksum("meta", key, value))
            db.execute("insert or replace into meta values (?, ?, ?)", row)

    return run


def sample(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Another first sample."""

    def run(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            (text,) = db.execute("select sample from samples order by number").fetchone()
            changed = change(json.loads(text))
            row = changed if isinstance(changed, str | bytes) else json.dumps(changed)
            db.execute(
                "update samples set sample = ?, checksum = ? where number = (select min(number) from samples)",
                (row, record_checksum("sample", row)),
            )

    return run


def with_fields(**fields: object) -> Callable[[Path], None]:
    return sample(lambda row: {**row, **fields})


DIGEST = "0" * 64
ROWS: dict[str, Callable[[Path], None]] = {
    "spec no JSON": meta("spec", "nonsense"),
    "spec a list": meta("spec", "[1, 2]"),
    "spec a number": meta("spec", "1e999"),
    "spec deep": meta("spec", DEEP),
    "spec empty": meta("spec", "{}"),
    "spec of nothing": meta("spec", '{"reward": 3}'),
    "spec NaN": meta("spec", '{"reward": {"use": "guard-not-blank", "min_contrast": NaN}}'),
    "spec of bytes": meta("spec", b"\xff\xfe{}"),
    "spec huge": meta("spec", '"' + "x" * (MAX_ROW_BYTES + 1) + '"'),
    "spec of many values": meta("spec", "[" + "0," * 2_000_000 + "0]"),
    "spec with a lone surrogate": meta("spec", '{"reward": {"use": "\\ud800"}}'),
    "spec with a long integer": meta("spec", '{"reward": ' + "9" * 100_000 + "}"),
    "experts a number": meta("experts", "7"),
    "experts a list": meta("experts", "[]"),
    "experts of numbers": meta("experts", '{"judge": 7}'),
    "experts without ids": meta("experts", '{"judge": {"id": ["x"], "rewrites": true}}'),
    "experts of bytes": meta("experts", b"\x80"),
    "score a text": meta("score:copy", '"x"'),
    "score no JSON": meta("score:copy", "{"),
    "score without a value": meta("score:copy", "{}"),
    "score of texts": meta("score:copy", '{"value": "x", "status": "scored"}'),
    "score NaN": meta("score:copy", '{"value": NaN, "status": "scored"}'),
    "score deep": meta("score:copy", '{"value": ' + DEEP),
    "sample no JSON": sample(lambda row: "x"),
    "sample a list": sample(lambda row: [row]),
    "sample a number": sample(lambda row: "1"),
    "sample deep": sample(lambda row: '{"metadata": ' + DEEP),
    "sample huge": sample(lambda row: {**row, "hint": "x" * (MAX_ROW_BYTES + 1)}),
    "sample of many values": sample(lambda row: {**row, "metadata": {"a": [0] * 1_100_000}}),
    "sample of bytes": sample(lambda row: b"\xff\xfe"),
    "sample with a path": with_fields(edited="patched.png"),
    "sample with a device": with_fields(edited="/dev/zero"),
    "sample of no size": with_fields(edited={"digest": DIGEST, "size": [0, 128]}),
    "sample of a negative size": with_fields(edited={"digest": DIGEST, "size": [-8, 128]}),
    "sample of 10^18 pixels": with_fields(edited={"digest": DIGEST, "size": [10**9, 10**9]}),
    "sample of a size in text": with_fields(edited={"digest": DIGEST, "size": "big"}),
    "sample with a lone surrogate": with_fields(id="\ud800"),
    "sample with an escape": with_fields(id="\x1b[2J"),
    "sample with a NaN": with_fields(metadata={"a": float("nan")}),
    "sample with another field": with_fields(more=1),
    "sample with many wrong boxes": with_fields(fractions={"x": [["y"]] * 20_000}),
    "sample of wrong types": with_fields(instruction=7, history="x"),
}


@pytest.mark.parametrize("kind", ROWS)
def test_a_row_that_nobody_wrote_ends_a_replay_with_a_line(kind: str, editcritic: Command, recording: Path) -> None:
    ROWS[kind](recording)
    before = recording.read_bytes()
    result = editcritic("dev", "replay", recording, code=2)
    line = result.stderr.strip().splitlines()[-1]
    assert line.startswith("editcritic: ")
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


@pytest.mark.parametrize("kind", ANSWERS)
def test_an_answer_that_is_none_counts_as_not_stored(kind: str, editcritic: Command, recording: Path) -> None:
    answer_all(recording, ANSWERS[kind])
    result = editcritic("dev", "replay", recording, "--json")
    assert result.exit_code in (1, 2), (result.stdout, result.stderr)
    document = json.loads(result.stdout)
    assert document["summary"]["counts"]["scored"] == 0
    assert all(len(line) < 3_000 for line in result.stderr.splitlines())
    reasons = " ".join(row["reason"] for row in document["summary"]["unscored"])
    assert "the recording has no answer to this query" in reasons or document["exit_code"] == 2


def test_a_reason_of_a_megabyte_is_not_printed(editcritic: Command, recording: Path) -> None:
    answer_all(recording, json.dumps({"abstained": "z" * 1_000_000}))
    result = editcritic("dev", "replay", recording, code=1, says="zzz")
    assert len(result.stderr) < 20_000
    assert len(result.stdout) < 20_000


def answer_all(recording: Path, text: str) -> None:
    with closing(sqlite3.connect(recording, isolation_level=None)) as db:
        rows = db.execute(
            "select id, number, lower(hex(query_digest)) from answers join experts on number = expert_number"
        ).fetchall()
        for expert, number, digest in rows:
            db.execute(
                "update answers set answer = ?, checksum = ? where expert_number = ? and query_digest = ?",
                (text, record_checksum("answer", expert, digest, text), number, bytes.fromhex(digest)),
            )


DERIVED = {
    "no list": '"crop"',
    "nested": '["crop", [1], {"a": 2}]',
    "of 10^9": '["resize", 1000000000, 1000000000, "lanczos"]',
    "deep": DEEP,
    "no JSON": "x",
}


@pytest.mark.parametrize("kind", DERIVED)
def test_a_derivation_that_no_metric_asks_for_is_never_read(kind: str, editcritic: Command, recording: Path) -> None:
    row = (DIGEST, DERIVED[kind], "x" * 1_000)
    with closing(sqlite3.connect(recording, isolation_level=None)) as db:
        checksum = record_checksum("derived image", *row)
        db.execute("insert into derived_images values (?, ?, ?, ?)", (*row, checksum))
    assert "3/3 agree" in editcritic("dev", "replay", recording).stdout


def test_the_digest_of_a_derived_image_is_a_digest(recording: Path) -> None:
    with closing(sqlite3.connect(recording, isolation_level=None)) as db:
        parent, operation = db.execute("select parent_digest, operation from derived_images").fetchone()
        row = (parent, operation, "\x1b[2J")
        checksum = record_checksum("derived image", *row)
        db.execute("insert or replace into derived_images values (?, ?, ?, ?)", (*row, checksum))
    with AnswerLog(recording, read_only=True) as log:
        assert log.derived_digest(parent, operation) is None


@pytest.mark.parametrize(
    "entry", [("x" * 64, "8", "8"), (DIGEST, "0", "8"), (DIGEST, "-8", "8"), (DIGEST, "9" * 9, "9" * 9), ("", "", "")]
)
def test_an_entry_of_the_index_of_files_that_is_none_counts_as_missing(entry: Any, tmp_path: Path) -> None:
    with AnswerLog(tmp_path / "log") as log:
        row = (DIGEST, *entry)
        checksum = record_checksum("image file", *row)
        log._db.execute("insert into image_files values (?, ?, ?, ?, ?)", (*row, checksum))
        assert log.files.get(DIGEST) is None


def test_rows_that_are_too_long_are_neither_written_nor_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("editcritic.reward.engine.answer_log.MAX_ANSWER_BYTES", 100)
    from editcritic.reward.queries import Measurement, Reply

    from ...reward.fakes import question, verdict

    with AnswerLog(tmp_path / "log") as log:
        log.put("fake", [(verdict(1), Reply("x" * 1_000, {"yes": 1.0, "no": 0.0})), (question(1), Measurement(0.5))])
        assert len(log) == 1
        assert log.get("fake", [question(1)]) == {question(1).digest: Measurement(0.5)}
        log._db.execute("update answers set answer = ?", (json.dumps({"value": 0.5, "share": 1.0}) + " " * 100,))
        with pytest.warns(RuntimeWarning, match="is damaged"):
            assert log.get("fake", [question(1)]) == {question(1).digest: None}


def test_an_opened_database_trusts_no_functions_of_its_schema(tmp_path: Path) -> None:
    for log in (AnswerLog(tmp_path / "log"), AnswerLog(tmp_path / "log", read_only=True)):
        with log:
            assert log._db.execute("pragma trusted_schema").fetchone() == (0,)
            assert isinstance(log._database, SharedDatabase)
    with AnswerLog(tmp_path / "log", read_only=True) as log, pytest.raises(sqlite3.OperationalError, match="readonly"):
        log.meta("a", "b")


def test_a_recording_of_a_python_program_is_replayed(tmp_path: Path) -> None:
    """The fixtures above are hostile to what this writes."""
    with AnswerLog(tmp_path / "run.db", record_queries=True) as log:
        RecordingWriter(log, Reward.of("guard-not-a-copy", default_experts()))
        assert json.loads(log.meta("spec") or "") == {"reward": {"use": "guard-not-a-copy"}}


def test_an_answer_of_millions_of_lists_is_not_parsed(tmp_path: Path) -> None:
    query = Detect(picture(1), ("cup",))
    with AnswerLog(tmp_path / "cache.db") as log:
        log.put("seer", [(query, Detections((), 0.1))])
    text = "[" + "[]," * 1_000_000 + "0]"
    with closing(sqlite3.connect(tmp_path / "cache.db", isolation_level=None)) as db:
        db.execute(
            "update answers set answer = ?, checksum = ?", (text, record_checksum("answer", "seer", query.digest, text))
        )
    with AnswerLog(tmp_path / "cache.db") as log, pytest.warns(RuntimeWarning, match="lists and tables"):
        assert log.get("seer", [query]) == {query.digest: None}


@pytest.mark.parametrize("row", [DEEP, '{"id": ["a"]}', "7", "{}"])
def test_a_row_of_a_journal_that_is_none_is_scored_again(row: str, tmp_path: Path) -> None:
    whole = json.dumps({"id": "a"})
    lines = [{"sample_key": "k", "row": text, "checksum": record_checksum("row", "k", text)} for text in (row, whole)]
    (tmp_path / "rows-0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with RowJournal(tmp_path) as journal:
        assert journal.rows() == {"a": [("k", {"id": "a"})]}
