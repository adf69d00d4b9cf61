"""The journal of a run, to resume after a kill; and the processes that share it.

A folder with `settings.json`, `rows-N.jsonl` (of process N: key of the sample, row as text, checksum), `usage-N.json`
and `answers.sqlite`. Damaged lines are ignored, and their items scored again. Processes of `torchrun` or `accelerate
launch` hold a file lock each there; a finished one submits its shard, and rank 0 merges them.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from ...reward import strict_json
from ...reward.atomic_files import named_if_full, write_atomically
from ...reward.digests import record_checksum
from ...reward.queries.specs import with_names
from ...reward.regular_files import bounded_lines, open_appended, open_regular, require_no_link
from ..common.errors import InputError
from ..suites.results import ResultRow
from ..suites.suite import Suite, SuiteItem
from .run_budget import Usage

JOURNAL_FOLDER = "journal"
"""In the folder of results, unless another one is given."""
SCHEMA = 2
SETTINGS_FILE, ANSWER_LOG_FILE = "settings.json", "answers.sqlite"
_FSYNC_INTERVAL_S = 1.0
"""Maximum seconds before lines are flushed to disk."""
_MAX_LINE_BYTES = 64 * 2**20


class ResumeFolder:
    """A folder that a run resumes from. It is of one run: `settings.json` says of which. It may be a stranger's. Raises
    OSError for links in it through which a run would write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        require_no_links(folder)

    def require_settings(self, settings: Mapping[str, Any], location: Path | None = None) -> None:
        """Raise `InputError` naming the settings that differ from those of the run that started this folder."""
        path = self.folder / SETTINGS_FILE
        if not path.exists():
            write_atomically(path, json.dumps(settings, indent=2, sort_keys=True) + "\n")
        require_same_settings(read_json(path), settings, str(location or self.folder))


