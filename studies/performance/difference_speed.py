"""Cost of locating differences of two large images, against searching every region in the whole image.

    python -m studies.performance.difference_speed [--regions 1 32 500] [--size 3840 2160]
        [--repeats 3] [--json]

Squares of one colour, spread evenly over noise, are changed. `search_whole_picture` finds the same regions with one
scan of the image per region; both are timed in turn, the best of `--repeats` each, because the machine is shared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np

from editcritic.reward import Box, Image
from editcritic.reward.experts.pixel_differences import PixelDifferences
from editcritic.reward.image import Pixels
from editcritic.reward.queries import Detections, Differ

from .command import parser_of, print_rows


def pair(width: int, height: int, regions: int) -> tuple[Pixels, Pixels]:
    """An image, and the same with `regions` squares in another colour, far enough apart to be separate."""
    before = np.random.default_rng(0).integers(96, 160, (height, width, 3), dtype=np.uint8)
    after = before.copy()
    columns = max(1, round((regions * width / height) ** 0.5))
    rows = -(-regions // columns)
    side = max(4, min(width // columns, height // rows) // 6)
    for number in range(regions):
        x = (2 * (number % columns) + 1) * width // (2 * columns)
        y = (2 * (number // columns) + 1) * height // (2 * rows)
        after[y - side // 2 : y + side // 2, x - side // 2 : x + side // 2] = (250, 20, 20)
    return before, after


def search_whole_picture(expert: PixelDifferences, before: Pixels, after: Pixels) -> tuple[Box, ...]:
    """The regions of two images of 256 pixels or more, each searched in the whole image."""
    height, width = before.shape[:2]
    difference = cv2.absdiff(cv2.blur(before, (5, 5)), cv2.blur(after, (5, 5))).max(axis=2).astype(np.float32)
    changed = (difference > expert.threshold).astype(np.uint8)
    reach = max(1, round(expert.join_distance * max(width, height) / 2))
    count, labels = cv2.connectedComponents(cv2.dilate(changed, np.ones((2 * reach + 1, 2 * reach + 1), np.uint8)))
    labels = np.where(changed > 0, labels, 0)
    boxes = []
    for label in range(1, count):
        rows, columns = np.nonzero(labels == label)
        if rows.size >= max(1.0, expert.min_area * width * height):
            corners = (int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1)
            score = float(difference[rows, columns].mean()) / 255
            boxes.append(Box.from_corners(*corners, (width, height), score=score))
    return tuple(sorted(boxes, key=lambda box: -box.area)[: expert.max_regions])


def fastest_run(function: Callable[[], Any], repeats: int) -> float:
    """Seconds of the fastest run."""
    durations = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        durations.append(time.perf_counter() - start)
    return min(durations)


def measure(width: int, height: int, regions: int, repeats: int) -> dict[str, float]:
    """Seconds of both methods for one pair. Raises ValueError where they disagree."""
    before, after = pair(width, height, regions)
    expert = PixelDifferences(join_distance=0.002, min_area=0.0, max_regions=10_000)
    query = Differ(Image.of(before), Image.of(after))
    (detections,) = expert([query])
    expected = search_whole_picture(expert, before, after)
    if not isinstance(detections, Detections) or detections.boxes != expected:
        raise ValueError(f"the two methods disagree on {regions} regions of {width} x {height}")
    slow = fastest_run(lambda: search_whole_picture(expert, before, after), 1 if regions > 100 else repeats)
    fast = fastest_run(lambda: expert([query]), repeats)
    return {
        "regions": len(detections.boxes),
        "whole_image_s": round(slow, 4),
        "differences_s": round(fast, 4),
        "ratio": round(slow / fast, 1),
    }


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--regions", type=int, nargs="+", default=[1, 32, 500])
    parser.add_argument("--size", type=int, nargs=2, default=[3840, 2160], metavar=("WIDTH", "HEIGHT"))
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    width, height = options.size
    rows = [measure(width, height, regions, options.repeats) for regions in options.regions]
    print_rows(options, f"{width} x {height}", rows)


if __name__ == "__main__":
    main()
