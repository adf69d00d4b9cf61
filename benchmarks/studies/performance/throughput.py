"""Throughput of models as experts: images and judged samples per second, by batch size.

    python -m editcritic.benchmarks.studies.performance.throughput [--shapes standard|full|half|tiny]
        [--dtype bfloat16] [--save FOLDER]

Random weights of the published shapes (`random_models`; of the bundle `standard`: `standard_models`), so that nothing
is downloaded. Every image is new, so that no
cache helps. The detector gets one phrase per image, the features the class token, the judge a yes/no query about two
images. `--save` writes a JSON file named for the hardware, with the versions, to compare machines.
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

from ....reward import Image
from ....reward.experts.loading.local_expert import LocalExpert
from ....reward.queries import Detect, Embed, Failure, Judge, Message, Region, YesNo
from ....reward.queries.kinds import Query
from ...common.argument_types import add_json_option
from . import random_models
from .standard_models import standard_models

STANDARD = "standard"
"""In place of a shape: the models and precisions of the bundle of that name."""

_SIDE = 512


def measure(
    expert: LocalExpert[Any], make_query: Callable[[int], Query[Any]], sizes: Sequence[int], least_s: float
) -> list[dict[str, float]]:
    """Queries per second at each batch size, over `least_s` seconds or more, after one batch to warm up."""
    import torch

    number, rows = 0, []
    for size in sizes:
        expert.batch = size
        seconds = answered = 0.0
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        for repeat in range(1000):
            queries = [make_query(number + index) for index in range(size)]
            number += size
            start = time.perf_counter()
            outcomes = expert(queries)  # answers are numpy arrays: the device has finished
            duration = time.perf_counter() - start
            failed = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
            if failed:
                raise SystemExit(f"{expert.id}: {failed[0].reason}")
            if repeat:
                seconds, answered = seconds + duration, answered + size
            if seconds >= least_s:
                break
        peak_gib = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0.0
        rows.append({"batch": size, "a second": answered / seconds, "peak GiB": peak_gib})
    return rows


def picture(number: int) -> Image:
    """A distinct image of 512 x 512 for each number."""
    shade = np.linspace(0, 255, _SIDE, dtype=np.uint8)
    pixels = np.stack([np.roll(np.tile(shade, (_SIDE, 1)), number, 1), np.tile(shade[:, None], _SIDE)], 2)
    pixels_rgb = np.concatenate([pixels, pixels[..., :1]], 2)
    pixels_rgb[0, 0] = (number % 256, number // 256 % 256, number // 65536)
    return Image.of(pixels_rgb)


_QUERIES: dict[str, Callable[[int], Query[Any]]] = {
    "detector": lambda number: Detect(picture(number), ("red cup",)),
    "features": lambda number: Embed(picture(number), (Region("cls"),)),
    "judge": lambda number: Judge(
        (Message((picture(2 * number), picture(2 * number + 1), "Was the cup painted blue? Answer yes or no.")),),
        YesNo(),
    ),
}


def machine() -> dict[str, str]:
    """Hardware and library versions."""
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
    parser.add_argument("--shapes", choices=(STANDARD, *random_models.SHAPES), default="full")
    parser.add_argument("--roles", nargs="+", choices=random_models.ROLES, default=list(random_models.ROLES))
    parser.add_argument("--detector", choices=random_models.DETECTORS, default="grounding-dino")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    parser.add_argument("--seconds", type=float, default=5.0, help="least seconds of work per batch size")
    parser.add_argument("--save", type=Path, help="folder for a JSON file named for the hardware")
    add_json_option(parser)
    options = parser.parse_args()
    figures: dict[str, Any] = {"shapes": options.shapes, "detector": options.detector, **machine()}
    made = (
        standard_models(options.roles)
        if options.shapes == STANDARD
        else random_models.random_models(options.shapes, options.roles, detector=options.detector, dtype=options.dtype)
    )
    with made as experts:
        for role, expert in experts.items():
            expert.load()
            figures[role] = {"id": expert.id, "rows": measure(expert, _QUERIES[role], options.batches, options.seconds)}
            expert.unload()
    if options.save is not None:
        options.save.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^a-z0-9]+", "-", f"{figures['hardware']} {options.shapes}".lower())
        (options.save / f"{name}.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    console = Console()
    if options.json:
        console.print_json(json.dumps(figures))
        return
    grid = Table("role", "batch", "a second", "peak GiB", title=f"{figures['hardware']}, {options.shapes}", box=None)
    for role in options.roles:
        for row in figures[role]["rows"]:
            grid.add_row(role, str(row["batch"]), f"{row['a second']:.2f}", f"{row['peak GiB']:.1f}")
    console.print(grid)


if __name__ == "__main__":
    main()
