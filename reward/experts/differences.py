"""Where two pictures differ, on pixels alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import cv2
import numpy as np
from numpy.typing import NDArray

from ..boxes import Box
from ..expert import Expert
from ..image import Pixels
from ..outcomes import Abstention
from ..query import Detections, Differ, Outcome, Query

_SMALL = 256
_SPREAD = 4 / 3


class Differences(Expert):
    """Boxes around the regions that changed between two pictures of one size.

    A pixel has changed where a channel differs by more than `threshold` of 255 after a 5 x 5 mean, which noise and JPEG
    at usual qualities stay below (after a 3 x 3 mean, saturated reds do not even at quality 80). In pictures under 256
    pixels, where a texture or a letter is smaller than that, the spread of the difference (standard deviation in the
    same window) beyond three quarters of the threshold counts too; so small a copy should not be a JPEG, or it counts
    as changed where it is saturated. Noise of 8 grey levels stays below both. Changed pixels nearer than `join` (a
    share of the longer side) make one region; regions smaller than `least` (a share of the picture) are left out, and
    only the `limit` largest are told.
    """

    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (Differ,)
    batch = 16

    def __init__(self, threshold: int = 24, join: float = 0.02, least: float = 0.0001, limit: int = 32) -> None:
        self.threshold = threshold
        self.join = join
        self.least = least
        self.limit = limit
        self.id = f"differences@2 threshold={threshold} join={join} least={least} limit={limit}"

    def __call__(self, queries: Sequence[Differ]) -> list[Outcome]:
        """Detections, or an abstention for a pair of unequal size."""
        return [self._differ(query) for query in queries]

    def _differ(self, query: Differ) -> Outcome:
        if query.before.size != query.after.size:
            return Abstention(
                f"pictures of {query.before.size} and {query.after.size} cannot be compared pixel by pixel"
            )
        return Detections(self._regions(query.before.pixels, query.after.pixels))

    def _regions(self, before: Pixels, after: Pixels) -> tuple[Box, ...]:
        height, width = before.shape[:2]
        difference = cv2.absdiff(cv2.blur(before, (5, 5)), cv2.blur(after, (5, 5))).max(axis=2).astype(np.float32)
        if max(width, height) < _SMALL:
            difference = np.maximum(difference, _spread(before, after) * _SPREAD)
        changed = (difference > self.threshold).astype(np.uint8)
        reach = max(1, round(self.join * max(width, height) / 2))
        joined = cv2.dilate(changed, np.ones((2 * reach + 1, 2 * reach + 1), np.uint8))
        count, labels = cv2.connectedComponents(joined)
        labels = np.where(changed > 0, labels, 0)
        found = []
        for label in range(1, count):
            rows, columns = np.nonzero(labels == label)
            if rows.size < max(1.0, self.least * width * height):
                continue
            strength = float(difference[rows, columns].mean()) / 255
            corners = (int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1)
            found.append(Box.from_corners(*corners, (width, height), score=strength))
        return tuple(sorted(found, key=lambda box: -box.area)[: self.limit])


def _spread(before: Pixels, after: Pixels) -> NDArray[np.float32]:
    """Standard deviation of the difference in a 5 x 5 window, of the channel where it is largest."""
    difference = before.astype(np.float32) - after
    mean = cv2.blur(difference, (5, 5))
    variance = cv2.blur(difference * difference, (5, 5)) - mean * mean
    return np.sqrt(np.maximum(variance, 0)).max(axis=2)
