"""A table of tiny edits is scored with `--ray`, killed in mid-run, and resumed: what was asked twice, and what it held.

    python -m studies.performance.killed_table FOLDER --rows 100000 --kills 2

The whole process tree is killed (SIGKILL) each time. The judge writes down every question that it is asked. A question
whose answer was in the answer log at a kill must never be asked again; those in flight at a kill are lost with it.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image

from editcritic.benchmarks.common.terminal import print_json
from editcritic.reward import Expert
from editcritic.reward.queries import Judge, Reply

_JUDGE = "studies.performance.killed_table:CountedJudge"
_SIDE = 8
_GROUP_ROWS = 1_000
_POLL_S = 0.05


class CountedJudge(Expert):
    """Says yes or no by the digest of the question, and appends each digest to a file. seconds: that a call takes."""

    id = "counted@1"
    kinds = (Judge,)
    batch = 16

    def __init__(self, asked: str, seconds: float = 0.0) -> None:
        self.asked = asked
        self.seconds = seconds

    def __call__(self, queries: Sequence[Judge]) -> Sequence[Reply]:
        file = os.open(self.asked, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, "".join(f"{query.digest}\n" for query in queries).encode())
        os.close(file)
        time.sleep(self.seconds)
        shares = [int(query.digest[:8], 16) / 0xFFFFFFFF for query in queries]
        return [Reply("yes" if yes >= 0.5 else "no", probabilities={"yes": yes, "no": 1 - yes}) for yes in shares]


def write_table(path: Path, rows: int, side: int = _SIDE) -> None:
    """Rows of random pictures of `side` x `side` pixels, each different."""
    import pyarrow
    import pyarrow.parquet

    generator = np.random.default_rng(0)
    binary = pyarrow.binary()
    schema = pyarrow.schema({"instruction": pyarrow.string(), "source": binary, "edited": binary})
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, _GROUP_ROWS):
            count = min(_GROUP_ROWS, rows - start)
            pixels = generator.integers(0, 256, (count, 2, side, side, 3), dtype=np.uint8)
            columns = {
                "instruction": ["Make it brighter"] * count,
                **{name: [_png(pair[side]) for pair in pixels] for side, name in enumerate(("source", "edited"))},
            }
            writer.write_table(pyarrow.table(columns, schema))


def _png(pixels: Any) -> bytes:
    buffer = io.BytesIO()
    PIL.Image.fromarray(pixels).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


class ScoringProcess:
    """`editcritic score TABLE`, with the memory of the driver and of the actor that had most, in bytes."""

    def __init__(self, folder: Path, seconds: float, *options: object) -> None:
        judge = f"judge={_JUDGE}?asked={folder / 'asked'}&seconds={seconds}"
        words = [folder / "table.parquet", "--reward", "judge-yes-no", "--experts", judge, *options, "--json"]
        start = "from editcritic.cli.main import main; main()"
        with (folder / "stderr").open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-c", start, "score", *map(str, words)],
                env={**os.environ, "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", "OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self.memory = {"driver": 0, "actor": 0}

    def wait(self, asked: Path, killed_at: int | None = None) -> dict[str, Any] | None:
        """What the command printed; None if it was killed, after `killed_at` questions."""
        while self._process.poll() is None:
            if killed_at is not None and _lines(asked) >= killed_at:
                self._kill()
                return None
            self._measure()
            time.sleep(_POLL_S)
        out = self._process.communicate()[0]
        if not out:
            raise RuntimeError(f"the command ended with code {self._process.returncode}: its stderr says why")
        printed: dict[str, Any] = json.loads(out)
        return printed

    def _kill(self) -> None:
        for pid in [self._process.pid, *_descendants(self._process.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._process.communicate()

    def _measure(self) -> None:
        for name, pids in (("driver", [self._process.pid]), ("actor", _descendants(self._process.pid))):
            for pid in pids:
                with contextlib.suppress(OSError):
                    command = Path(f"/proc/{pid}/cmdline").read_bytes()
                    if name == "driver" or b"BlockActor" in command:
                        self.memory[name] = max(self.memory[name], _own_memory(pid))


def _own_memory(pid: int) -> int:
    """Resident bytes of a process, without memory that it shares, as Ray's store of objects."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return sum(int(lines[name].split()[0]) * 1024 for name in ("RssAnon", "RssFile") if name in lines)


