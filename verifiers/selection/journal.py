"""The journal of a run: what was made and what it was worth, so that nothing is made or paid for twice.

A folder with `journal.sqlite` (what is known, by the digest of what was asked for), `answers.sqlite` (what experts
said: hand `Journal.log` to the reward), `pictures/` (PNG) and `drafts/` (safetensors). There is no state of a selector
in it: selectors are deterministic, so resuming is running again and finding everything known. Failures are never in it.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from ..reward import AnswerLog, Image, ImageError, Score
from .budget import Cost

SCHEMA = 1

_TABLES = f"""
begin immediate;
create table if not exists meta (key text primary key, value text not null) without rowid;
insert or ignore into meta values ('schema', '{SCHEMA}');
create table if not exists made (
    key text primary key, picture text not null, evaluations integer not null, seconds real not null
) without rowid;
create table if not exists scored (
    key text primary key, score text not null, judge_calls integer not null, seconds real not null
) without rowid;
commit;
"""

Arrays = Mapping[str, NDArray[Any]]


class JournalError(ValueError):
    """A folder that cannot be used as a journal."""


class Journal:
    """`Journal(folder)` opens or makes one; `Journal()` keeps everything in memory. Any number of threads may use it.

    Raises `JournalError` naming the folder.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = None if folder is None else Path(folder)
        self._lock = threading.Lock()
        self._pictures: dict[str, Image] = {}  # in memory only where there is no folder
        self._drafts: dict[str, Arrays] = {}
        self._log: AnswerLog | None = None
        where = ":memory:"
        try:
            if self.folder is not None:
                for name in ("pictures", "drafts"):
                    (self.folder / name).mkdir(parents=True, exist_ok=True)
                where = str(self.folder / "journal.sqlite")
            self._db = sqlite3.connect(where, timeout=60.0, check_same_thread=False, isolation_level=None)
            tables = {name for (name,) in self._db.execute("select name from sqlite_master where type = 'table'")}
            if tables and not {"meta", "made", "scored"} <= tables:
                raise JournalError(f"{where} is a database of something else: use a new folder")
            self._db.execute("pragma journal_mode = wal")
            self._db.execute("pragma synchronous = normal")
            self._db.executescript(_TABLES)
            (found,) = self._db.execute("select value from meta where key = 'schema'").fetchone()
        except OSError as error:
            raise JournalError(f"{self.folder} cannot be a journal: {error.strerror}") from None
        except sqlite3.Error as error:
            raise JournalError(f"{where} cannot be used as a journal: {error}") from None
        if found != str(SCHEMA):
            raise JournalError(f"{where} has schema {found}, this version reads {SCHEMA}: use a new folder")

    @property
    def log(self) -> AnswerLog | None:
        """The answers of experts, for `Reward(…, log=…)`; None where the journal is in memory."""
        if self._log is None and self.folder is not None:
            self._log = AnswerLog(self.folder / "answers.sqlite")
        return self._log

    # -- pictures -----------------------------------------------------------------------------------------------------

    def made(self, key: str) -> tuple[Image, Cost] | None:
        """The picture that was made for this, and what it took; None where there is none, or its file is spoilt."""
        with self._lock:
            row = self._db.execute("select picture, evaluations, seconds from made where key = ?", (key,)).fetchone()
        if row is None:
            return None
        picture = self._picture(row[0])
        return None if picture is None else (picture, Cost(row[1], 0, row[2]))

    def keep_made(self, key: str, picture: Image, cost: Cost, draft: Arrays | None = None) -> None:
        """Keep a picture, and the draft that it is a view of."""
        if self.folder is None:
            self._pictures[picture.digest] = picture
            if draft is not None:
                self._drafts[key] = draft
        else:
            place = self.folder / "pictures" / f"{picture.digest}.png"  # one that is there may be spoilt
            _whole(place, lambda path: picture.pil().save(path, "PNG", compress_level=1))
            if draft is not None:
                whole = {
                    name: np.asarray(array, order="C") for name, array in draft.items()
                }  # it writes buffers as they lie
                _whole(self._draft(key), lambda path: save_file(whole, path))
        with self._lock:  # last: what is known is there
            self._db.execute(
                "insert or replace into made values (?, ?, ?, ?)",
                (key, picture.digest, cost.evaluations, cost.seconds),
            )

    def draft(self, key: str) -> Arrays | None:
        """The arrays of a draft; None where there are none, or their file is spoilt."""
        if self.folder is None:
            return self._drafts.get(key)
        try:
            return load_file(self._draft(key))
        except (OSError, SafetensorError):
            return None

    def _draft(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / "drafts" / f"{key}.safetensors"

    def _picture(self, digest: str) -> Image | None:
        if self.folder is None:
            return self._pictures.get(digest)
        try:
            picture = Image.open(self.folder / "pictures" / f"{digest}.png")
        except ImageError:
            return None
        return picture if picture.digest == digest else None

    # -- scores -------------------------------------------------------------------------------------------------------

    def scored(self, key: str) -> tuple[Score, Cost] | None:
        """What this was worth, and what it took to find out."""
        with self._lock:
            row = self._db.execute("select score, judge_calls, seconds from scored where key = ?", (key,)).fetchone()
        return None if row is None else (Score.from_json(json.loads(row[0])), Cost(0, row[1], row[2]))

    def keep_scored(self, key: str, score: Score, cost: Cost) -> None:
        """Keep a score; a failed one is not kept."""
        if score.status == "failed":
            return
        with self._lock:
            self._db.execute(
                "insert or replace into scored values (?, ?, ?, ?)",
                (key, json.dumps(score.to_json(), allow_nan=False), cost.judge_calls, cost.seconds),
            )

    def close(self) -> None:
        with self._lock:
            self._db.close()
        if self._log is not None:
            self._log.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _whole(place: Path, write: Any) -> None:
    """A file that is there completely or not at all, whenever the process dies."""
    half = place.with_name(f".{os.getpid()}-{threading.get_ident()}-{place.name}")
    write(half)
    half.replace(place)
