"""Memory of a long stream of images: peak resident size while 10,000 samples pass through a reward.

    python -m studies.performance.stream_memory [--samples 10000] [--side 512] [--json]

Every sample has its own source and edited image, made on demand. The reward consists of guards that use the pixels. The
whole batch at once would take samples x 2 x side x side x 3 bytes.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator

import cv2
import numpy as np

from editcritic.benchmarks.common.terminal import print_json
from editcritic.reward import EditSample, Image, Reward
from editcritic.reward.metrics import Minimum
from editcritic.reward.metrics.guards import NotACopy, NotBlank, SameAspect

from .command import parser_of, show


def samples(count: int, side: int) -> Iterator[EditSample]:
    """Distinct images: blurred noise, and the same with a bright patch as its edit."""
    random = np.random.default_rng(0)
    texture = cv2.GaussianBlur(random.integers(0, 255, (side, side, 3), np.uint8), (0, 0), 3)
    for number in range(count):
        source = np.roll(texture, number, axis=1)
        source[0, 0] = (number % 256, number // 256 % 256, 0)
        edited = source.copy()
        edited[side // 4 : side // 2, side // 4 : side // 2] = 255
        yield EditSample(id=str(number), instruction="Add snow", sources=(Image.of(source),), edited=Image.of(edited))


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--side", type=int, default=512)
    options = parser.parse_args()
    cv2.setNumThreads(1)
    reward = Reward(Minimum({"not_a_copy": NotACopy(), "not_blank": NotBlank(), "same_aspect": SameAspect()}))
    before = _peak_mb()
    start = time.perf_counter()
    scored = sum(score.status == "scored" for score in reward.stream(samples(options.samples, options.side)))
    seconds = time.perf_counter() - start
    if scored != options.samples:
        sys.exit(f"{scored} of {options.samples} samples were scored")
    figures = {
        "samples": options.samples,
        "samples a second": options.samples / seconds,
        "peak MB before": before,
        "peak MB": _peak_mb(),
        "MB if held at once": options.samples * 2 * options.side**2 * 3 / 2**20,
    }
    if options.json:
        print_json(figures)
    else:
        show("memory of a stream", [figures])


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
