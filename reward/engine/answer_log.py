"""The answer log: experts' answers on disk.

An append-only store (query digest, expert id) -> answer in one SQLite file. It serves as disk cache, recording and
resume state: resuming is replaying. Failures are never stored. Several processes of one machine may share it.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from ..image import Image, Size
from ..queries.kinds import Answer, Query
from ..queries.outcomes import Abstention
from ..queries.serialization import answer_from_json, answer_to_json
from .shared_database import open_database

SCHEMA = 2

_TABLES = f"""
begin immediate;
create table if not exists meta (key text primary key, value text not null) without rowid;
create table if not exists experts (number integer primary key, id text not null unique);
create table if not exists answers (
    expert_number integer not null, query_digest blob not null, answer text not null,
    primary key (expert_number, query_digest)
) without rowid;
create table if not exists queries (
    query_digest blob primary key, kind text not null, description text not null
) without rowid;
create table if not exists image_files (
    file_digest text primary key, image_digest text not null, width int, height int
) without rowid;
create table if not exists derived_images (
    parent_digest text not null, operation text not null, image_digest text not null,
    primary key (parent_digest, operation)
) without rowid;
create table if not exists samples (number integer primary key, sample text not null);
insert or ignore into meta values ('schema', '{SCHEMA}');
commit;
"""

_CHUNK = 500  # SQLite's older limit is 999 variables


class LogError(ValueError):
    """A file that is not an answer log, or has an unsupported schema."""


class AnswerLog:
    """`AnswerLog(path)` opens or creates a log. `record_queries=True` also stores the queries, for replays.

    Raises `LogError` for any other file, naming it.
    """

    def __init__(self, path: str | Path, *, record_queries: bool = False) -> None:
        self.path = Path(path)
        self.records_queries = record_queries
        self._recorded_origins: set[tuple[str, str]] = set()
        self._lock = threading.RLock()
        self._db = open_database(
            self.path,
            _TABLES,
            schema=SCHEMA,
            tables={"answers"},
            kind="an answer log",
            replacement="a new file",
            error_class=LogError,
        )
        self._db.execute("pragma cache_size = -65536")  # 64 MiB: keys are random, and pages are reused
        self._db.execute("pragma wal_autocheckpoint = 8192")  # 32 MiB, for the same reason
        self._expert_numbers: dict[str, int] = {}

    # -- answers ------------------------------------------------------------------------------------------------------

    def get(self, expert: str, digests: Sequence[str]) -> dict[str, Answer | Abstention]:
        """Stored answers of an expert, by query digest."""
        answers: dict[str, Answer | Abstention] = {}
        with self._lock:
            number = self._expert_number(expert)
            for start in range(0, len(digests), _CHUNK):
                chunk = [bytes.fromhex(digest) for digest in digests[start : start + _CHUNK]]
                placeholders = ",".join("?" * len(chunk))
                rows = self._db.execute(
                    "select query_digest, answer from answers "
                    f"where expert_number = ? and query_digest in ({placeholders})",
                    (number, *chunk),
                )
                for digest, answer in rows:
                    try:
                        answers[digest.hex()] = answer_from_json(json.loads(answer))
                    except (ValueError, TypeError, LookupError) as error:
                        raise LogError(f"{self.path} holds an answer that cannot be read: {error}") from None
        return answers

    def put(self, expert: str, answered: Sequence[tuple[Query[Any], Answer | Abstention]]) -> None:
        """Store answers in one transaction. The first answer to a query is kept."""
        with self._lock:
            number = self._expert_number(expert)
            self._db.execute("begin immediate")
            try:
                self._db.executemany(
                    "insert or ignore into answers values (?, ?, ?)",
                    (
                        (number, bytes.fromhex(query.digest), json.dumps(answer_to_json(answer), allow_nan=False))
                        for query, answer in answered
                    ),
                )
                if self.records_queries:
                    self._put_descriptions([query for query, _ in answered])
            except BaseException:
                self._db.execute("rollback")
                raise
            self._db.execute("commit")

    def _put_descriptions(self, queries: Sequence[Query[Any]]) -> None:
        self._db.executemany(
            "insert or ignore into queries values (?, ?, ?)",
            ((bytes.fromhex(query.digest), query.kind, json.dumps(query.describe())) for query in queries),
        )

    def record_origins(self, query: Query[Any]) -> None:
        """Store the derivation of the crops in a query, if the log `records_queries`.

        Also for queries answered from the cache: crops of two images may be equal, and then only one of the two
        queries reaches an expert, but a replay needs both crops.
        """
        if not self.records_queries:
            return
        with self._lock:
            images = list(query.images)
            while images:
                image = images.pop()
                images += image.parents
                if image.origin is None:
                    continue
                parent, operation = image.origin
                if (parent.digest, operation) not in self._recorded_origins:
                    self._db.execute(
                        "insert or ignore into derived_images values (?, ?, ?)",
                        (parent.digest, operation, image.digest),
                    )
                    self._recorded_origins.add((parent.digest, operation))

    def _expert_number(self, expert: str) -> int:
        number = self._expert_numbers.get(expert)
        if number is None:
            self._db.execute("insert or ignore into experts (id) values (?)", (expert,))
            number = int(self._db.execute("select number from experts where id = ?", (expert,)).fetchone()[0])
            self._expert_numbers[expert] = number
        return number

    def __len__(self) -> int:
        with self._lock:
            return int(self._db.execute("select count(*) from answers").fetchone()[0])

    # -- metadata, samples and images ---------------------------------------------------------------------------------

    def meta(self, key: str, value: str | None = None) -> str | None:
        """Read metadata of this log, or write it."""
        with self._lock:
            if value is not None:
                self._db.execute("insert or replace into meta values (?, ?)", (key, value))
                return value
            row = self._db.execute("select value from meta where key = ?", (key,)).fetchone()
            return None if row is None else str(row[0])

    def add_sample(self, sample: str) -> None:
        """Store a sample (JSON, images by digest) for a replay."""
        with self._lock:
            self._db.execute("insert into samples (sample) values (?)", (sample,))

    def samples(self) -> list[str]:
        with self._lock:
            return [row[0] for row in self._db.execute("select sample from samples order by number")]

    def load_derivations(self) -> None:
        """Register the digests of derived images in this recording with `Image`."""
        with self._lock:
            for row in self._db.execute("select parent_digest, operation, image_digest from derived_images"):
                Image.register_derived_digest(*row)

    @property
    def files(self) -> MutableMapping[str, tuple[str, Size]]:
        """File digest -> (content digest, size), for `Image.open(path, index=log.files)`."""
        return _FileTable(self._db, self._lock)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def __enter__(self) -> AnswerLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _FileTable(MutableMapping[str, tuple[str, Size]]):
    def __init__(self, db: sqlite3.Connection, lock: threading.RLock) -> None:
        self._db = db
        self._lock = lock

    def __getitem__(self, file: str) -> tuple[str, Size]:
        with self._lock:
            row = self._db.execute(
                "select image_digest, width, height from image_files where file_digest = ?", (file,)
            ).fetchone()
        if row is None:
            raise KeyError(file)
        return str(row[0]), (int(row[1]), int(row[2]))

    def __setitem__(self, file: str, value: tuple[str, Size]) -> None:
        with self._lock:
            self._db.execute("insert or ignore into image_files values (?, ?, ?, ?)", (file, value[0], *value[1]))

    def __delitem__(self, file: str) -> None:
        with self._lock:
            self._db.execute("delete from image_files where file_digest = ?", (file,))

    def __iter__(self) -> Iterator[str]:
        with self._lock:
            rows = self._db.execute("select file_digest from image_files").fetchall()
        return iter([row[0] for row in rows])

    def __len__(self) -> int:
        with self._lock:
            return int(self._db.execute("select count(*) from image_files").fetchone()[0])
