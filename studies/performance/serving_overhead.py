"""Cost of a judge server, against the same reward without one.

    python -m studies.performance.serving_overhead [--samples 128] [--repeats 3]
        [--costs 0.2 ...] [--json]

Two tables from one run on one machine: ratios are meaningful, times are this machine's. CPU: per sample of two distinct
photographs of 512 px; at the server less the same reward's without one (digests and the engine are in both), and at the
client; best of `--repeats`. Throughput: of a reward that only sleeps, that many seconds per sample, through the server
as a share of that without one.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from functools import cache
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from editcritic.benchmarks.common.optional_imports import bench_library
from editcritic.benchmarks.common.terminal import print_json
from editcritic.integrations.serving.client.remote_reward import RemoteReward
from editcritic.integrations.serving.http_protocol import ImageEncoding
from editcritic.reward import EditSample, Image

from ..load_test import synthetic_reward
from ..load_test.__main__ import LoadConfig, generate_load
from .command import parser_of, show

COSTS = (0.02, 0.2, 0.5)
"""Seconds per sample."""

BATCHES = (1, 2, 4, 8)


@cache
def photographs() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Two photographs of 512 x 512 pixels."""
    data = bench_library("skimage.data")
    return np.asarray(data.astronaut()), np.asarray(data.rocket()[:, 64:576][:427]).repeat(2, axis=0)[:512, :512]


def samples(count: int, start: int) -> list[EditSample]:
    """Distinct samples, whose images encode their numbers."""
    samples_made = []
    for number in range(start, start + count):
        pictures = []
        for photograph in photographs():
            pixels = photograph.copy()
            pixels[0, 0] = number >> 16 & 255, number >> 8 & 255, number & 255
            pictures.append(Image.of(pixels))
        samples_made.append(EditSample(str(number), "make it another picture", (pictures[0],), pictures[1]))
    return samples_made


def cpu(count: int, repeats: int) -> list[dict[str, Any]]:
    """CPU milliseconds per sample, by packing of the images."""
    rewards = synthetic_reward.synthetic_reward()
    rewards(samples(8, 0))
    best: dict[tuple[str, str], float] = {}

    def note(packing: str, column: str, value: float) -> None:
        best[packing, column] = min(value, best.get((packing, column), value))

    start = 8
    with synthetic_reward.SyntheticServer(life=600) as server:
        for _ in range(repeats):
            for packing in get_args(ImageEncoding):
                fresh, start = samples(count, start), start + count
                before = time.process_time()
                rewards(fresh)
                note(packing, "direct", 1000 * (time.process_time() - before) / count)
                fresh, start = samples(count, start), start + count
                load = LoadConfig(clients=1, samples=count, group_size=count, chunk_size=8, image_encoding=packing)
                load_result = generate_load([server.url], load, samples=fresh)
                if load_result.failed or load_result.samples != count:
                    sys.exit(f"wrong work: {load_result.to_text()}")
                note(packing, "server", load_result.server_cpu_ms or 0.0)
                note(packing, "client", load_result.client_cpu_ms)
    return [
        {
            "packing": "rgb, multipart" if packing == "rgb" else "png, json",
            **{column: best[packing, column] for column in ("direct", "server", "client")},
            "overhead": best[packing, "server"] - best[packing, "direct"],
        }
        for packing in get_args(ImageEncoding)
    ]


def throughput(cost: float, batch: int, lasts: float) -> dict[str, Any]:
    """Samples per second of a sleeping reward, without a server and through one. lasts: seconds of sleep in each."""
    count, start = max(16, round(lasts / cost)), 0
    direct = synthetic_reward.synthetic_reward(cost, batch)
    direct(samples(1, start))
    without = _rate(direct, samples(count, start + 1))
    with synthetic_reward.SyntheticServer(seconds=cost, batch=batch, life=300) as server:
        remote = RemoteReward(server.url)
        remote(samples(1, start))
        through = _rate(remote, samples(count, start + 1))
        remote.close()
    return {"seconds": cost, "batch": batch, "direct": without, "served": through, "share": through / without}


def _rate(reward: Any, batch: Sequence[EditSample]) -> float:
    before = time.perf_counter()
    scores = reward(batch)
    seconds = time.perf_counter() - before
    if [score.value for score in scores] != [float(sample.id) for sample in batch]:
        sys.exit("wrong work: the scores are those of other samples")
    return len(batch) / seconds


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--samples", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--costs", type=float, nargs="*", default=COSTS, help="Seconds a sample.")
    parser.add_argument("--batches", type=int, nargs="*", default=BATCHES)
    parser.add_argument("--lasts", type=float, default=8.0, help="Seconds of waiting in a measurement of throughput.")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the servers
    cpu_rows = cpu(options.samples, options.repeats)
    rates = [throughput(cost, batch, options.lasts) for cost in options.costs for batch in options.batches]
    if options.json:
        print_json({"cpu_ms": cpu_rows, "throughput": rates})
        return
    show("CPU ms per sample of two 512 px images", cpu_rows)
    show("samples a second", rates)


if __name__ == "__main__":
    main()
