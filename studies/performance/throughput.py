"""Throughput of models as experts: queries per second, by batch size, and the share of the device's peak.

    python -m studies.performance.throughput [--shapes laptop|small|standard|full|half|tiny]
        [--shrunk] [--dtype bfloat16] [--save FOLDER]

Random weights of the published shapes (`random_models`; of bundles: `bundle_models`), so
that nothing is downloaded. Every image is new, so that no cache helps. The detector gets one phrase per image, the
features the class token, the judge a yes/no query about two images. Floating-point operations are counted by torch in
one call (`torch.utils.flop_counter`: products, convolutions, attention). The judge's tokens are those that its
language model reads, in all passes of a batch: a second one reads spellings of an answer that the first found likely,
which to random weights all are. Its tokenizer spells words, so that questions are long, too. The peak is not the data
sheet's: it is what a product of two square matrices of random numbers reaches here in the model's precision. `--save`
writes a JSON file named for the hardware, with the versions, to compare machines.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from editcritic.benchmarks.common.terminal import print_json
from editcritic.reward import Image
from editcritic.reward.experts.loading.cpu_cores import run_in_turn
from editcritic.reward.experts.loading.local_expert import LocalExpert
from editcritic.reward.queries import Detect, Embed, Failure, Judge, Message, Region, YesNo
from editcritic.reward.queries.kinds import Query

from . import random_models
from .command import parser_of, show
from .random_models import BUNDLES, bundle_models, model_roles

_SIDE = 512


def measure(
    expert: LocalExpert[Any], make_query: Callable[[int], Query[Any]], sizes: Sequence[int], least_s: float
) -> list[dict[str, float]]:
    """A row for each batch size: queries per second, over `least_s` seconds or more, and the work of one query.

    One batch beforehand warms up; its operations (`GFLOP`) and a judge's `tokens` are counted.
    """
    import torch

    number, rows = 0, []
    for size in sizes:
        expert.batch = size
        seconds = answered = 0.0
        work: dict[str, float] = {}
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        for repeat in range(1000):
            queries = [make_query(number + index) for index in range(size)]
            number += size
            if not repeat:
                work = _count_work(expert, queries)
                continue
            start = time.perf_counter()
            _answer(expert, queries)  # answers are numpy arrays: the device has finished
            seconds, answered = seconds + time.perf_counter() - start, answered + size
            if seconds >= least_s:
                break
        peak_gib = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0.0
        rows.append({"batch": size, "a second": answered / seconds, **work, "peak GiB": peak_gib})
    return rows


def _answer(expert: LocalExpert[Any], queries: Sequence[Query[Any]]) -> None:
    failed = [outcome for outcome in expert(queries) if isinstance(outcome, Failure)]
    if failed:
        raise SystemExit(f"{expert.id}: {failed[0].reason}")


def _count_work(expert: LocalExpert[Any], queries: Sequence[Query[Any]]) -> dict[str, float]:
    """Answer the queries, and count for one of them: `GFLOP`, and of judges `tokens`, and the `passes` of all."""
    from torch.utils.flop_counter import FlopCounterMode

    def counted() -> int:
        with FlopCounterMode(display=False) as operations:
            _answer(expert, queries)
        return int(operations.get_total_flops())

    before = expert.usage()
    # The counter belongs to a thread: on a CPU, that of the model's turn.
    operations = run_in_turn(counted) if expert.checkpoint.on_cpu else counted()
    used = {name: number - before.get(name, 0) for name, number in expert.usage().items()}
    work = {"GFLOP": operations / len(queries) / 1e9}
    if "prompt_tokens" not in used:
        return work
    tokens = used["prompt_tokens"] + used["generated_tokens"]
    return work | {"tokens": tokens / len(queries), "passes": used["forward_passes"]}


def matrix_product_tflops(device: str, dtype: str, side: int | None = None) -> float:
    """TFLOP/s of products of two `side` x `side` matrices of random numbers: the median of 10, after 3 to warm up."""
    import torch

    on_gpu = not device.startswith("cpu")
    side = side or (8192 if on_gpu else 1024)
    one, other = (torch.randn(side, side, device=device, dtype=getattr(torch, dtype)) for _ in range(2))
    times = []
    for _ in range(13):
        if on_gpu:
            torch.accelerator.synchronize()
        start = time.perf_counter()
        one @ other
        if on_gpu:
            torch.accelerator.synchronize()
        times.append(time.perf_counter() - start)
    return 2 * side**3 / statistics.median(times[3:]) / 1e12


def picture(number: int) -> Image:
    """A distinct image of 512 x 512 for each number."""
    shade = np.linspace(0, 255, _SIDE, dtype=np.uint8)
    pixels = np.stack([np.roll(np.tile(shade, (_SIDE, 1)), number, 1), np.tile(shade[:, None], _SIDE)], 2)
    pixels_rgb = np.concatenate([pixels, pixels[..., :1]], 2)
    pixels_rgb[0, 0] = (number % 256, number // 256 % 256, number // 65536)
    return Image.of(pixels_rgb)


QUERIES: dict[str, Callable[[int], Query[Any]]] = {
    "detector": lambda number: Detect(picture(number), ("red cup",)),
    "features": lambda number: Embed(picture(number), (Region("cls"),)),
    "judge": lambda number: Judge(
        (Message((picture(2 * number), picture(2 * number + 1), "Was the cup painted blue? Answer yes or no.")),),
        YesNo(),
    ),
}


def machine() -> dict[str, str]:
    """Hardware, driver and library versions. `device`: `cuda:0` or `cpu`."""
    import torch

    versions = {name: _version(name) for name in ("torch", "transformers", "tokenizers", "numpy", "editcritic")}
    versions["python"] = platform.python_version()
    if not torch.cuda.is_available():
        return {"hardware": f"{platform.machine()} x {torch.get_num_threads()}", "device": "cpu", **versions}
    gib = torch.cuda.get_device_properties(0).total_memory / 2**30
    gpu = {"memory GiB": f"{gib:.1f}", "driver": _driver(), "cuda": str(torch.version.cuda)}
    return {"hardware": torch.cuda.get_device_name(0), "device": "cuda:0", **gpu, **versions}


def _driver() -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        return "unknown"
    query = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(query, check=False, capture_output=True, text=True).stdout.partition("\n")[0] or "unknown"


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _figures(expert: LocalExpert[Any], rows: list[dict[str, float]]) -> dict[str, Any]:
    """The rows with what follows from them, and the peak that they are compared with."""
    with expert.checkpoint.use() as loaded:
        device, dtype = str(loaded.device), str(loaded.dtype).removeprefix("torch.")
    peak = matrix_product_tflops(device, dtype)
    for row in rows:
        row["TFLOP/s"] = row["GFLOP"] * row["a second"] / 1e3
        row["share of peak"] = row["TFLOP/s"] / peak
        if "tokens" in row:
            row["tokens a second"] = row["tokens"] * row["a second"]
    return {"id": expert.id, "device": device, "dtype": dtype, "peak TFLOP/s": peak, "rows": rows}


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--shapes", choices=(*BUNDLES, *random_models.SHAPES), default="full")
    parser.add_argument("--shrunk", action="store_true", help="few and narrow layers in place of a bundle's")
    parser.add_argument("--roles", nargs="+", choices=random_models.ROLES, default=list(random_models.ROLES))
    parser.add_argument("--detector", choices=random_models.DETECTORS, default="grounding-dino")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    parser.add_argument("--seconds", type=float, default=5.0, help="least seconds of work per batch size")
    parser.add_argument("--save", type=Path, help="folder for a JSON file named for the hardware")
    options = parser.parse_args()
    figures: dict[str, Any] = {"shapes": options.shapes, "detector kind": options.detector, **machine()}
    if options.shapes in BUNDLES:
        options.roles = [role for role in options.roles if role in model_roles(options.shapes)]
    made = (
        bundle_models(options.shapes, options.roles, shrunk=options.shrunk)
        if options.shapes in BUNDLES
        else random_models.random_models(options.shapes, options.roles, detector=options.detector, dtype=options.dtype)
    )
    with made as experts:
        for role, expert in experts.items():
            figures[role] = _figures(expert, measure(expert, QUERIES[role], options.batches, options.seconds))
            expert.unload()
    if options.save is not None:
        options.save.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^a-z0-9]+", "-", f"{figures['hardware']} {options.shapes}".lower())
        (options.save / f"{name}.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    if options.json:
        print_json(figures)
        return
    columns = ("batch", "a second", "passes", "tokens a second", "TFLOP/s", "share of peak", "peak GiB")
    rows = [(role, row) for role in options.roles for row in figures[role]["rows"]]
    show(
        f"{figures['hardware']}, {options.shapes}",
        [{"role": role, **{name: row[name] for name in columns if name in row}} for role, row in rows],
    )


if __name__ == "__main__":
    main()
