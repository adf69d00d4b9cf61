"""CPU time of a sample in the engine's thread: the reward's program and the engine, without the experts' own work.

    python -m studies.performance.engine_overhead [--reward any-edit edival-if] [--samples 192]
        [--log] [--json]

Edits of SceneEdit as a trainer has them, source, edit and instruction, so that a planner reads the instruction; its
experts answer. Cold: nothing was asked before; crops and thumbnails are computed and hashed. Warm: all answers are in
memory (with `--log` also: in a log on disk), while samples and images are new objects, and no score is kept. The
experts run in threads of their own, whose time does not count. The pixels of new images are hashed before the clock
starts: what that takes is printed, by picture of these samples and by one of 512 x 512. Warm figures are the best of
`--repeats` runs, because the machine is shared. Cards and plans are counted in a run that is not timed.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from editcritic.benchmarks.common.terminal import print_json
from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.reward import AnswerLog, Card, EditSample, Engine, Expert, Image, Program, Reward, Score
from editcritic.reward.metrics.any_edit import plan_of_sample

from .command import parser_of, show


def samples(count: int) -> list[EditSample]:
    """Edits of all types of tasks, two fifths of them right, with nothing annotated."""
    return [replace(case.sample, task=None, pools=None, targets=()) for case in cases(count, turns=1)]


def renewed(sample: EditSample) -> EditSample:
    """An equal sample of new objects, its pictures hashed."""
    sources, edited = tuple(map(_copied, sample.sources)), _copied(sample.edited)
    return replace(sample, sources=sources, edited=edited)


def _copied(picture: Image) -> Image:
    copy = Image.of(np.array(picture.pixels))
    copy.digest  # noqa: B018  (hashed before the clock starts)
    return copy


def microseconds_to_hash(pictures: Sequence[Image]) -> float:
    """CPU time of the digest of a picture that is a new object."""
    copies = [Image.of(np.array(picture.pixels)) for picture in pictures]
    start = time.thread_time()
    for copy in copies:
        copy.digest  # noqa: B018
    return (time.thread_time() - start) / len(copies) * 1e6


def seconds_of(engine: Engine) -> float:
    """CPU time of the engine's thread so far, which a program tells that runs in it."""
    return engine.submit(_thread_time(), {}).result().value or 0.0


def _thread_time() -> Program[Score]:
    return Score.of(time.thread_time())
    yield  # makes this a program, although it has no queries


def scored(reward: Reward, edits: Sequence[EditSample]) -> tuple[float, int]:
    """Score new objects of these edits: microseconds of the engine's thread, and the number of queries."""
    fresh = [renewed(edit) for edit in edits]
    gc.collect()  # of what earlier runs have left: it takes as long as some samples
    queries, start = reward.engine.stats().queries, seconds_of(reward.engine)
    scores = reward(fresh)
    spent = seconds_of(reward.engine) - start
    if any(score.value is None for score in scores):
        sys.exit(f"wrong work: {next(score.reason for score in scores if score.value is None)}")
    return spent * 1e6, reward.engine.stats().queries - queries


@contextmanager
def counted(owner: object, name: str) -> Iterator[list[None]]:
    """A list that gets an item with each call of `owner.name`."""
    calls: list[None] = []
    original: Callable[..., Any] = getattr(owner, name)

    def counting(*arguments: Any) -> Any:
        calls.append(None)
        return original(*arguments)

    setattr(owner, name, counting)
    try:
        yield calls
    finally:
        setattr(owner, name, original)


def figures(spec: str, edits: Sequence[EditSample], repeats: int, log: Path | None) -> dict[str, float]:
    """What is printed of a reward."""
    experts: dict[str, Expert] = scene_experts()
    with Engine(log=AnswerLog(log) if log else None) as engine:
        reward = Reward.of(spec, experts, engine=engine)
        spent, queries = scored(reward, edits)
        found = {"queries a sample": queries / len(edits), **_by("cold", spent, edits, queries)}
        if log:
            with Engine(log=AnswerLog(log)) as other:
                found |= _by("from a log", scored(Reward.of(spec, experts, engine=other), edits)[0], edits, queries)
        warm = min(scored(reward, edits)[0] for _ in range(repeats))
        found |= _by("warm", warm, edits, queries)
        with counted(Card, "__post_init__") as cards, counted(plan_of_sample, "with_questions") as plans:
            scored(reward, edits)
        return {
            **found,
            "cards built, warm, a sample": len(cards) / len(edits),
            "plans made, warm, a sample": len(plans) / len(edits),
        }


def _by(name: str, spent: float, edits: Sequence[EditSample], queries: int) -> dict[str, float]:
    return {f"{name}, µs a sample": spent / len(edits), f"{name}, µs a query": spent / queries}


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--reward", nargs="+", default=["any-edit", "edival-if"])
    parser.add_argument("--samples", type=int, default=192)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--log", action="store_true", help="with an answer log on disk")
    options = parser.parse_args()
    edits = samples(options.samples)
    large = [Image.of(np.random.default_rng(seed).integers(0, 256, (512, 512, 3), np.uint8)) for seed in range(16)]
    found: dict[str, Any] = {"samples": len(edits)}
    with tempfile.TemporaryDirectory() as folder:
        for spec in options.reward:
            log = Path(folder) / f"{len(found)}.sqlite" if options.log else None
            found[spec] = figures(spec, edits, options.repeats, log)
    found["hashing, µs a picture"] = min(microseconds_to_hash([edit.edited for edit in edits]) for _ in range(5))
    found["hashing, µs a picture of 512 x 512"] = min(microseconds_to_hash(large) for _ in range(5))
    if options.json:
        print_json(found)
        return
    for name, value in found.items():
        parts = value if isinstance(value, dict) else {name: value}
        show(name, [{"": part, "figure": float(figure)} for part, figure in parts.items()])


if __name__ == "__main__":
    main()
