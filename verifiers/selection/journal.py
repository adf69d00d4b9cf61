"""The journal of a run: images and scores, cached and resumable.

A folder with `journal.sqlite` (images and scores by the digest of their request), `answers.sqlite` (answers of experts:
pass `Journal.answer_log` to the reward), `images/` (PNG) and `states/` (safetensors). It holds no selector state:
selectors are deterministic, so a resumed run repeats its requests and finds them cached. Failures are not stored. Rows
have checksums: a damaged one counts as not stored.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ...reward import AnswerLog, Image, ImageError, Score
from ...reward.atomic_files import atomic_replacement
from ...reward.engine.shared_database import SharedDatabase
from ...reward.record_checksum import record_checksum
from .budget import Cost

SCHEMA = 3

_CREATE_TABLES = f"""
begin immediate;
create table if not exists meta (key text primary key, value text not null) without rowid;
insert or ignore into meta values ('schema', '{SCHEMA}');
create table if not exists images (
    key text primary key, digest text not null, nfe integer not null, seconds real not null, checksum text not null
) without rowid;
create table if not exists scores (
    key text primary key, score text not null, judge_calls integer not null, seconds real not null,
    checksum text not null
) without rowid;
commit;
"""

Arrays = Mapping[str, NDArray[Any]]


def _with_checksum(table: str, *row: str | float) -> tuple[str | float, ...]:
    return (*row, record_checksum(table, *map(repr, row)))


def _checksum_of(key: str, arrays: Arrays) -> str:
    parts = [(name, f"{array.dtype} {array.shape}", array.tobytes()) for name, array in sorted(arrays.items())]
    return record_checksum("state", key, *(item for part in parts for item in part))


class JournalError(ValueError):
    """The folder cannot be used as a journal."""


class Journal:
    """`Journal(folder)` opens or creates one; `Journal()` keeps everything in memory. Thread-safe.

    Raises `JournalError` naming the folder.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = None if folder is None else Path(folder)
        self._images: dict[str, Image] = {}  # used without a folder only
        self._states: dict[str, Arrays] = {}
        self._log: AnswerLog | None = None
        if self.folder is not None:
            try:
                for name in ("images", "states"):
                    (self.folder / name).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise JournalError(f"{self.folder} cannot be a journal: {error.strerror}") from None
        self._database = SharedDatabase(
            ":memory:" if self.folder is None else self.folder / "journal.sqlite",
            _CREATE_TABLES,
            schema=SCHEMA,
            tables={"meta", "images", "scores"},
            kind="a journal",
            replacement="a new folder",
            error_class=JournalError,
        )

    @property
    def _db(self) -> sqlite3.Connection:
        return self._database.connection

    @property
    def answer_log(self) -> AnswerLog | None:
        """The answers of experts, for `Reward(…, log=…)`; None for a journal in memory."""
        if self._log is None and self.folder is not None:
            self._log = AnswerLog(self.folder / "answers.sqlite")
        return self._log

    # -- images -------------------------------------------------------------------------------------------------------

    def get_image(self, key: str) -> tuple[Image, Cost] | None:
        """The image stored under this key and its cost; None if there is none or its file is corrupt."""
        with self._database.lock:
            row = self._row("images", "digest, nfe, seconds", key)
        if row is None:
            return None
        picture = self._load_image(row[0])
        return None if picture is None else (picture, Cost(row[1], 0, row[2]))

    def put_image(self, key: str, picture: Image, cost: Cost, arrays: Arrays | None = None) -> None:
        """Store an image, and the arrays of the denoising state that it is a preview of."""
        if self.folder is None:
            self._images[picture.digest] = picture
            if arrays is not None:
                self._states[key] = arrays
        else:
            target = self.folder / "images" / f"{picture.digest}.png"  # an existing file may be corrupt
            with atomic_replacement(target) as path:
                picture.pil().save(path, "PNG", compress_level=1)
            if arrays is not None:
                contiguous = {
                    name: np.asarray(value, order="C") for name, value in arrays.items()
                }  # it writes buffers as they lie
                with atomic_replacement(self._state_path(key)) as path:
                    save_file(contiguous, path, {"checksum": _checksum_of(key, contiguous)})
        with self._database.lock:  # last, so that every row has its files
            self._db.execute(
                "insert or replace into images values (?, ?, ?, ?, ?)",
                _with_checksum("images", key, picture.digest, cost.nfe, cost.seconds),
            )

    def get_state(self, key: str) -> Arrays | None:
        """The arrays of a denoising state; None if there are none or their file is corrupt."""
        if self.folder is None:
            return self._states.get(key)
        try:
            with safe_open(self._state_path(key), "numpy") as file:
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (no mapping)
                intact = (file.metadata() or {}).get("checksum") == _checksum_of(key, arrays)
        except (OSError, SafetensorError):
            return None
        return arrays if intact else None

    def _state_path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / "states" / f"{key}.safetensors"

    def _load_image(self, digest: str) -> Image | None:
        if self.folder is None:
            return self._images.get(digest)
        try:
            picture = Image.open(self.folder / "images" / f"{digest}.png", inside=self.folder)
        except ImageError:
            return None
        return picture if picture.digest == digest else None

    # -- scores -------------------------------------------------------------------------------------------------------

    def get_score(self, key: str) -> tuple[Score, Cost] | None:
        """The score stored under this key and its cost."""
        with self._database.lock:
            row = self._row("scores", "score, judge_calls, seconds", key)
        return None if row is None else (Score.from_json(json.loads(row[0])), Cost(0, row[1], row[2]))

    def put_score(self, key: str, score: Score, cost: Cost) -> None:
        """Store a score, unless it failed."""
        if score.status == "failed":
            return
        with self._database.lock:
            self._db.execute(
                "insert or replace into scores values (?, ?, ?, ?, ?)",
                _with_checksum(
                    "scores", key, json.dumps(score.to_json(), allow_nan=False), cost.judge_calls, cost.seconds
                ),
            )

    def _row(self, table: str, columns: str, key: str) -> tuple[Any, ...] | None:
        """The row of a key without its checksum; None if there is none, or a damaged one."""
        try:
            row = self._db.execute(f"select {columns}, checksum from {table} where key = ?", (key,)).fetchone()
        except sqlite3.Error:  # a damaged page, or text that is none
            return None
        return None if row is None or _with_checksum(table, key, *row[:-1])[-1] != row[-1] else row[:-1]

    def close(self) -> None:
        self._database.close()
        if self._log is not None:
            self._log.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
