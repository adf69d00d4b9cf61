"""The journal of a run: what was asked, rows as they come, and what was spent; all that going on needs after a kill.

A folder with `settings.json`, `rows-N.jsonl` (of process N: what a row is about, and the row), `spent-N.json`, and
`answers.sqlite` (what experts said, shared by the processes of a machine). Nobody reads a last line without an end.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from ...reward.score import Score
from ..inputs import InputError
from .spending import Spent

SETTINGS, ANSWERS = "settings.json", "answers.sqlite"
_SYNC_S = 1.0
"""Rows are on the disk after so many seconds at the latest, whatever becomes of the machine."""


class RowJournal:
    """The journal as one process sees it: it reads the rows of all, and writes its own.

    Raises `InputError` where the folder holds a run of other settings.
    """

    def __init__(self, folder: Path, rank: int = 0) -> None:
        self.folder = folder
        self.rank = rank
        folder.mkdir(parents=True, exist_ok=True)
        self._file: IO[bytes] | None = None
        self._synced = self._noted = 0.0
        self._base = self._spent_by(rank)

    def agree(self, settings: Mapping[str, Any]) -> None:
        """Raise `InputError` naming what differs from the settings of the run that began this journal."""
        path = self.folder / SETTINGS
        if not path.exists():
            if any(self.folder.glob("rows-*.jsonl")):
                raise InputError(f"{self.folder} has rows but no {SETTINGS}: give another --journal")
            write_whole(path, json.dumps(settings, indent=2, sort_keys=True) + "\n")
        refuse_others(read_json(path), settings, str(self.folder))

    def rows(self) -> dict[str, list[tuple[str, dict[str, Any]]]]:
        """By item, of all processes: (what it is about, row); the later ones of a process last."""
        found: dict[str, list[tuple[str, dict[str, Any]]]] = {}
        for path in sorted(self.folder.glob("rows-*.jsonl")):
            for line in whole_lines(path):
                with contextlib.suppress(ValueError, LookupError, TypeError):  # what is no row is asked again
                    entry = json.loads(line)
                    found.setdefault(entry["row"]["id"], []).append((entry["of"], entry["row"]))
        return found

    def write(self, key: str, row: Mapping[str, Any]) -> None:
        """Keep a row. It outlives this process at once, and the machine within a second of the next one."""
        if self._file is None:
            self._file = appending(self.folder / f"rows-{self.rank}.jsonl")
        entry = json.dumps({"of": key, "row": row}, ensure_ascii=False, allow_nan=False)
        self._file.write(entry.encode("utf-8", "backslashreplace") + b"\n")
        self._file.flush()
        if time.monotonic() - self._synced > _SYNC_S:
            os.fsync(self._file.fileno())
            self._synced = time.monotonic()

    # -- spending -----------------------------------------------------------------------------------------------------

    def spent(self) -> Spent:
        """By all runs and processes, as far as it was noted."""
        total = Spent()
        for path in sorted(self.folder.glob("spent-*.json")):
            total += self._spent_by(int(path.stem.partition("-")[2]))
        return total

    def note(self, spent: Spent, done: int, known: int, *, now: bool = False) -> None:
        """Keep what this run of this process has spent, and how far it is; twice a second at most unless `now`."""
        if now or time.monotonic() - self._noted > 0.5:
            self._noted = time.monotonic()
            far = {"done": done, "known": known, "spent": spent.to_json()}
            noted = {**(self._base + spent).to_json(), "run": far}
            write_whole(self.folder / f"spent-{self.rank}.json", json.dumps(noted) + "\n")

    def others(self, world: int) -> tuple[int, int, Spent]:
        """How far the other processes of this run are, as they last noted: items done, known before, spent."""
        done, known, spent = 0, 0, Spent()
        for rank in set(range(world)) - {self.rank}:
            with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
                noted = json.loads((self.folder / f"spent-{rank}.json").read_text(encoding="utf-8"))["run"]
                done, known = done + noted["done"], known + noted["known"]
                spent += Spent.from_json(noted["spent"])
        return done, known, spent

    def _spent_by(self, rank: int) -> Spent:
        try:
            return Spent.from_json(json.loads((self.folder / f"spent-{rank}.json").read_text(encoding="utf-8")))
        except (OSError, ValueError, LookupError, TypeError):
            return Spent()

    def close(self) -> None:
        if self._file is not None:
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None

    def __enter__(self) -> RowJournal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def refuse_others(held: Mapping[str, Any], asked: Mapping[str, Any], where: str) -> None:
    """Raise `InputError` where settings differ, with both values of each."""
    differ = [name for name in {**held, **asked} if held.get(name) != asked.get(name)]
    if differ:
        said = "; ".join(f"{name}: {shown(held.get(name))} there, {shown(asked.get(name))} now" for name in differ)
        raise InputError(f"{where} holds a run of other settings ({said}): give another folder, or the same settings")


def shown(value: Any) -> str:
    """A setting in a few letters."""
    text = json.dumps(value, sort_keys=True, default=str)
    return text if len(text) <= 120 else text[:117] + "…"


def good(row: Mapping[str, Any]) -> bool:
    """Whether a row was judged, and nothing in it failed."""
    return not row["missing"] and not any(Score.from_json(score).status == "failed" for score in row["scores"].values())


def whole_lines(path: Path) -> Iterator[bytes]:
    """Lines that were written to their end."""
    with path.open("rb") as lines:
        yield from (line for line in lines if line.endswith(b"\n"))


def appending(path: Path) -> IO[bytes]:
    """A file to append lines to; a line that was torn off is taken away first."""
    if path.exists():
        data = path.read_bytes()
        if data and not data.endswith(b"\n"):
            with path.open("r+b") as torn:
                torn.truncate(data.rfind(b"\n") + 1)
    return path.open("ab")


def write_whole(path: Path, text: str) -> None:
    """A file that is there completely or not at all."""
    half = path.with_name(f".{os.getpid()}-{path.name}")
    with half.open("w", encoding="utf-8", errors="backslashreplace", newline="") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    half.replace(path)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object in a file. Raises `InputError`."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InputError(f"{path} is no JSON object")
    return found
