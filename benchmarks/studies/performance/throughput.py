"""How fast models are as experts: pictures and judged samples a second, by how many are asked at once.

    python -m editcritic.benchmarks.perf.throughput [--shapes full|half|tiny] [--dtype bfloat16] [--save FOLDER]

Random weights of the published shapes (`models`), so that nothing is downloaded. Every picture is new: nothing that was
kept of another helps. The detector is asked one phrase a picture, features are asked the class token, the judge is
asked yes or no about two pictures. `--save` writes a JSON file named for the hardware, with the versions, so
that runs of several machines can lie side by side.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from ...reward import Detect, Embed, Failure, Image, Judge, Message, Region, YesNo
from ...reward.models.local import LocalExpert
from ...reward.query import Query
from . import models

_SIDE = 512


def measure(
    expert: LocalExpert[Any], asked: Callable[[int], Query[Any]], sizes: Sequence[int], least_s: float
) -> list[dict[str, float]]:
    """Questions a second at each batch size, over `least_s` seconds or more, after one batch to warm up."""
    import torch

    number, found = 0, []
    for size in sizes:
        expert.batch = size
        seconds = done = 0.0
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        for turn in range(1000):
            questions = [asked(number + place) for place in range(size)]
            number += size
            start = time.perf_counter()
            outcomes = expert(questions)  # answers are numpy arrays: whatever the device did is done
            took = time.perf_counter() - start
            failed = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
            if failed:
                raise SystemExit(f"{expert.id}: {failed[0].reason}")
            if turn:
                seconds, done = seconds + took, done + size
            if seconds >= least_s:
                break
        held = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0.0
        found.append({"batch": size, "a second": done / seconds, "peak GiB": held})
    return found


def picture(number: int) -> Image:
    """A picture of 512 x 512 that no other number has."""
    shade = np.linspace(0, 255, _SIDE, dtype=np.uint8)
    pixels = np.stack([np.roll(np.tile(shade, (_SIDE, 1)), number, 1), np.tile(shade[:, None], _SIDE)], 2)
    whole = np.concatenate([pixels, pixels[..., :1]], 2)
    whole[0, 0] = (number % 256, number // 256 % 256, number // 65536)
    return Image.of(whole)


_ASKED: dict[str, Callable[[int], Query[Any]]] = {
    "detector": lambda number: Detect(picture(number), ("red cup",)),
    "features": lambda number: Embed(picture(number), (Region("cls"),)),
    "judge": lambda number: Judge(
        (Message((picture(2 * number), picture(2 * number + 1), "Was the cup painted blue? Answer yes or no.")),),
        YesNo(),
    ),
}


def machine() -> dict[str, str]:
    """What it ran on."""
    import torch
    import transformers

    cuda = torch.cuda.is_available()
    return {
        "hardware": torch.cuda.get_device_name(0) if cuda else f"{platform.machine()} x {torch.get_num_threads()}",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "cuda": str(torch.version.cuda),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", choices=models.SHAPES, default="full")
    parser.add_argument("--roles", nargs="+", choices=models.ROLES, default=list(models.ROLES))
    parser.add_argument("--detector", choices=models.DETECTORS, default="grounding-dino")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    parser.add_argument("--seconds", type=float, default=5.0, help="of work, at least, a batch size")
    parser.add_argument("--save", type=Path, help="folder for a JSON file named for the hardware")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found: dict[str, Any] = {"shapes": options.shapes, "detector": options.detector, **machine()}
    with models.random_models(options.shapes, options.roles, detector=options.detector, dtype=options.dtype) as experts:
        for role, expert in experts.items():
            expert.load()
            found[role] = {"id": expert.id, "rows": measure(expert, _ASKED[role], options.batches, options.seconds)}
            expert.unload()
    if options.save is not None:
        options.save.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^a-z0-9]+", "-", f"{found['hardware']} {options.shapes}".lower())
        (options.save / f"{name}.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    console = Console()
    if options.json:
        console.print_json(json.dumps(found))
        return
    grid = Table("role", "batch", "a second", "peak GiB", title=f"{found['hardware']}, {options.shapes}", box=None)
    for role in options.roles:
        for row in found[role]["rows"]:
            grid.add_row(role, str(row["batch"]), f"{row['a second']:.2f}", f"{row['peak GiB']:.1f}")
    console.print(grid)


if __name__ == "__main__":
    main()
