"""Run one expert on synthetic images in its own process, and measure time and memory.

    python -m editcritic.benchmarks.inspection.expert_probe pixels

prints one JSON object. A separate process, because peak memory is a property of a process, and a package that hangs or
crashes must not affect the doctor.
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

from ...reward import Box, Expert, Image, default_experts
from ...reward.experts.abstaining_segmenter import AbstainingSegmenter
from ...reward.queries import (
    Abstention,
    AsyncExpert,
    Detect,
    Embed,
    ExpertDown,
    Failure,
    Judge,
    Match,
    Measure,
    Message,
    Rate,
    ReadText,
    Region,
    Upscale,
    YesNo,
)
from ...reward.queries.kinds import Differ, MapChanges, Plan, Query, RateRegion, Remains
from ...reward.queries.specs import entry_point_names

IMAGE_SIDE = 512
ROUNDS = 5

_QueryFactory = Callable[[Image, Image], Query[Any]]

# A query of each kind about an image and the image before it.
_SYNTHETIC_QUERIES: Mapping[type[Query[Any]], _QueryFactory] = {
    Detect: lambda now, before: Detect(now, ("disc",)),
    Match: lambda now, before: Match(now, before, (Box(0.35, 0.4, 0.3, 0.3, label="disc"),)),
    Differ: lambda now, before: Differ(before, now),
    MapChanges: lambda now, before: MapChanges(before, now),
    RateRegion: lambda now, before: RateRegion(before, now, Box(0.35, 0.4, 0.3, 0.3), "new"),
    Remains: lambda now, before: Remains(before, now, (Box(0.35, 0.4, 0.3, 0.3),)),
    Embed: lambda now, before: Embed(now, (Region("cls"), Region("patches"))),
    Measure: lambda now, before: Measure("ssim", (before, now)),
    Judge: lambda now, before: Judge(
        (Message(("Is the disc red? Answer yes or no.", now)),),
        YesNo(),
        topic="edival/color",
        slots=(("object", "disc"), ("value", "red")),
    ),
    ReadText: lambda now, before: ReadText(now),
    Plan: lambda now, before: Plan((before,), "Change the color of disc to blue"),
    Rate: lambda now, before: Rate(now),
    Upscale: lambda now, before: Upscale(now, 2),
}


def synthetic_image(number: int) -> Image:
    """A synthetic 512 x 512 image: a disc and a line of text on shaded noise, shifted slightly by `number`."""
    noise = np.random.default_rng(number).normal(0, 6, (IMAGE_SIDE, IMAGE_SIDE, 3))
    shade = np.linspace(60, 190, IMAGE_SIDE)[None, :, None] + noise
    image = PIL.Image.fromarray(np.clip(shade, 0, 255).astype(np.uint8))
    pen = PIL.ImageDraw.Draw(image)
    x, y = int(0.35 * IMAGE_SIDE) + 3 * number, int(0.4 * IMAGE_SIDE) + 2 * number
    pen.ellipse((x - 70, y - 70, x + 70, y + 70), fill=(200, 30, 40))
    pen.ellipse((x - 35, y - 45, x - 5, y - 15), fill=(240, 200, 190))
    pen.text((60, 400), f"EDIT CRITIC {number}", fill="white", font=PIL.ImageFont.load_default(48))
    return Image.of(image)


def probe(name: str) -> dict[str, Any]:
    """Milliseconds per query (median of five images, one per call) by kind, seconds to load, MiB of memory. Only
    experts that need no download are run; for others the result states whether their packages are installed."""
    default_types = {type(expert) for expert in default_experts().values()}
    try:
        expert_class = entry_point_names("editcritic.experts")[name].load()
    except ImportError as error:
        return {"status": "not_installed", "problem": f"{error.name or error} is not installed", "package": error.name}
    if expert_class is AbstainingSegmenter:
        return {"status": "not_tested", "problem": "it abstains on everything"}
    if issubclass(expert_class, AsyncExpert):
        return {"status": "not_tested", "problem": "it queries a server, which is not probed"}
    if expert_class not in default_types:
        return {"status": "not_tested", "problem": "it needs weights, which are not loaded here"}
    result: dict[str, Any] = {"status": "runs", "milliseconds": {}}
    images = [synthetic_image(number) for number in range(ROUNDS + 2)]
    before = _memory()["now"]  # including numpy and OpenCV, which all experts share
    try:
        start = time.perf_counter()
        expert: Expert = expert_class()
        result["id"] = expert.id
        expert.load()
        result["load_seconds"] = round(time.perf_counter() - start, 3)
        for kind in expert.kinds:
            if kind in (expert.adapts or ()):  # asked in the words of another kind
                continue
            times = []
            for old, new in pairwise(images):
                start = time.perf_counter()
                (outcome,) = expert([_SYNTHETIC_QUERIES[kind](new, old)])
                times.append(1000 * (time.perf_counter() - start))
                if isinstance(outcome, Failure | Abstention):
                    return {**result, "status": "failed", "problem": f"{kind.kind}: {outcome.reason}"}
            result["milliseconds"][kind.kind] = round(statistics.median(times[1:]), 2)
    except ExpertDown as error:
        return {**result, "status": "not_installed", "problem": str(error)}
    result["memory_mib"] = round(max(0.0, _memory()["peak"] - before), 1)
    return result


def _memory() -> dict[str, float]:
    """Current and peak memory of this process in MiB; without /proc the peak is used for both."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text(encoding="ascii").splitlines())
        return {"now": int(lines["VmRSS"].split()[0]) / 1024, "peak": int(lines["VmHWM"].split()[0]) / 1024}
    import resource  # not on every system

    unit = 2**20 if sys.platform == "darwin" else 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    return {"now": peak, "peak": peak}


def main() -> None:
    """Print the result for the expert that the first argument names."""
    sys.stdout.write(json.dumps(probe(sys.argv[1])) + "\n")


if __name__ == "__main__":
    main()
