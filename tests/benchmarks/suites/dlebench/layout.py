"""DLEBench's data as it is published, small: pictures with coloured squares, and a judge whose labels are known."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from editcritic.benchmarks.run.runner import RunSettings, run_suite
from editcritic.benchmarks.suites.dlebench.reader import TYPES
from editcritic.benchmarks.suites.results import Results
from editcritic.benchmarks.suites.suite import Suite
from editcritic.reward import Expert, Image
from editcritic.reward.experts.annotated import Annotated
from editcritic.reward.experts.pixel_differences import PixelDifferences
from editcritic.reward.experts.upscalers import Lanczos
from editcritic.reward.queries import Judge, Reply
from editcritic.reward.queries.specs import Spec

SIDE = 64


def drawn(number: int, colour: tuple[int, int, int], side: int) -> Image:
    """A square on a ground that no other picture has."""
    pixels = np.full((SIDE, SIDE, 3), (40 + number, 90, 120), np.uint8)
    pixels[8 : 8 + side, 8 : 8 + side] = colour
    return Image.of(pixels)


def box(number: int) -> list[int]:
    return [8, 8, 8 + side(number), 8 + side(number)]


def side(number: int) -> int:
    return 4 + number


def line(number: int) -> dict[str, Any]:
    kind = list(TYPES)[number % len(TYPES)]
    return {
        "image": f"{number}.png",
        "reference_image": f"{number}_ref.png",
        "edit_operation": f"Change the square of picture {number} to blue",
        "prompt_clean": "a square",
        "type": kind,
        "bbox": box(number),
    }


def written(folder: Path, count: int = 14, change: Callable[[dict[str, Any]], dict[str, Any]] = dict) -> Path:
    """The published layout. change: what is done to each line."""
    for name in ("Source_Images", "Reference_Images"):
        (folder / name).mkdir(parents=True)
    for number in range(count):
        drawn(number, (200, 30, 30), side(number)).pil().save(folder / "Source_Images" / f"{number}.png")
        drawn(number, (30, 30, 200), side(number)).pil().save(folder / "Reference_Images" / f"{number}_ref.png")
    lines = (json.dumps(change(line(number))) for number in range(count))
    (folder / "data.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


class Labels(Expert):
    """Replies with a label by a function of instruction and criterion; records queries."""

    id = "labels@1"
    kinds = (Judge,)

    def __init__(self, says: Callable[[str, str], str]) -> None:
        self._says = says
        self.queries: list[str] = []

    def __call__(self, queries: Sequence[Judge]) -> list[Reply]:
        replies = []
        for query in queries:
            self.queries.append(query.topic)
            label = self._says(dict(query.slots)["instruction"], query.topic)
            replies.append(Reply(f"<Start Thinking>…</Start Thinking><Start Final Answer>{label}</Start Final Answer>"))
        return replies


def experts(judge: Expert) -> Mapping[str, Expert | Spec]:
    return {"judge": judge, "enhancer": Lanczos(), "differences": PixelDifferences(), "detector": Annotated()}


def judged(suite: Suite, outputs: Path, judge: Expert, protocol: str | None = None, out: Path | None = None) -> Results:
    """What a run finds."""
    how = RunSettings(on_failures="none")
    return run_suite(suite, outputs, experts=experts(judge), protocol=protocol, out=out, options=how)
