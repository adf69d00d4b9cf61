"""The journal of a run: settings, finished rows and usage; everything needed to resume after a kill.

A folder with `settings.json`, `rows-N.jsonl` (of process N: the key of the scored sample, the row as text, and a
checksum), `usage-N.json`, and `answers.sqlite` (answers of experts, shared by the processes of a machine). Incomplete
last lines are ignored, and so are damaged ones: their items are scored again.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from ...reward import strict_json
from ...reward.atomic_files import named_if_full, write_atomically
from ...reward.digests import record_checksum
from ...reward.queries.specs import with_names
from ...reward.regular_files import bounded_lines, open_appended, open_regular, require_no_link
from ..common.errors import InputError
from ..suites.results import ResultRow
from .run_budget import Usage

JOURNAL_FOLDER = "journal"
"""In the folder of results, unless another one is given."""
SCHEMA = 2
SETTINGS_FILE, ANSWER_LOG_FILE = "settings.json", "answers.sqlite"
_FSYNC_INTERVAL_S = 1.0
"""Maximum seconds before rows are flushed to disk."""


class RowJournal:
    """The journal of one process: it reads the rows of all processes, and writes its own.

    The folder may be a stranger's. Raises OSError for links in it through which a run would write.
    """

    def __init__(self, folder: Path, rank: int = 0) -> None:
        self.folder = folder
        self.rank = rank
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob(f"{ANSWER_LOG_FILE}*"):
            require_no_link(path)
        self._file: IO[bytes] | None = None
        self._synced = self._saved = 0.0
        self._base = _usage_of(folder, rank)

    def require_settings(self, settings: Mapping[str, Any]) -> None:
        """Raise `InputError` naming the settings that differ from those of the run that started this journal."""
        path, settings = self.folder / SETTINGS_FILE, {"schema": SCHEMA, **settings}
        if not path.exists():
            if any(self.folder.glob("rows-*.jsonl")):
                raise InputError(f"{self.folder} has rows but no {SETTINGS_FILE}: give another --journal")
            write_atomically(path, json.dumps(settings, indent=2, sort_keys=True) + "\n")
        require_same_settings(read_json(path), settings, str(self.folder))

    def rows(self) -> dict[str, list[tuple[str, dict[str, Any]]]]:
        """By item, of all processes: (sample key, row); later rows of a process last."""
        rows: dict[str, list[tuple[str, dict[str, Any]]]] = {}
        for path in sorted(self.folder.glob("rows-*.jsonl")):
            for line in complete_lines(path):
                with contextlib.suppress(ValueError, LookupError, TypeError, RecursionError):  # it is scored again
                    key, row = _read_line(line)
                    rows.setdefault(row["id"], []).append((key, row))
        return rows

    def append(self, key: str, row: Mapping[str, Any]) -> None:
        """Append a row. It survives the process at once, and the machine after `_FSYNC_INTERVAL_S`."""
        path = self.folder / f"rows-{self.rank}.jsonl"
        if self._file is None:
            self._file = open_for_append(path)
        text = json.dumps(row, allow_nan=False)
        entry = {"sample_key": key, "row": text, "checksum": record_checksum("row", key, text)}
        with named_if_full(path):
            self._file.write(json.dumps(entry).encode() + b"\n")
            self._file.flush()
        if time.monotonic() - self._synced > _FSYNC_INTERVAL_S:
            os.fsync(self._file.fileno())
            self._synced = time.monotonic()

    # -- spending -----------------------------------------------------------------------------------------------------

    def save_usage(self, usage: Usage, done: int, reused: int, *, now: bool = False) -> None:
        """Save usage and progress of this process; at most twice a second unless `now`."""
        if now or time.monotonic() - self._saved > 0.5:
            self._saved = time.monotonic()
            progress = {"done": done, "reused": reused, "usage": usage.to_json()}
            record = {**(self._base + usage).to_json(), "run": progress}
            write_atomically(self.folder / f"usage-{self.rank}.json", json.dumps(record) + "\n")

    def peer_progress(self, world_size: int) -> tuple[int, int, Usage]:
        """Progress of the other processes, as last saved: items done, items reused, usage."""
        done, reused, usage = 0, 0, Usage()
        for rank in set(range(world_size)) - {self.rank}:
            with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
                progress = strict_json.read_json(self.folder / f"usage-{rank}.json")["run"]
                done, reused = done + progress["done"], reused + progress["reused"]
                usage += Usage.from_json(progress["usage"])
        return done, reused, usage

    def close(self) -> None:
        if self._file is not None:
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None

    def __enter__(self) -> RowJournal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def total_usage(folder: Path) -> Usage:
    """Usage of all runs and processes of a journal, as last saved; nothing if it is not there."""
    total = Usage()
    for path in sorted(folder.glob("usage-*.json")):
        total += _usage_of(folder, path.stem.partition("-")[2])
    return total


def _usage_of(folder: Path, rank: int | str) -> Usage:
    try:
        return Usage.from_json(strict_json.read_json(folder / f"usage-{rank}.json"))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return Usage()


def _read_line(line: bytes) -> tuple[str, dict[str, Any]]:
    """Sample key and row of a line. Raises ValueError, LookupError or TypeError if it is not what was written."""
    entry = json.loads(line)
    key, text = entry["sample_key"], entry["row"]
    if record_checksum("row", key, text) != entry["checksum"]:
        raise ValueError("the line is damaged")
    row: dict[str, Any] = json.loads(text)
    return key, row


def require_same_settings(recorded: Mapping[str, Any], settings: Mapping[str, Any], location: str) -> None:
    """Raise `InputError` with both values of each setting that differs."""
    if changes := changed_settings(recorded, settings):
        raise InputError(
            f"{location} contains a run with other settings ({changes}): give another folder, or the same settings"
        )


def changed_settings(recorded: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Both values of each setting that differs, for messages; empty if none does."""
    recorded, settings = with_names(recorded), with_names(settings)
    return "; ".join(
        f"{name}: {abbreviate_json(recorded.get(name))} before, {abbreviate_json(settings.get(name))} now"
        for name in {**recorded, **settings}
        if recorded.get(name) != settings.get(name)
    )


def abbreviate_json(value: Any) -> str:
    """A setting as JSON of at most 120 characters."""
    text = json.dumps(value, sort_keys=True, default=str)
    return text if len(text) <= 120 else text[:117] + "…"


def is_reusable_row(row: Mapping[str, Any]) -> bool:
    """Whether a row of this version has no failure; abstentions are results."""
    try:
        result = ResultRow.from_json(row)
    except (ValueError, LookupError, TypeError, AttributeError):
        return False
    return not result.missing_reason and all(score.status != "failed" for score in result.scores.values())


def complete_lines(path: Path) -> Iterator[bytes]:
    """Lines that end with a line break, and are not longer than any that was written."""
    with open_regular(path) as file:
        yield from (line for line in bounded_lines(file, _MAX_LINE_BYTES) if line is not None and line.endswith(b"\n"))


_MAX_LINE_BYTES = 64 * 2**20


def open_for_append(path: Path) -> IO[bytes]:
    """Open a file for appending; an incomplete last line is removed first. Raises OSError as `open_appended`."""
    file = open_appended(path)
    file.seek(0)
    end = 0
    while chunk := file.read(_CHUNK):
        end = file.tell() - len(chunk) + found + 1 if (found := chunk.rfind(b"\n")) >= 0 else end
    if end < file.tell():
        file.truncate(end)
    return file


_CHUNK = 1 << 20


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file. Raises `InputError`."""
    try:
        value = strict_json.read_json(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise InputError(f"{path} is not a JSON object")
    return value
