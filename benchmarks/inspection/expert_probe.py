"""Runs one expert on synthetic pictures in a process of its own, and says what it took.

    python -m editcritic.benchmarks.probe pixels

prints one JSON object. In a process of its own, because peak memory is a property of a process, and because a package
that hangs or crashes must not take the doctor with it.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont

from ..reward import (
    Abstention,
    AsyncExpert,
    Box,
    Detect,
    Embed,
    Expert,
    ExpertDown,
    Failure,
    Image,
    Judge,
    Match,
    Measure,
    Message,
    Rate,
    ReadText,
    Region,
    Upscale,
    YesNo,
    no_download,
)
from ..reward.experts.no_segmenter import NoSegmenter
from ..reward.query import Differ, Query
from ..reward.spec import names

SIDE = 512
ROUNDS = 5

_Ask = Callable[[Image, Image], Query[Any]]

# A question of each kind about a picture and the one before it.
_QUESTIONS: Mapping[type[Query[Any]], _Ask] = {
    Detect: lambda now, before: Detect(now, ("disc",)),
    Match: lambda now, before: Match(now, before, (Box(0.35, 0.4, 0.3, 0.3, label="disc"),)),
    Differ: lambda now, before: Differ(before, now),
    Embed: lambda now, before: Embed(now, (Region("cls"), Region("patches"))),
    Measure: lambda now, before: Measure("ssim", (before, now)),
    Judge: lambda now, before: Judge(
        (Message(("Is the disc red? Answer yes or no.", now)),),
        YesNo(),
        topic="edival/color",
        slots=(("object", "disc"), ("value", "red")),
    ),
    ReadText: lambda now, before: ReadText(now),
    Rate: lambda now, before: Rate(now),
    Upscale: lambda now, before: Upscale(now, 2),
}


def picture(number: int) -> Image:
    """A synthetic picture of 512 x 512: a disc and a line of text on shaded noise, all moved a little by `number`."""
    noise = np.random.default_rng(number).normal(0, 6, (SIDE, SIDE, 3))
    shade = np.linspace(60, 190, SIDE)[None, :, None] + noise
    drawn = PIL.Image.fromarray(np.clip(shade, 0, 255).astype(np.uint8))
    pen = PIL.ImageDraw.Draw(drawn)
    x, y = int(0.35 * SIDE) + 3 * number, int(0.4 * SIDE) + 2 * number
    pen.ellipse((x - 70, y - 70, x + 70, y + 70), fill=(200, 30, 40))
    pen.ellipse((x - 35, y - 45, x - 5, y - 15), fill=(240, 200, 190))
    pen.text((60, 400), f"EDIT CRITIC {number}", fill="white", font=PIL.ImageFont.load_default(48))
    return Image.of(drawn)


def probe(name: str) -> dict[str, Any]:
    """Milliseconds a query (median of five pictures, one a call) by kind, seconds to load, MiB of memory.

    Only experts that need no download are run; of others it is told whether their packages are there.
    """
    free = {type(expert) for expert in no_download().values()}
    try:
        made = names("editcritic.experts")[name].load()
    except ImportError as error:
        return {"status": "missing", "problem": f"{error.name or error} is not installed", "package": error.name}
    if made is NoSegmenter:
        return {"status": "untried", "problem": "it abstains on everything"}
    if issubclass(made, AsyncExpert):
        return {"status": "untried", "problem": "it asks a server, which is not looked for here"}
    if made not in free:
        return {"status": "untried", "problem": "it needs weights, which are not looked for here"}
    found: dict[str, Any] = {"status": "runs", "milliseconds": {}}
    pictures = [picture(number) for number in range(ROUNDS + 2)]
    before = _memory()["now"]  # with numpy and OpenCV, which all experts share
    try:
        start = time.perf_counter()
        expert: Expert = made()
        found["id"] = expert.id
        expert.load()
        found["load_seconds"] = round(time.perf_counter() - start, 3)
        for kind in expert.kinds:
            times = []
            for old, new in pairwise(pictures):
                start = time.perf_counter()
                (outcome,) = expert([_QUESTIONS[kind](new, old)])
                times.append(1000 * (time.perf_counter() - start))
                if isinstance(outcome, Failure | Abstention):
                    return {**found, "status": "broken", "problem": f"{kind.kind}: {outcome.reason}"}
            found["milliseconds"][kind.kind] = round(statistics.median(times[1:]), 2)
    except ExpertDown as error:
        return {**found, "status": "missing", "problem": str(error)}
    found["memory_mib"] = round(max(0.0, _memory()["peak"] - before), 1)
    return found


def _memory() -> dict[str, float]:
    """MiB this process holds now, and has held at most. Where there is no /proc, the peak stands for both."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text(encoding="ascii").splitlines())
        return {"now": int(lines["VmRSS"].split()[0]) / 1024, "peak": int(lines["VmHWM"].split()[0]) / 1024}
    import resource  # not on every system

    unit = 2**20 if sys.platform == "darwin" else 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    return {"now": peak, "peak": peak}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(probe(sys.argv[1])) + "\n")
