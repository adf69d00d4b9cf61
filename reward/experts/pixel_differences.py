"""PixelDifferences: regions where two images differ, from pixels only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import cv2
import numpy as np
from numpy.typing import NDArray

from ..boxes import Box
from ..image import Corners, Pixels
from ..queries.answers import Detections, Outcome
from ..queries.expert import Expert
from ..queries.kinds import Differ, Query
from ..queries.outcomes import Abstention

_SMALL = 256
_SPREAD = 4 / 3


class PixelDifferences(Expert):
    """Boxes around the regions that changed between two images of one size.

    A pixel has changed where a channel differs by more than `threshold` of 255 after a 5 x 5 mean; noise and JPEG at
    usual qualities stay below (after a 3 x 3 mean, saturated reds exceed it even at quality 80). In images under 256
    pixels, where textures and letters are smaller than that, a standard deviation of the difference (same window) above
    three quarters of the threshold counts too; such small images should not be JPEGs, whose saturated areas would count
    as changed. Noise of 8 grey levels stays below both. Changed pixels nearer than `join_distance` (a
    share of the longer side) make one region; regions smaller than `min_area` (a share of the image) are left out, and
    only the `max_regions` largest are reported.
    """

    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (Differ,)
    batch = 16

    def __init__(
        self, threshold: int = 24, join_distance: float = 0.02, min_area: float = 0.0001, max_regions: int = 32
    ) -> None:
        self.threshold = threshold
        self.join_distance = join_distance
        self.min_area = min_area
        self.max_regions = max_regions
        self.id = f"differences@2 threshold={threshold} join={join_distance} least={min_area} limit={max_regions}"

    def __call__(self, queries: Sequence[Differ]) -> list[Outcome]:
        """Detections, or an abstention for a pair of unequal size."""
        return [
            Detections(self._regions(query.before.pixels, query.after.pixels))
            if query.before.size == query.after.size
            else Abstention(f"images of {query.before.size} and {query.after.size} cannot be compared pixel by pixel")
            for query in queries
        ]

    def _regions(self, before: Pixels, after: Pixels) -> tuple[Box, ...]:
        height, width = before.shape[:2]
        absolute = cv2.absdiff(cv2.blur(before, (5, 5)), cv2.blur(after, (5, 5)))
        difference: NDArray[Any] = np.maximum(np.maximum(absolute[..., 0], absolute[..., 1]), absolute[..., 2])
        if max(width, height) < _SMALL:  # the standard deviation too, of the channel where it is largest
            apart = before.astype(np.float32) - after
            mean = cv2.blur(apart, (5, 5))
            spread = np.sqrt(np.maximum(cv2.blur(apart * apart, (5, 5)) - mean * mean, 0)).max(axis=2)
            difference = np.maximum(difference.astype(np.float32), spread * _SPREAD)
        changed = difference > self.threshold
        side = 2 * max(1, round(self.join_distance * max(width, height) / 2)) + 1
        # By rows, then columns, which is faster than by a square.
        merged = cv2.dilate(changed.view(np.uint8), np.ones((1, side), np.uint8))
        merged = cv2.dilate(merged, np.ones((side, 1), np.uint8))
        _, labels, stats, _ = cv2.connectedComponentsWithStats(merged)
        pixels = np.bincount(labels[changed], minlength=len(stats))
        regions: list[tuple[Box, NDArray[np.bool_], Corners]] = []
        for label in np.flatnonzero(pixels >= max(1.0, self.min_area * width * height)):
            x0, y0, w, h = (int(number) for number in stats[label, :4])
            inside = (labels[y0 : y0 + h, x0 : x0 + w] == label) & changed[y0 : y0 + h, x0 : x0 + w]
            rows, columns = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
            top, bottom, left, right = rows[0], rows[-1] + 1, columns[0], columns[-1] + 1
            corners = (x0 + int(left), y0 + int(top), x0 + int(right), y0 + int(bottom))
            regions.append((Box.from_corners(*corners, (width, height)), inside[top:bottom, left:right], corners))
        regions.sort(key=lambda region: -region[0].area)
        scored = []
        for box, inside, (x0, y0, x1, y1) in regions[: self.max_regions]:
            strength = float(difference[y0:y1, x0:x1][inside].astype(np.float32).mean()) / 255
            scored.append(replace(box, score=strength))
        return tuple(scored)
