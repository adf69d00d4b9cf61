"""Processes of one machine that judge a suite together, as `torchrun` and `accelerate launch` start them.

They meet in the folder of the journal. Each holds a lock there for as long as it lives, which the system lets go when
it dies, whatever it dies of. A process that is done hands its part in, and the first one puts the parts together.
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

from ..inputs import InputError
from ..suites.suite import Item, Suite
from .journal import write_whole

START_S, STALL_S, LOOK_S = 300.0, 3600.0, 0.1
"""How long the others may take to come; how long one may keep a row nobody sees; how often is looked."""

_RANK = ("RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK")
_WORLD = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
_HERE = ("LOCAL_WORLD_SIZE", "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE")
_GPUS = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class Share:
    """Process `rank` of `world`."""

    rank: int = 0
    world: int = 1

    @staticmethod
    def of(environment: Mapping[str, str]) -> Share:
        """As torchrun, accelerate and MPI say it (RANK, WORLD_SIZE).

        Raises `InputError` for processes on several machines.
        """
        try:
            rank, world = _number(environment, _RANK, 0), _number(environment, _WORLD, 1)
            here = _number(environment, _HERE, world)
        except ValueError:
            raise InputError("RANK and WORLD_SIZE in the environment are whole numbers, set by a launcher") from None
        if not 0 <= rank < world:
            raise InputError(f"RANK={rank} and WORLD_SIZE={world} in the environment do not fit: use a launcher")
        if world > 1 and os.name == "nt":
            raise InputError("several processes meet on Linux and macOS only: start one")
        if here != world:
            raise InputError(f"{here} of {world} processes are on this machine: for several machines, use --ray")
        return Share(rank, world)

    def take_gpu(self, environment: MutableMapping[str, str], devices: Path = Path("/dev")) -> None:
        """Leave this process one GPU of those there are, in turn: local experts take the first that they see.

        Only before CUDA is in use; nothing is changed for one process, and where there is no GPU.
        """
        given = environment.get(_GPUS)
        there = [path.name.removeprefix("nvidia") for path in devices.glob("nvidia[0-9]*")]
        seen = sorted(there, key=int) if given is None else [one for one in given.split(",") if one]
        if self.world > 1 and seen:
            environment[_GPUS] = seen[self.rank % len(seen)]

    def items(self, suite: Suite) -> list[Item]:
        """Those of this process: every so many cases, whole, so that what is asked twice is asked in one place."""
        ours = set(suite.cases[self.rank :: self.world])
        return [item for item in suite.items if item.case in ours]


ALONE = Share()


@dataclass
class HandedIn:
    """A part: rows by item, why it ended early, and what it took."""

    lines: dict[str, str] = field(default_factory=dict)
    ended: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


class Meeting:
    """The place where processes meet. Within it, this one holds its lock.

    Raises `InputError` where another run is at work on the same journal.
    """

    def __init__(self, folder: Path, share: Share) -> None:
        self.folder = folder
        self.share = share
        self._lock: IO[bytes] | None = None

    def __enter__(self) -> Meeting:
        self.folder.mkdir(parents=True, exist_ok=True)
        rank = self.share.rank
        with self._alone():
            # Of this run the others may have come first; one of a larger run has no business here.
            there = {int(path.stem.partition("-")[2]) for path in self.folder.glob("process-*.lock")}
            strangers = [one for one in there if one == rank or (not rank and one >= self.share.world)]
            if any(self._holds(one) for one in strangers):
                raise InputError(f"another run is at work in {self.folder}: wait for it, or give another --journal")
            self._part(rank).unlink(missing_ok=True)
            self._lock = self._file(rank).open("ab")
            _flock(self._lock)
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.close()

    def hand_in(self, part: HandedIn) -> None:
        """Give the part to the first process, and stay until that is done or gone."""
        head = json.dumps({"ended": part.ended, "facts": part.facts})
        write_whole(self._part(self.share.rank), "".join(f"{line}\n" for line in (head, *part.lines.values())))
        began, seen = time.monotonic(), False
        while True:
            there = self._looks(0)[0]
            seen = seen or there
            if (seen and not there) or (not seen and time.monotonic() - began > START_S):
                return
            time.sleep(LOOK_S)

    def collect(self, tell: Callable[[], None] = lambda: None) -> list[HandedIn]:
        """The parts of the others, in order; one of a process that died has no rows, and says so."""
        return [self._of(rank, tell) for rank in range(1, self.share.world)]

    def _of(self, rank: int, tell: Callable[[], None]) -> HandedIn:
        who = f"process {rank} of {self.share.world}"
        began, seen = time.monotonic(), False
        while True:
            there, part = self._looks(rank)
            seen = seen or there
            if there and part:
                return self._take(rank)
            if seen and not there:
                return HandedIn(ended=f"{who} ended before its part was done")
            if not seen and time.monotonic() - began > START_S:
                return HandedIn(ended=f"{who} did not come within {START_S:.0f} s")
            if there and self._idle_s(rank, began) > STALL_S:
                return HandedIn(ended=f"{who} has judged nothing for {STALL_S:.0f} s")
            tell()
            time.sleep(LOOK_S)

    def _take(self, rank: int) -> HandedIn:
        path = self._part(rank)
        head, *lines = path.read_text(encoding="utf-8").split("\n")
        found = json.loads(head)
        path.unlink()
        return HandedIn({json.loads(line)["id"]: line for line in lines if line}, found["ended"], found["facts"])

    def _looks(self, rank: int) -> tuple[bool, bool]:
        """Whether a process is alive, and whether its part is there."""
        with self._alone():
            return self._holds(rank), self._part(rank).exists()

    def _idle_s(self, rank: int, began: float) -> float:
        try:
            touched = (self.folder / f"rows-{rank}.jsonl").stat().st_mtime
        except OSError:
            touched = 0.0
        return min(time.time() - touched, time.monotonic() - began)

    def _holds(self, rank: int) -> bool:
        try:
            with self._file(rank).open("rb") as file:
                return not _flock(file, wait=False)
        except FileNotFoundError:
            return False

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        with (self.folder / "meeting.lock").open("ab") as file:
            _flock(file)
            yield

    def _file(self, rank: int) -> Path:
        return self.folder / f"process-{rank}.lock"

    def _part(self, rank: int) -> Path:
        return self.folder / f"part-{rank}.jsonl"


def _number(environment: Mapping[str, str], names: Sequence[str], default: int) -> int:
    return int(next((environment[name] for name in names if name in environment), default))


def _flock(file: IO[bytes], *, wait: bool = True) -> bool:
    """Lock a file until it is closed. False where somebody else has it, and we do not wait."""
    if os.name == "nt":
        return True  # nothing is locked there: `Share.of` knows one process only
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True
