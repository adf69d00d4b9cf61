"""SQLite files that several processes of one machine write to, and that may come from a stranger.

A database can contain code that runs when it is used: triggers, views, generated columns, expressions in indexes and
checks. So a file is used only if each entry of its schema is, to the letter, one that we make. Its pages can lead into
each other, so that a scan visits more rows than there are atoms: so each statement has steps in proportion to the file.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
import shutil
import sqlite3
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator, Set
from pathlib import Path
from typing import Any

from ..forks import at_fork

DATABASE_ERRORS: tuple[type[Exception], ...] = (sqlite3.Error, UnicodeDecodeError)
"""What using a damaged database raises; the second if a damaged name is part of SQLite's message."""
_MAX_ENTRIES = 64
"""Entries of a schema; ours have fewer. SQLite accepts one index many times, and a trigger after them."""
_STEPS_BETWEEN = 5_000
"""Instructions of SQLite's machine between two looks at the budget and at signals: 0.1 ms, or as many long rows."""
_MAX_SCHEMA_STEPS = 2_000
"""What reading a schema may take: its pages cannot be checked before, and its rows may be long. Ours takes 200."""
_MAX_TEXT = 10_000  # characters of an entry of a schema that are looked at
_MIN_STEPS = 5_000_000
_STEPS_PER_BYTE = 64
"""What a statement may take. A scan of our tables takes 30 to 60 steps a row, and a row has 32 bytes or more."""
_BLANKS = re.compile(r"[ \t\n\f\r]+")  # those of SQLite; other blanks of Unicode are letters to it
_META = re.compile(
    r"create table meta ?\( ?key text primary key, value text not null(, checksum text not null)? ?\) without rowid",
    re.IGNORECASE,
)
"""The table with the number of the schema, as all versions made it: reading it runs nothing."""
_Entry = tuple[str, str, str, str]  # type, name and table of an entry of a schema, and the statement that made it


