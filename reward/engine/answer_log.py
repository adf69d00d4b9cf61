"""The answer log: what experts have said, kept on disk.

An append-only store (query digest, expert id) -> answer in one SQLite file. It is the disk cache, the recording and the
resume file in one: resuming is replaying. Failures are never in it. Several processes of one machine may share it.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from .image import Image, Size
from .outcomes import Abstention
from .query import Answer, Query
from .wire import answer_from_json, answer_to_json

SCHEMA = 1

_TABLES = f"""
begin immediate;
create table if not exists meta (key text primary key, value text not null) without rowid;
create table if not exists experts (number integer primary key, id text not null unique);
create table if not exists answers (
    expert integer not null, query blob not null, answer text not null, primary key (expert, query)
) without rowid;
create table if not exists queries (
    query blob primary key, kind text not null, description text not null
) without rowid;
create table if not exists files (file text primary key, digest text not null, width int, height int) without rowid;
create table if not exists derived (
    parent text not null, operation text not null, digest text not null, primary key (parent, operation)
) without rowid;
create table if not exists samples (number integer primary key, sample text not null);
insert or ignore into meta values ('schema', '{SCHEMA}');
commit;
"""

_CHUNK = 500  # SQLite's older limit is 999 variables


class LogError(ValueError):
    """A file that is not an answer log, or not one this version can read."""


class AnswerLog:
    """`AnswerLog(path)` opens or creates one. `describe=True` also keeps the queries, so that a run can be replayed.

    Raises `LogError` for a file that is something else, naming the file.
    """

    def __init__(self, path: str | Path, *, describe: bool = False) -> None:
        self.path = Path(path)
        self.describes = describe
        self._noted: set[tuple[str, str]] = set()
        self._lock = threading.RLock()
        try:
            self._db = sqlite3.connect(self.path, timeout=60.0, check_same_thread=False, isolation_level=None)
            tables = {name for (name,) in self._db.execute("select name from sqlite_master where type = 'table'")}
            if tables and "answers" not in tables:
                raise LogError(f"{self.path} is a database of something else: give a new file")
            self._use_wal()
            self._db.execute("pragma synchronous = normal")
            self._db.execute("pragma cache_size = -65536")  # 64 MiB: keys are random, and pages are met again
            self._db.execute("pragma wal_autocheckpoint = 8192")  # 32 MiB, for the same reason
            self._db.executescript(_TABLES)
            found = self.meta("schema")
        except sqlite3.Error as error:
            raise LogError(f"{self.path} cannot be used as an answer log: {error}") from None
        if found != str(SCHEMA):
            raise LogError(f"{self.path} has schema {found}, this version reads {SCHEMA}: use a new file")
        self._numbers: dict[str, int] = {}

    def _use_wal(self) -> None:
        """SQLite's own patience does not cover this switch: where another process is just at it, try again."""
        for left in reversed(range(100)):
            try:
                self._db.execute("pragma journal_mode = wal")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or not left:
                    raise
                time.sleep(0.05)

    # -- answers ------------------------------------------------------------------------------------------------------

    def look_up(self, expert: str, digests: Sequence[str]) -> dict[str, Answer | Abstention]:
        """What this expert has answered, by query digest."""
        known: dict[str, Answer | Abstention] = {}
        with self._lock:
            number = self._number(expert)
            for start in range(0, len(digests), _CHUNK):
                part = [bytes.fromhex(digest) for digest in digests[start : start + _CHUNK]]
                marks = ",".join("?" * len(part))
                rows = self._db.execute(
                    f"select query, answer from answers where expert = ? and query in ({marks})",
                    (number, *part),
                )
                for query, answer in rows:
                    try:
                        known[query.hex()] = answer_from_json(json.loads(answer))
                    except (ValueError, TypeError, LookupError) as error:
                        raise LogError(f"{self.path} holds an answer that cannot be read: {error}") from None
        return known

    def keep(self, expert: str, answered: Sequence[tuple[Query[Any], Answer | Abstention]]) -> None:
        """Store answers in one transaction. The first answer to a question stays."""
        with self._lock:
            number = self._number(expert)
            self._db.execute("begin immediate")
            try:
                self._db.executemany(
                    "insert or ignore into answers values (?, ?, ?)",
                    (
                        (number, bytes.fromhex(query.digest), json.dumps(answer_to_json(answer), allow_nan=False))
                        for query, answer in answered
                    ),
                )
                if self.describes:
                    self._keep_descriptions([query for query, _ in answered])
            except BaseException:
                self._db.execute("rollback")
                raise
            self._db.execute("commit")

    def _keep_descriptions(self, queries: Sequence[Query[Any]]) -> None:
        self._db.executemany(
            "insert or ignore into queries values (?, ?, ?)",
            ((bytes.fromhex(query.digest), query.kind, json.dumps(query.describe())) for query in queries),
        )

    def note(self, query: Query[Any]) -> None:
        """Keep what the crops in a query were made of, where the log `describes`.

        For every question asked, be it answered already: crops of two pictures may be equal, and then only one of the
        two questions reaches an expert, but a replay has to know both crops.
        """
        if not self.describes:
            return
        with self._lock:
            waiting = list(query.images)
            while waiting:
                image = waiting.pop()
                waiting += image.parents
                if image.origin is None:
                    continue
                parent, operation = image.origin
                if (parent.digest, operation) not in self._noted:
                    self._db.execute(
                        "insert or ignore into derived values (?, ?, ?)", (parent.digest, operation, image.digest)
                    )
                    self._noted.add((parent.digest, operation))

    def _number(self, expert: str) -> int:
        number = self._numbers.get(expert)
        if number is None:
            self._db.execute("insert or ignore into experts (id) values (?)", (expert,))
            number = int(self._db.execute("select number from experts where id = ?", (expert,)).fetchone()[0])
            self._numbers[expert] = number
        return number

    def __len__(self) -> int:
        with self._lock:
            return int(self._db.execute("select count(*) from answers").fetchone()[0])

    # -- what a replay needs besides ----------------------------------------------------------------------------------

    def meta(self, key: str, value: str | None = None) -> str | None:
        """Read a note about this log, or write it."""
        with self._lock:
            if value is not None:
                self._db.execute("insert or replace into meta values (?, ?)", (key, value))
                return value
            row = self._db.execute("select value from meta where key = ?", (key,)).fetchone()
            return None if row is None else str(row[0])

    def add_sample(self, sample: str) -> None:
        """Keep a sample (JSON, images by digest) for a replay."""
        with self._lock:
            self._db.execute("insert into samples (sample) values (?)", (sample,))

    def samples(self) -> list[str]:
        with self._lock:
            return [row[0] for row in self._db.execute("select sample from samples order by number")]

    def teach_derivations(self) -> None:
        """Let `Image` know the digests of the crops in this recording."""
        with self._lock:
            for parent, operation, digest in self._db.execute("select parent, operation, digest from derived"):
                Image.learn(parent, operation, digest)

    @property
    def files(self) -> MutableMapping[str, tuple[str, Size]]:
        """File digest -> (content digest, size), for `Image.open(path, index=log.files)`."""
        return _Files(self._db, self._lock)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def __enter__(self) -> AnswerLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Files(MutableMapping[str, tuple[str, Size]]):
    def __init__(self, db: sqlite3.Connection, lock: threading.RLock) -> None:
        self._db = db
        self._lock = lock

    def __getitem__(self, file: str) -> tuple[str, Size]:
        with self._lock:
            row = self._db.execute("select digest, width, height from files where file = ?", (file,)).fetchone()
        if row is None:
            raise KeyError(file)
        return str(row[0]), (int(row[1]), int(row[2]))

    def __setitem__(self, file: str, value: tuple[str, Size]) -> None:
        with self._lock:
            self._db.execute("insert or ignore into files values (?, ?, ?, ?)", (file, value[0], *value[1]))

    def __delitem__(self, file: str) -> None:
        with self._lock:
            self._db.execute("delete from files where file = ?", (file,))

    def __iter__(self) -> Iterator[str]:
        with self._lock:
            rows = self._db.execute("select file from files").fetchall()
        return iter([row[0] for row in rows])

    def __len__(self) -> int:
        with self._lock:
            return int(self._db.execute("select count(*) from files").fetchone()[0])
