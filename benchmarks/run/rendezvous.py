"""Processes of one machine that score a suite together, as `torchrun` and `accelerate launch` start them.

They coordinate in the journal folder. Each process holds a file lock there, which the system releases when it ends.
A finished process submits its shard; rank 0 merges the shards.
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

from ...reward.atomic_files import write_atomically
from ...reward.regular_files import open_appended, open_regular
from ..common.errors import InputError
from ..suites.suite import Suite, SuiteItem

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
        """From the variables of torchrun, accelerate or MPI (RANK, WORLD_SIZE).

        Raises `InputError` for processes on several machines.
        """
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
        """Make one GPU visible to this process, round-robin by rank: local experts use the first visible one.

        Call it before CUDA is in use. No effect for a single process, and without GPUs.
        """
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
    """Coordinates the processes of a run; as a context manager it holds this process's lock.

    Raises `InputError` if another run uses the same journal.
    """

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