class SharedDatabase:
    """A database in WAL mode; any thread may use its connection, and writers wait up to 60 s for each other. There is
    no connection while the process forks; parent and child open one each when they need it. SQLite keeps the locks of
    its connections in tables of the process, and in a child these would name locks that only the parent holds.
    """

    def __init__(
        self,
        path: str | Path,
        create: str,
        *,
        schema: int,
        tables: Set[str],
        kind: str,
        replacement: str,
        error_class: type[ValueError],
        read_only: bool = False,
    ) -> None:
        """path: `:memory:` for one of this object alone. create: a script that makes the missing tables, sets `schema`
        in the table `meta` of a new database, and the pragmas of a connection. tables: those that a database of this
        kind always has. kind, replacement: for messages, as "an answer log", "a new file". read_only: neither the file
        nor what lies beside it is changed; if a process was killed while it wrote, a copy is read. Raises
        `error_class`, naming the path, for a file that cannot be used. A foreign database, one of another schema, or
        one with anything in its schema that `create` does not make (a trigger, a view, another column) is not changed,
        and nothing in it runs.
        """
        self.path, self.create, self.schema, self.tables = path, create, schema, tables
        self.kind, self.replacement, self.error_class = kind, replacement, error_class
        self.read_only = read_only
        self.lock = threading.RLock()
        """Hold it to use the connection."""
        self._closed = False
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self._connection: sqlite3.Connection | None = self._connect()
        at_fork(self, SharedDatabase._in_child, before=SharedDatabase._before_fork, in_parent=SharedDatabase._in_parent)

    @property
    def connection(self) -> sqlite3.Connection:
        """Raises sqlite3.ProgrammingError after `close`."""
        if self._closed:
            raise sqlite3.ProgrammingError(f"{self.path} is closed")
        if self._connection is None:  # since a fork
            self._connection = self._connect()
        return self._connection

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All that the body writes, or nothing."""
        with self.lock:
            self.connection.execute("begin immediate")
            try:
                yield self.connection
            except BaseException:
                self.connection.execute("rollback")
                raise
            self.connection.execute("commit")

    def close(self) -> None:
        with self.lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
            if self._copy is not None:
                self._copy.cleanup()

    def _connect(self) -> sqlite3.Connection:
        try:
            db = self._open_to_read() if self.read_only else self._open()
            try:
                self._prepare(db)
            except BaseException:
                db.close()
                raise
        except DATABASE_ERRORS as error:
            raise self._unusable(str(error)) from None
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from None
        return db

    def _prepare(self, db: _BoundedConnection) -> None:
        db.execute("pragma trusted_schema = off")
        if not self._require_own_schema(db) and self.read_only:
            raise self.error_class(f"{self.path} is an empty database: give {self.replacement}")
        db.allow_rows()
        if self.read_only:
            db.execute("pragma query_only = on")
            return
        from tenacity import Retrying, retry_if_exception_message, stop_after_attempt, wait_fixed

        # SQLite's timeout does not cover the switch to WAL.
        locked = retry_if_exception_message(match=".*locked")
        retrying = Retrying(retry=locked, stop=stop_after_attempt(100), wait=wait_fixed(0.05), reraise=True)
        retrying(lambda: db.execute("pragma journal_mode = wal").fetchall())  # a row that is left keeps it in progress
        db.execute("pragma synchronous = normal")
        db.executescript(self.create)
        self._require_own_schema(db)  # a new file may have been made by another version meanwhile

    def _unusable(self, problem: str) -> ValueError:
        return self.error_class(f"{self.path} cannot be used as {self.kind}: {problem}")

    def _open(self) -> _BoundedConnection:
        if self.path != ":memory:":
            self._require_own_files()
        return self._bounded(self.path)

    def _bounded(self, database: str | Path, *, uri: bool = False) -> _BoundedConnection:
        db = sqlite3.connect(
            database, uri=uri, timeout=60.0, check_same_thread=False, isolation_level=None, factory=_BoundedConnection
        )
        if self.path != ":memory:":
            db.bound(self.path)  # before the schema is loaded
        return db

    def _require_own_files(self) -> None:
        """Raise unless the file, and what SQLite would write or replay beside it, are files that we may have made. A
        rollback journal is replayed, and deletes the file that it names as its super-journal; we have one for a moment
        only, when a file is made. SQLite would follow a link beside the database, and write there.
        """
        if not _is_regular_or_absent(Path(os.path.realpath(self.path))):
            raise self._unusable("it is not a regular file")
        beside = {suffix: Path(os.path.realpath(self.path) + suffix) for suffix in ("-journal", "-wal", "-shm")}
        for path in beside.values():
            if not _is_regular_or_absent(path):
                raise self._unusable(f"beside it lies {path.name}, which is not a regular file: delete that one")
        if not _disappears(beside["-journal"]):
            raise self._unusable(
                f"beside it lies {beside['-journal'].name}, which would change it: delete both, or give "
                f"{self.replacement}"
            )

    def _open_to_read(self) -> _BoundedConnection:
        """SQLite would create files beside a database in WAL mode, and trust those that lie there: so the file is read
        as it is, or if it is not complete without its WAL, a copy of both.
        """
        file = Path(os.path.realpath(self.path))
        if not file.is_file():
            raise self._unusable("it is not a regular file" if file.exists() else "it does not exist")
        wal = Path(f"{file}-wal")
        options = "mode=ro&immutable=1"
        if wal.is_file() and wal.stat().st_size:
            options, file = "mode=rw", self._copy_of(file, wal)
        return self._bounded(f"{file.as_uri()}?{options}", uri=True)

    def _copy_of(self, file: Path, wal: Path) -> Path:
        self._copy = tempfile.TemporaryDirectory(prefix="editcritic-")
        copy = Path(self._copy.name) / "copy"
        before = file.stat()
        shutil.copyfile(file, copy)
        shutil.copyfile(wal, f"{copy}-wal")
        if (before.st_mtime_ns, before.st_size) != (file.stat().st_mtime_ns, file.stat().st_size):
            raise self._unusable("a process is writing it: wait for that to end")
        return copy

    def _require_own_schema(self, db: sqlite3.Connection) -> bool:
        """Whether there is a schema. Raises if it is not ours."""
        columns = ", ".join(f"substr({column}, 1, {_MAX_TEXT})" for column in ("type", "name", "tbl_name", "sql"))
        rows = db.execute(f"select {columns} from sqlite_master").fetchmany(_MAX_ENTRIES + 1)
        entries = frozenset(map(_entry, rows))
        if not entries:
            return False
        tables = {entry[1]: entry[3] for entry in entries if entry[0] == "table"}
        if not self.tables <= set(tables):
            raise self.error_class(f"{self.path} is a database of something else: give {self.replacement}")
        if _META.fullmatch(tables.get("meta", "")):
            (stored,) = db.execute("select value from meta where key = 'schema'").fetchone() or ("no number",)
            if stored != str(self.schema):
                raise self.error_class(
                    f"{self.path} has schema {stored!s:.20}, this version reads {self.schema}: use {self.replacement}"
                )
        if len(rows) > _MAX_ENTRIES:
            raise self._unusable(f"its schema has more than {_MAX_ENTRIES} entries: give {self.replacement}")
        if others := sorted(entry[:2] for entry in entries - _own_entries(self.create)):
            kind, name = others[0]
            raise self._unusable(
                f"its {kind} {name!r:.80} is not one that this version makes, and may run something: give "
                f"{self.replacement}"
            )
        return True

    def _before_fork(self) -> None:
        self.lock.acquire()
        if self.path != ":memory:" and self._connection is not None and not self._closed:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _in_parent(self) -> None:
        self.lock.release()

    def _in_child(self) -> None:
        self.lock = threading.RLock()


class _BoundedConnection(sqlite3.Connection):
    """Ends a statement that takes more steps than its file has room for rows, and one during which a signal came.
    SQLite swallows what a callback raises, and so what Python's handler of a signal raises within it.
    """

    _path: str | Path = ""
    _steps = 0
    _between = _MAX_SCHEMA_STEPS // 4

    def bound(self, path: str | Path) -> None:
        self._path = path
        self.set_progress_handler(self._is_over, self._between)

    def allow_rows(self) -> None:
        """The schema is known to be ours: what follows may read tables."""
        self._between = _STEPS_BETWEEN
        if self._path:
            self.bound(self._path)

    def execute(self, *arguments: Any) -> Any:
        return self._fresh_cursor().execute(*arguments)

    def executemany(self, *arguments: Any) -> Any:
        return self._fresh_cursor().executemany(*arguments)

    def executescript(self, *arguments: Any) -> Any:
        return self._fresh_cursor().executescript(*arguments)

    def _fresh_cursor(self) -> _Cursor:
        self._steps = 0
        return self.cursor(_Cursor)

    def _is_over(self) -> bool:
        self._steps += self._between
        return self._steps > _MAX_SCHEMA_STEPS and self._steps > self._limit()

    def _limit(self) -> int:
        if self._between != _STEPS_BETWEEN:
            return _MAX_SCHEMA_STEPS
        size = 0
        for path in (Path(self._path), Path(f"{self._path}-wal")):
            with contextlib.suppress(OSError):  # another process deletes it
                size += path.stat().st_size
        return max(_MIN_STEPS, _STEPS_PER_BYTE * size)

    def explain(self, error: sqlite3.DatabaseError) -> None:
        """Raise why a statement ended, where the error does not say it."""
        if "is full" in str(error) or "disk I/O" in str(error):
            raise sqlite3.OperationalError(f"{self._path}: {error}") from None
        if "interrupted" not in str(error):
            return
        if self._steps <= self._limit():
            raise KeyboardInterrupt
        raise sqlite3.DatabaseError("a statement takes more steps than the file has room for rows") from None


class _Cursor(sqlite3.Cursor):
    """Of a `_BoundedConnection`; a new one for each statement."""

    connection: _BoundedConnection

    def execute(self, *arguments: Any) -> Any:
        return self._run(super().execute, *arguments)

    def executemany(self, *arguments: Any) -> Any:
        return self._run(super().executemany, *arguments)

    def executescript(self, *arguments: Any) -> Any:
        return self._run(super().executescript, *arguments)

    def __next__(self) -> Any:
        return self._run(super().__next__)

    def _run(self, run: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return run(*arguments)
        except sqlite3.DatabaseError as error:
            self.connection.explain(error)
            raise  # here: a frame that holds what it raises would keep this cursor, and its statement, in progress

    def fetchone(self) -> Any:
        return next(self, None)

    def fetchmany(self, size: int | None = 1) -> list[Any]:
        return list(itertools.islice(self, size))

    def fetchall(self) -> list[Any]:
        return list(self)


def _entry(row: tuple[object, ...]) -> _Entry:
    kind, name, table, sql = ("" if item is None else str(item) for item in row)
    return kind, name, table, _BLANKS.sub(" ", sql).strip(" ")


@functools.cache
def _own_entries(create: str) -> frozenset[_Entry]:
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.executescript(create)
        return frozenset(map(_entry, db.execute("select type, name, tbl_name, sql from sqlite_master")))


def _is_regular_or_absent(path: Path) -> bool:
    """Also of a file that another process makes or deletes at this moment; a link is neither."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:  # what cannot be opened either, SQLite says
        return True


def _disappears(path: Path) -> bool:
    """Whether a file is away, or goes within 5 s."""
    from tenacity import RetryError, Retrying, retry_if_result, stop_after_attempt, wait_fixed

    try:
        Retrying(retry=retry_if_result(bool), stop=stop_after_attempt(100), wait=wait_fixed(0.05))(path.exists)
    except RetryError:
        return False
    return True
