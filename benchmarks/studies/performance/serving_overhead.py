"""What a judge server costs, beside the same reward without one.

    python -m editcritic.benchmarks.perf.serving [--samples 128] [--repeats 3] [--costs 0.2 ...] [--json]

Two tables, measured in one run on one machine, so that their ratios mean something while their times are this
machine's. CPU: of a sample of two 512 px pictures, all different, photographs; at the server less what the same reward
takes without one (digests and the engine are in both), and at the client; best of `--repeats`. Throughput: of a reward
that only waits, so many seconds a sample, through the server as a share of that without one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from functools import cache
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from ...integrations.serving import rehearsal
from ...integrations.serving.client import RemoteReward
from ...integrations.serving.load import Load, bench
from ...integrations.serving.wire import Packing
from ...reward import EditSample, Image
from ..extras import bench as brought

COSTS = (0.02, 0.2, 0.5)
"""Seconds a sample."""

BATCHES = (1, 2, 4, 8)


@cache
def photographs() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Two of 512 x 512 pixels."""
    data = brought("skimage.data")
    return np.asarray(data.astronaut()), np.asarray(data.rocket()[:, 64:576][:427]).repeat(2, axis=0)[:512, :512]


def samples(count: int, start: int) -> list[EditSample]:
    """New ones, whose pictures carry their numbers."""
    found = []
    for number in range(start, start + count):
        pictures = []
        for photograph in photographs():
            pixels = photograph.copy()
            pixels[0, 0] = number >> 16 & 255, number >> 8 & 255, number & 255
            pictures.append(Image.of(pixels))
        found.append(EditSample(str(number), "make it another picture", (pictures[0],), pictures[1]))
    return found


def cpu(count: int, repeats: int) -> list[dict[str, Any]]:
    """CPU milliseconds a sample, by how pictures are sent."""
    rewards = rehearsal.reward()
    rewards(samples(8, 0))
    best: dict[tuple[str, str], float] = {}

    def note(packing: str, what: str, value: float) -> None:
        best[packing, what] = min(value, best.get((packing, what), value))

    start = 8
    with rehearsal.Server(life=600) as server:
        for _ in range(repeats):
            for packing in get_args(Packing):
                fresh, start = samples(count, start), start + count
                before = time.process_time()
                rewards(fresh)
                note(packing, "direct", 1000 * (time.process_time() - before) / count)
                fresh, start = samples(count, start), start + count
                load = Load(clients=1, samples=count, group=count, chunk=8, packing=packing)
                found = bench([server.url], load, samples=fresh)
                if found.failed or found.samples != count:
                    sys.exit(f"wrong work: {found.lines()}")
                note(packing, "server", found.server_cpu_ms or 0.0)
                note(packing, "client", found.client_cpu_ms)
    return [
        {
            "pictures": "rgb, multipart" if packing == "rgb" else "png, json",
            **{what: best[packing, what] for what in ("direct", "server", "client")},
            "overhead": best[packing, "server"] - best[packing, "direct"],
        }
        for packing in get_args(Packing)
    ]


def throughput(cost: float, batch: int, lasts: float) -> dict[str, Any]:
    """Samples a second of a reward that waits, without a server and through one. lasts: seconds of waiting in each."""
    count, start = max(16, round(lasts / cost)), 0
    direct = rehearsal.reward(cost, batch)
    direct(samples(1, start))
    without = _rate(direct, samples(count, start + 1))
    with rehearsal.Server(seconds=cost, batch=batch, life=300) as server:
        remote = RemoteReward(server.url)
        remote(samples(1, start))
        through = _rate(remote, samples(count, start + 1))
        remote.close()
    return {"seconds": cost, "batch": batch, "direct": without, "served": through, "share": through / without}


def _rate(reward: Any, batch: Sequence[EditSample]) -> float:
    before = time.perf_counter()
    found = reward(batch)
    seconds = time.perf_counter() - before
    if [score.value for score in found] != [float(sample.id) for sample in batch]:
        sys.exit("wrong work: the scores are those of other samples")
    return len(batch) / seconds


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--costs", type=float, nargs="*", default=COSTS, help="Seconds a sample.")
    parser.add_argument("--batches", type=int, nargs="*", default=BATCHES)
    parser.add_argument("--lasts", type=float, default=8.0, help="Seconds of waiting in a measurement of throughput.")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the servers
    spent = cpu(given.samples, given.repeats)
    rates = [throughput(cost, batch, given.lasts) for cost in given.costs for batch in given.batches]
    if given.json:
        sys.stdout.write(json.dumps({"cpu_ms": spent, "throughput": rates}, indent=2) + "\n")
        return
    lines = ["CPU ms a sample of two 512 px pictures", "pictures        direct  server  client  overhead"]
    lines += [
        f"{one['pictures']:14} {one['direct']:7.2f} {one['server']:7.2f} {one['client']:7.2f} {one['overhead']:9.2f}"
        for one in spent
    ]
    lines += ["", "samples a second", "s a sample  batch   direct   served   share"]
    lines += [
        f"{one['seconds']:10.2f} {one['batch']:6} {one['direct']:8.2f} {one['served']:8.2f} {one['share']:7.1%}"
        for one in rates
    ]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
