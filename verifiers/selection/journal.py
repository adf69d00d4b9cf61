"""The journal of a run: images and scores, cached and resumable.

A folder with `journal.sqlite` (images and scores by the digest of their request), `answers.sqlite` (of experts: pass
`Journal.answer_log` to the reward), `images/` (PNG) and `states/` (safetensors). Selectors are deterministic: a resumed
run finds its requests cached. Failures are not stored, damaged rows count as not stored, and what no run writes ends
the run.
"""

from __future__ import annotations

import json
import math
import re
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ...reward import AnswerLog, Image, ImageError, Score
from ...reward.atomic_files import atomic_replacement
from ...reward.digests import record_checksum
from ...reward.engine.shared_database import SharedDatabase
from ...reward.regular_files import open_regular
from ...reward.strict_json import parse_json
from .candidate import Cost

SCHEMA = 3

MAX_ROW_BYTES = 16 * 2**20
"""Of one column of a row: a score as JSON. A larger score is not stored."""
_MAX_SCORE_VALUES = 10**6

MAX_STATE_BYTES = 2**30
"""Of the file of a denoising state, whose arrays are copied into memory."""
_MAX_ARRAYS = 1_000

_MAX_COUNT = 10**12

_DIGEST = re.compile(r"[0-9a-f]{64}")

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
    """The folder cannot be used as a journal, or holds what no run has written."""


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
                    if (self.folder / name).is_symlink():
                        raise JournalError(
                            f"{self.folder} cannot be a journal: {name} is a link, and would be written through; "
                            "give the folder that has the files"
                        )
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
        """The image stored under this key and its cost; None if there is none or its file is corrupt.

        Raises `JournalError`, as `get_state` and `get_score`, for what no run has written.
        """
        row = self._row("images", ("digest", "nfe", "seconds"), key)
        if row is None:
            return None
        digest, nfe, seconds = row
        if not (isinstance(digest, str) and _DIGEST.fullmatch(digest)):
            self._refuse(f"an image with the digest {digest!r:.80}")
        cost = self._cost(nfe, 0, seconds)
        picture = self._load_image(digest)
        return None if picture is None else (picture, cost)

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
                # It writes buffers as they lie.
                contiguous = {name: np.asarray(value, order="C") for name, value in arrays.items()}
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
        path = self._state_path(key)
        if not self._is_file(path, MAX_STATE_BYTES):
            return None
        try:
            with safe_open(path, "numpy") as file:
                names = list(file.keys())
                if len(names) > _MAX_ARRAYS:
                    self._refuse(f"a state of {len(names):,} arrays", path)
                arrays = {name: file.get_tensor(name) for name in names}
                intact = (file.metadata() or {}).get("checksum") == _checksum_of(key, arrays)
        except (OSError, SafetensorError):
            return None
        except (TypeError, ValueError, AttributeError) as error:  # a type that numpy lacks
            if isinstance(error, JournalError):
                raise
            self._refuse(f"a state that numpy cannot hold ({error})", path)
        return arrays if intact else None

    def _state_path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / "states" / f"{key}.safetensors"

    def _load_image(self, digest: str) -> Image | None:
        if self.folder is None:
            return self._images.get(digest)
        path = self.folder / "images" / f"{digest}.png"
        if not self._is_file(path):
            return None
        try:
            picture = Image.open(path, inside=self.folder)
        except ImageError:
            return None
        return picture if picture.digest == digest else None

    def _is_file(self, path: Path, limit: float = math.inf) -> bool:
        """Raises `JournalError` for what could not be replaced, or has more than `limit` bytes."""
        try:
            with open_regular(path, inside=self.folder) as file:
                if (size := file.seek(0, 2)) > limit:
                    self._refuse(f"a file of {size:,} bytes, more than {limit:,}", path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise JournalError(
                f"{path} cannot be used: {error.strerror or error}; delete it, or give another folder"
            ) from None
        return True

    def _refuse(self, what: str, path: Path | None = None) -> NoReturn:
        where = path or (self._database.path if self.folder is None else self.folder / "journal.sqlite")
        raise JournalError(
            f"{where} holds {what}, which no run has written: delete {'it' if path else 'the journal'}, or give "
            "another folder"
        )

    def _cost(self, nfe: object, judge_calls: object, seconds: object) -> Cost:
        counts = [item for item in (nfe, judge_calls) if type(item) is int and 0 <= item < _MAX_COUNT]
        if len(counts) < 2 or type(seconds) is not float or not 0 <= seconds < math.inf:
            self._refuse(f"a cost of {nfe!r:.80} evaluations, {judge_calls!r:.80} calls and {seconds!r:.80} seconds")
        return Cost(counts[0], counts[1], seconds)

    # -- scores -------------------------------------------------------------------------------------------------------

    def get_score(self, key: str) -> tuple[Score, Cost] | None:
        """The score stored under this key and its cost."""
        row = self._row("scores", ("score", "judge_calls", "seconds"), key)
        if row is None:
            return None
        text, judge_calls, seconds = row
        try:
            score = _score_of(text)
        except ValueError as error:
            self._refuse(f"a score that is none ({error})")
        return score, self._cost(0, judge_calls, seconds)

    def put_score(self, key: str, score: Score, cost: Cost) -> None:
        """Store a score, unless it failed, or could not be read again: it may have words of a stranger."""
        if score.status == "failed":
            return
        text = json.dumps(score.to_json(), allow_nan=False)
        try:
            _score_of(text)
        except ValueError:
            return
        with self._database.lock:
            self._db.execute(
                "insert or replace into scores values (?, ?, ?, ?, ?)",
                _with_checksum("scores", key, text, cost.judge_calls, cost.seconds),
            )

    def _row(self, table: str, columns: Sequence[str], key: str) -> tuple[Any, ...] | None:
        """The row of a key without its checksum; None if there is none, or a damaged one. Raises `JournalError`."""
        bounded = ", ".join(
            f"case when length(cast({name} as blob)) <= {MAX_ROW_BYTES} then {name} end"
            for name in (*columns, "checksum")
        )
        try:
            with self._database.lock:
                row = self._db.execute(f"select {bounded} from {table} where key = ?", (key,)).fetchone()
        except sqlite3.Error:  # a damaged page, or text that is none
            return None
        if row is None:
            return None
        if None in row:
            self._refuse(f"a row of more than {MAX_ROW_BYTES:,} bytes in {table}")
        try:
            return row[:-1] if _with_checksum(table, key, *row[:-1])[-1] == row[-1] else None
        except UnicodeEncodeError:
            return None

    def close(self) -> None:
        """Close its files."""
        self._database.close()
        if self._log is not None:
            self._log.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _score_of(text: object) -> Score:
    """Raises ValueError for what is no score, or too long to be stored."""
    if not isinstance(text, str):
        raise ValueError(f"expected text, got {text!r:.80}")
    if len(text.encode()) > MAX_ROW_BYTES:
        raise ValueError(f"it has more than {MAX_ROW_BYTES:,} bytes")
    try:
        return Score.from_json(parse_json(text, max_values=_MAX_SCORE_VALUES))
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None