def _descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            children.setdefault(int(path.read_text().rpartition(")")[2].split()[1]), []).append(int(path.parent.name))
    found, waiting = [], [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _stored(log: Path) -> set[str]:
    """The questions that have an answer in a log that nobody uses."""
    if not log.exists():
        return set()
    with contextlib.closing(sqlite3.connect(log)) as database:
        return {digest for (digest,) in database.execute("select lower(hex(query_digest)) from answers")}


def scored_rows(folder: Path) -> Iterator[tuple[int, float]]:
    """Rows and values of the files of a folder of scores."""
    import pyarrow.parquet

    for path in sorted(folder.glob("*.parquet")):
        columns = pyarrow.parquet.read_table(path, columns=["row", "value"]).to_pydict()
        yield from zip(columns["row"], columns["value"], strict=True)


def measure(
    folder: Path, rows: int, kills: int, block_rows: int, seconds_per_call: float = 0.0, side: int = _SIDE
) -> dict[str, Any]:
    """Score a new table in `folder`, killed `kills` times at random, and once more without Ray. Returns the figures."""
    folder.mkdir(parents=True, exist_ok=True)
    asked, scores = folder / "asked", folder / "scores"
    write_table(folder / "table.parquet", rows, side)
    config = folder / "score.toml"
    config.write_text(f"block_rows = {block_rows}\nray = {{address = 'local', cpus = 0.5}}\n", encoding="utf-8")
    on_ray = ("--config", config, "-o", scores)
    moments = sorted(random.Random(0).sample(range(rows // 10, rows * 8 // 10), kills))
    log, kept = scores / "_run" / "answers.sqlite", list[tuple[int, set[str]]]()
    started_at = time.monotonic()
    for moment in moments:
        before = _lines(asked)
        ended = ScoringProcess(folder, seconds_per_call, *on_ray).wait(asked, max(moment, before + 1))
        if ended is not None:
            raise RuntimeError("the run ended before it was killed: give more rows")
        kept.append((_lines(asked), _stored(log)))
    last = ScoringProcess(folder, seconds_per_call, *on_ray)
    printed = last.wait(asked)
    seconds = time.monotonic() - started_at
    questions = asked.read_text().split()
    answered_again = sum(len(known & set(questions[count:])) for count, known in kept)
    in_flight = sum(len(set(questions[:count]) - known) for count, known in kept)
    asked.rename(folder / "asked_on_ray")
    ScoringProcess(folder, 0.0, "-o", folder / "plain.jsonl").wait(asked)
    plain = [json.loads(line)["value"] for line in (folder / "plain.jsonl").read_text().splitlines()]
    values = sorted(scored_rows(scores))
    return {
        "rows": rows,
        "killed_at": moments,
        "questions": len(set(questions)),
        "asked": len(questions),
        "asked_twice": sum(times - 1 for times in Counter(questions).values()),
        "in_flight_at_kills": in_flight,
        "answered_and_asked_again": answered_again,
        "each_row_once": [row for row, _ in values] == list(range(rows)),
        "values_as_without_ray": [value for _, value in values] == plain,
        "reused_by_the_last_run": None if printed is None else printed["reused"],
        "seconds": round(seconds, 1),
        "memory_mib": {name: round(size / 2**20) for name, size in last.memory.items()},
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--block-rows", type=int, default=1000)
    parser.add_argument("--side", type=int, default=_SIDE, help="Pixels of a picture's side.")
    options = parser.parse_args()
    print_json(measure(options.folder, options.rows, options.kills, options.block_rows, side=options.side))


if __name__ == "__main__":
    main()