class AppendedLines:
    """Appends lines to a file, each whole: an incomplete last line, of a killed process, is removed before. Raises
    OSError as `open_appended`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = open_appended(path)
        self._synced = 0.0
        self._file.seek(0)
        end = 0
        while chunk := self._file.read(2**20):
            end = self._file.tell() - len(chunk) + found + 1 if (found := chunk.rfind(b"\n")) >= 0 else end
        if end < self._file.tell():
            self._file.truncate(end)

    def append(self, text: str) -> None:
        """It survives the process at once, and the machine after `_FSYNC_INTERVAL_S`."""
        with named_if_full(self._path):
            self._file.write(text.encode("utf-8", "replace") + b"\n")
            self._file.flush()
        if time.monotonic() - self._synced > _FSYNC_INTERVAL_S:
            os.fsync(self._file.fileno())
            self._synced = time.monotonic()

    def close(self) -> None:
        os.fsync(self._file.fileno())
        self._file.close()


def complete_lines(path: Path) -> Iterator[bytes]:
    """Lines that end with a line break, and are not longer than any that was written."""
    with open_regular(path) as file:
        yield from (line for line in bounded_lines(file, _MAX_LINE_BYTES) if line is not None and line.endswith(b"\n"))


class RowJournal(ResumeFolder):
    """The journal of one process: it reads the rows of all processes, and writes its own."""

    def __init__(self, folder: Path, rank: int = 0) -> None:
        super().__init__(folder)
        self.rank = rank
        self._lines: AppendedLines | None = None
        self._saved = 0.0
        self._base = _usage_of(folder, rank)

    def require_settings(self, settings: Mapping[str, Any], location: Path | None = None) -> None:
        if not (self.folder / SETTINGS_FILE).exists() and any(self.folder.glob("rows-*.jsonl")):
            raise InputError(f"{self.folder} has rows but no {SETTINGS_FILE}: give another --journal")
        super().require_settings({"schema": SCHEMA, **settings}, location)

    def rows(self) -> dict[str, list[tuple[str, dict[str, Any]]]]:
        """By item, of all processes: (sample key, row); later rows of a process last."""
        rows: dict[str, list[tuple[str, dict[str, Any]]]] = {}
        for path in sorted(self.folder.glob("rows-*.jsonl")):
            for line in complete_lines(path):
                with contextlib.suppress(ValueError, LookupError, TypeError, RecursionError):  # it is scored again
                    entry = json.loads(line)
                    key, text = entry["sample_key"], entry["row"]
                    if record_checksum("row", key, text) == entry["checksum"]:
                        row = json.loads(text)
                        rows.setdefault(row["id"], []).append((key, row))
        return rows

    def append(self, key: str, row: Mapping[str, Any]) -> None:
        if self._lines is None:
            self._lines = AppendedLines(self.folder / f"rows-{self.rank}.jsonl")
        text = json.dumps(row, allow_nan=False)
        self._lines.append(json.dumps({"sample_key": key, "row": text, "checksum": record_checksum("row", key, text)}))

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
        if self._lines is not None:
            self._lines.close()
            self._lines = None

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


def require_no_links(folder: Path) -> None:
    """Raise OSError for a link in place of the file of answers, or of one that SQLite has beside it."""
    for path in folder.glob(f"{ANSWER_LOG_FILE}*"):
        require_no_link(path)


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


STARTUP_TIMEOUT_S, STALL_TIMEOUT_S, POLL_INTERVAL_S = 300.0, 3600.0, 0.1
"""Time for the other processes to start; time without a new row of a process; polling interval."""

_RANK_VARIABLES = ("RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK")
_WORLD_SIZE_VARIABLES = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
_LOCAL_WORLD_SIZE_VARIABLES = (
    "LOCAL_WORLD_SIZE",
    "MPI_LOCALNRANKS",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MV2_COMM_WORLD_LOCAL_SIZE",
)
_VISIBLE_DEVICES_VARIABLE = "CUDA_VISIBLE_DEVICES"
_RANK_DIGITS = 10


@dataclass(frozen=True, slots=True)
class ProcessRank:
    """Process `rank` of `world_size`."""

    rank: int = 0
    world_size: int = 1

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> ProcessRank:
        """From the variables of torchrun, accelerate or MPI (RANK, WORLD_SIZE). Raises `InputError` for processes on
        several machines."""
        try:
            rank, world_size = _number(environment, _RANK_VARIABLES, 0), _number(environment, _WORLD_SIZE_VARIABLES, 1)
            local_size = _number(environment, _LOCAL_WORLD_SIZE_VARIABLES, world_size)
        except ValueError:
            raise InputError("RANK and WORLD_SIZE in the environment are whole numbers, set by a launcher") from None
        if not 0 <= rank < world_size:
            raise InputError(f"RANK={rank} and WORLD_SIZE={world_size} in the environment do not fit: use a launcher")
        if world_size > 1 and os.name == "nt":
            raise InputError("several processes are supported on Linux and macOS only: start one")
        if local_size != world_size:
            raise InputError(
                f"{local_size} of {world_size} processes are on this machine: for several machines, "
                "put a table [ray] into the --config file"
            )
        return ProcessRank(rank, world_size)

    def assign_gpu(self, environment: MutableMapping[str, str], devices: Path = Path("/dev")) -> None:
        """Make one GPU visible to this process, round-robin by rank: local experts use the first visible one. Call it
        before CUDA is in use. No effect for a single process, and without GPUs."""
        visible = environment.get(_VISIBLE_DEVICES_VARIABLE)
        device_numbers = [path.name.removeprefix("nvidia") for path in devices.glob("nvidia[0-9]*")]
        gpus = sorted(device_numbers, key=int) if visible is None else [gpu for gpu in visible.split(",") if gpu]
        if self.world_size > 1 and gpus:
            environment[_VISIBLE_DEVICES_VARIABLE] = gpus[self.rank % len(gpus)]

    def items(self, suite: Suite) -> list[SuiteItem]:
        """The items of this process: every `world_size`-th case, whole, so that equal queries meet in one process."""
        own_cases = set(suite.cases[self.rank :: self.world_size])
        return [item for item in suite.items if item.case in own_cases]


SINGLE_PROCESS = ProcessRank()


@dataclass
class ShardResult:
    """Rows by item as JSON lines, why the process ended early, and its statistics."""

    row_lines: dict[str, str] = field(default_factory=dict)
    stop_reason: str = ""
    statistics: dict[str, Any] = field(default_factory=dict)


class Rendezvous:
    """Coordinates the processes of a run; as a context manager it holds this process's lock. Raises `InputError` if
    another run uses the same journal."""

    def __init__(self, folder: Path, process: ProcessRank) -> None:
        self.folder = folder
        self.process = process
        self._lock: IO[bytes] | None = None

    def __enter__(self) -> Rendezvous:
        self.folder.mkdir(parents=True, exist_ok=True)
        rank = self.process.rank
        with self._exclusive():
            # Other ranks of this run may have started first; ranks of a larger run belong to another run.
            numbers = [path.stem.partition("-")[2] for path in self.folder.glob("process-*.lock")]
            lock_ranks = {int(number) for number in numbers if number.isdecimal() and len(number) < _RANK_DIGITS}
            conflicting = [
                other for other in lock_ranks if other == rank or (not rank and other >= self.process.world_size)
            ]
            if any(self._is_alive(other) for other in conflicting):
                raise InputError(f"another run uses {self.folder}: wait for it, or give another folder")
            self._shard_path(rank).unlink(missing_ok=True)
            self._lock = open_appended(self._lock_path(rank))
            _lock_file(self._lock)
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.close()

    def submit(self, result: ShardResult) -> None:
        """Submit the shard to rank 0, and wait until that process has ended."""
        header = json.dumps({"stop_reason": result.stop_reason, "statistics": result.statistics})
        write_atomically(
            self._shard_path(self.process.rank), "".join(f"{line}\n" for line in (header, *result.row_lines.values()))
        )
        started_at, was_alive = time.monotonic(), False
        while True:
            alive = self._state(0)[0]
            was_alive = was_alive or alive or not self._shard_path(self.process.rank).exists()  # it has been read
            if (was_alive and not alive) or (not was_alive and time.monotonic() - started_at > STARTUP_TIMEOUT_S):
                return
            time.sleep(POLL_INTERVAL_S)

    def collect(self, on_wait: Callable[[], None] = lambda: None) -> list[ShardResult]:
        """The shards of the other ranks, in order; that of a process that died has no rows and a stop reason."""
        return [self._wait_for(rank, on_wait) for rank in range(1, self.process.world_size)]

    def _wait_for(self, rank: int, on_wait: Callable[[], None]) -> ShardResult:
        name = f"process {rank} of {self.process.world_size}"
        started_at, was_alive = time.monotonic(), False
        while True:
            alive, submitted = self._state(rank)
            was_alive = was_alive or alive
            if alive and submitted:
                return self._read(rank)
            if was_alive and not alive:
                return ShardResult(stop_reason=f"{name} ended before its shard was done")
            if not was_alive and time.monotonic() - started_at > STARTUP_TIMEOUT_S:
                return ShardResult(stop_reason=f"{name} did not start within {STARTUP_TIMEOUT_S:.0f} s")
            if alive and self._idle_s(rank, started_at) > STALL_TIMEOUT_S:
                return ShardResult(stop_reason=f"{name} has scored nothing for {STALL_TIMEOUT_S:.0f} s")
            on_wait()
            time.sleep(POLL_INTERVAL_S)

    def _read(self, rank: int) -> ShardResult:
        path = self._shard_path(rank)
        header, *lines = path.read_text(encoding="utf-8").split("\n")
        summary = json.loads(header)
        path.unlink()
        return ShardResult(
            {json.loads(line)["id"]: line for line in lines if line}, summary["stop_reason"], summary["statistics"]
        )

    def _state(self, rank: int) -> tuple[bool, bool]:
        """Whether a process is alive, and whether it has submitted its shard."""
        with self._exclusive():
            return self._is_alive(rank), self._shard_path(rank).exists()

    def _idle_s(self, rank: int, started_at: float) -> float:
        try:
            touched = (self.folder / f"rows-{rank}.jsonl").stat().st_mtime
        except OSError:
            touched = 0.0
        return min(time.time() - touched, time.monotonic() - started_at)

    def _is_alive(self, rank: int) -> bool:
        try:
            with open_regular(self._lock_path(rank)) as file:
                return not _lock_file(file, wait=False)
        except FileNotFoundError:
            return False

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        with open_appended(self.folder / "rendezvous.lock") as file:
            _lock_file(file)
            yield

    def _lock_path(self, rank: int) -> Path:
        return self.folder / f"process-{rank}.lock"

    def _shard_path(self, rank: int) -> Path:
        return self.folder / f"shard-{rank}.jsonl"


def _number(environment: Mapping[str, str], names: Sequence[str], default: int) -> int:
    return int(next((environment[name] for name in names if name in environment), default))


def _lock_file(file: IO[bytes], *, wait: bool = True) -> bool:
    """Lock a file until it is closed. False if another process holds the lock and `wait` is not set."""
    if os.name == "nt":
        return True  # no locks there: `ProcessRank.from_environment` allows one process only
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True
