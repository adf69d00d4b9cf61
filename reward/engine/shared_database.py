"""SQLite files that several processes of one machine write to."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Set
from pathlib import Path

from ..forks import at_fork

DATABASE_ERRORS: tuple[type[Exception], ...] = (sqlite3.Error, UnicodeDecodeError)
"""What using a damaged database raises; the second if a damaged name is part of SQLite's message."""


class SharedDatabase:
    """A database in WAL mode; any thread may use its connection, and writers wait up to 60 s for each other.

    There is no connection while the process forks; parent and child open one each when they need it. SQLite keeps the
    locks of its connections in tables of the process, and in a child these would name locks that only the parent holds.
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
    ) -> None:
        """path: `:memory:` for one of this object alone. create: a script that makes the missing tables, sets `schema`
        in the table `meta` of a new database, and the pragmas of a connection. tables: those that a database of this
        kind always has. kind, replacement: for messages, as "an answer log", "a new file".

        Raises `error_class`, naming the path, for a file that cannot be used; a foreign database, or one of another
        schema, is not changed.
        """
        self.path, self.create, self.schema, self.tables = path, create, schema, tables
        self.kind, self.replacement, self.error_class = kind, replacement, error_class
        self.lock = threading.RLock()
        """Hold it to use the connection."""
        self._closed = False
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

    def close(self) -> None:
        with self.lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()

    def _connect(self) -> sqlite3.Connection:
        try:
            db = sqlite3.connect(self.path, timeout=60.0, check_same_thread=False, isolation_level=None)
            existing = {name for (name,) in db.execute("select name from sqlite_master where type = 'table'")}
            if existing:
                if not self.tables <= existing:
                    raise self.error_class(f"{self.path} is a database of something else: give {self.replacement}")
                self._require_schema(db)
            _use_wal(db)
            db.execute("pragma synchronous = normal")
            db.executescript(self.create)
            self._require_schema(db)  # a new file may have been made by another version meanwhile
        except DATABASE_ERRORS as error:
            raise self.error_class(f"{self.path} cannot be used as {self.kind}: {error}") from None
        return db

    def _require_schema(self, db: sqlite3.Connection) -> None:
        (stored,) = db.execute("select value from meta where key = 'schema'").fetchone() or ("no number",)
        if stored != str(self.schema):
            raise self.error_class(
                f"{self.path} has schema {stored}, this version reads {self.schema}: use {self.replacement}"
            )

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


def _use_wal(db: sqlite3.Connection) -> None:
    """Switch to WAL. SQLite's timeout does not cover this switch, so retry while another process performs it."""
    from tenacity import Retrying, retry_if_exception_message, stop_after_attempt, wait_fixed

    locked = retry_if_exception_message(match=".*locked")
    retrying = Retrying(retry=locked, stop=stop_after_attempt(100), wait=wait_fixed(0.05), reraise=True)
    retrying(db.execute, "pragma journal_mode = wal")
