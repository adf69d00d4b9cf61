"""Cost of the engine per query, apart from experts and image hashing.

    python -m editcritic.benchmarks.studies.performance.engine_overhead [--queries 100000] [--log] [--json]

Programs of eight queries each (an EdiVal sample has six to ten) over one image; the expert answers immediately. The
experts' time is subtracted; so is that of the programs themselves, run by a bare loop with the same answers. Best of
`--repeats` runs, because the machine is shared.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ....reward import AnswerLog, Box, Engine, Expert, Image, Program, Score
from ....reward.engine import ask_many
from ....reward.queries import Detect, Detections
from ...common.argument_types import add_json_option

QUERIES_PER_WAIT = 8
ANSWER = Detections((Box(0.5, 0.5, 0.2, 0.2, 0.9, "cup"),))


class InstantDetector(Expert):
    """Detects the same cup everywhere."""

    id = "at-once"
    kinds = (Detect,)

    def __call__(self, queries: Sequence[Detect]) -> list[Detections]:
        return [ANSWER] * len(queries)


def program(image: Image, number: int) -> Program[Score]:
    """Two waits of four new queries each."""
    box_count = 0
    for wait in range(2):
        phrases = [f"object {number}-{wait}-{index}" for index in range(QUERIES_PER_WAIT // 2)]
        answers = yield from ask_many([Detect(image, (phrase,)) for phrase in phrases])
        box_count += sum(len(answer.boxes) for answer in answers)
    return Score.of(box_count)


def bare(image: Image, programs: int) -> float:
    """Seconds of the programs alone."""
    start = time.perf_counter()
    answers = (ANSWER,) * (QUERIES_PER_WAIT // 2)
    for number in range(programs):
        running = program(image, number)
        running.send(None)
        running.send(answers)
        try:
            running.send(answers)
        except StopIteration:
            continue
    return time.perf_counter() - start


def through_engine(image: Image, programs: int, log: Path | None) -> float:
    """Seconds of the programs in an engine, without the experts' own time."""
    with Engine(log=AnswerLog(log) if log else None) as engine:
        experts = {"detector": InstantDetector()}
        start = time.perf_counter()
        total = sum(
            score.value or 0.0
            for score in engine.run(((program(image, number), None) for number in range(programs)), experts)
        )
        seconds = time.perf_counter() - start
        stats = engine.stats()
    if total != programs * QUERIES_PER_WAIT or stats.queries != programs * QUERIES_PER_WAIT:
        sys.exit(f"wrong work: {total} boxes of {stats.queries} queries, expected {programs * QUERIES_PER_WAIT}")
    return seconds - stats.experts["at-once"].seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--log", action="store_true", help="with an answer log on disk, cold and then warm")
    add_json_option(parser)
    options = parser.parse_args()
    image = Image.of(np.zeros((8, 8, 3), np.uint8))
    image.digest  # noqa: B018  (hashed before the clock starts)
    programs = options.queries // QUERIES_PER_WAIT
    own = min(bare(image, programs) for _ in range(options.repeats))
    figures: dict[str, Any] = {
        "queries": programs * QUERIES_PER_WAIT,
        "programs' own microseconds": own / programs / QUERIES_PER_WAIT * 1e6,
    }
    if options.log:
        cold, warm = [], []
        for _ in range(options.repeats):
            with tempfile.TemporaryDirectory() as folder:
                cold.append(through_engine(image, programs, Path(folder) / "log"))
                warm.append(through_engine(image, programs, Path(folder) / "log"))
        figures["microseconds a query, log cold"] = (min(cold) - own) / programs / QUERIES_PER_WAIT * 1e6
        figures["microseconds a query, log warm"] = (min(warm) - own) / programs / QUERIES_PER_WAIT * 1e6
    else:
        best = min(through_engine(image, programs, None) for _ in range(options.repeats))
        figures["microseconds a query, in memory"] = (best - own) / programs / QUERIES_PER_WAIT * 1e6
    if options.json:
        sys.stdout.write(json.dumps(figures) + "\n")
    else:
        for name, value in figures.items():
            sys.stdout.write(f"{name:>34}: {value:,.1f}\n")


if __name__ == "__main__":
    main()
