"""Opens SQLite files that several processes of one machine write to."""

from __future__ import annotations

import sqlite3
from collections.abc import Set
from pathlib import Path

DATABASE_ERRORS: tuple[type[Exception], ...] = (sqlite3.Error, UnicodeDecodeError)
"""What using a damaged database raises; the second if a damaged name is part of SQLite's message."""


def open_database(
    path: str | Path,
    create: str,
    *,
    schema: int,
    tables: Set[str],
    kind: str,
    replacement: str,
    error_class: type[ValueError],
) -> sqlite3.Connection:
    """Open a database in WAL mode; any thread may use the connection, and writers wait up to 60 s for each other.

    create: a script that makes the missing tables, and sets `schema` in the table `meta` of a new database. tables:
    those that a database of this kind always has. kind, replacement: for messages, as "an answer log", "a new file".
    Raises `error_class`, naming the path, for a file that cannot be used; a foreign database, or one of another schema,
    is not changed.
    """

    def require_schema() -> None:
        (stored,) = db.execute("select value from meta where key = 'schema'").fetchone() or ("no number",)
        if stored != str(schema):
            raise error_class(f"{path} has schema {stored}, this version reads {schema}: use {replacement}")

    try:
        db = sqlite3.connect(path, timeout=60.0, check_same_thread=False, isolation_level=None)
        existing = {name for (name,) in db.execute("select name from sqlite_master where type = 'table'")}
        if existing:
            if not tables <= existing:
                raise error_class(f"{path} is a database of something else: give {replacement}")
            require_schema()
        _use_wal(db)
        db.execute("pragma synchronous = normal")
        db.executescript(create)
        require_schema()  # a new file may have been made by another version meanwhile
    except DATABASE_ERRORS as error:
        raise error_class(f"{path} cannot be used as {kind}: {error}") from None
    return db


def _use_wal(db: sqlite3.Connection) -> None:
    """Switch to WAL. SQLite's timeout does not cover this switch, so retry while another process performs it."""
    from tenacity import Retrying, retry_if_exception_message, stop_after_attempt, wait_fixed

    locked = retry_if_exception_message(match=".*locked")
    retrying = Retrying(retry=locked, stop=stop_after_attempt(100), wait=wait_fixed(0.05), reraise=True)
    retrying(db.execute, "pragma journal_mode = wal")
