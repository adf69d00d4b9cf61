"""How well what stands in a place belongs to its picture: faults that add up, none of which another one can outweigh.

Every statistic (`region_statistics`) has a range in which those of places lie that belong to their pictures. What lies
outside of it counts against the place, in proportion and up to a limit; nothing counts for it. The ranges and weights
were fitted, with weights of at least 0, on photographs of BSDS500 into which objects of other ones were composed, so
that the honest edit is known; the script is in the history (`region_fit.py` of `studies.real_edits`, last in commit
a5d9bd6d; an earlier version of it gave these numbers). No real edit was used there; how sure a place without faults is
(`_SURE`), and the limit of one statistic (`MOST_ALONE`), were raised by hand with edits by real editors in view.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np

from ..boxes import Box
from ..image import Image
from ..queries.answers import RegionRating
from ..queries.kinds import SMALLEST_PLACE, RegionChange
from ..queries.outcomes import Abstention
from .region_statistics import region_statistics


class _Fault(NamedTuple):
    """A statistic beyond a limit. scale: distance from it that counts as one. weight: what one counts."""

    statistic: str
    side: Literal["above", "below"]
    limit: float
    scale: float
    weight: float

    def amount(self, value: float) -> float:
        """At least 0, at most `MOST_ALONE`."""
        beyond = value - self.limit if self.side == "above" else self.limit - value
        return min(MOST_ALONE, self.weight * min(MOST, max(0.0, beyond / self.scale)))


MOST = 3.0
"""Distances beyond a limit that count, in its scale."""
MOST_ALONE = 2.5
"""What one statistic counts at most, in logits: none decides alone."""

_GROUPS = {"seam": "seam", "step": "seam", "side": "seam", "interpolated": "smear", "far": "neighbours"}
_GROUPS |= {"remains": "source", "kept": "source", "kept share": "source"}
"""First part of a statistic's name -> the fault that it is reported as; `detail` for others."""


def rate_region(before: Image, after: Image, box: Box, change: RegionChange) -> RegionRating | Abstention:
    """The rating of a place, 1 where nothing was redrawn in it. The edit is resized to the source. The value is the
    logistic function of how sure a place without faults is, less its faults. Abstains on places with a side of less
    than `SMALLEST_PLACE` pixels of the source."""
    corners = box.clipped_corners(before.size)
    if corners is None or min(corners[2] - corners[0], corners[3] - corners[1]) < SMALLEST_PLACE:
        return Abstention(f"a place of less than {SMALLEST_PLACE} pixels has nothing to compare")
    edited = after.resized(*before.size)
    source, shown = (np.asarray(image.pixels, np.float32) for image in (before, edited))
    statistics = region_statistics(source, shown, corners, as_drawn=change in AS_DRAWN)
    if statistics is None:
        return RegionRating(1.0)
    faults: dict[str, float] = {}
    for fault in _FAULTS[change]:
        group = _GROUPS.get(fault.statistic.partition(".")[0], "detail")
        faults[group] = faults.get(group, 0.0) + fault.amount(statistics[fault.statistic])
    belongs = 1 / (1 + math.exp(sum(faults.values()) - _SURE[change]))
    return RegionRating(belongs, {name: round(amount, 4) for name, amount in faults.items()})


AS_DRAWN: tuple[RegionChange, ...] = ("removed",)
"""Changes whose seams are looked for around what was redrawn: a new object, and letters, have outlines of their own."""

_SURE: Mapping[RegionChange, float] = MappingProxyType({"removed": 4.12, "new": 4.14, "recoloured": 3.67, "text": 5.06})
"""How sure it is that a place without faults belongs there, as a logit."""

_FAULTS: Mapping[RegionChange, tuple[_Fault, ...]] = MappingProxyType(
    {
        "removed": (
            _Fault("seam.box", "above", 0.299, 1.016, 3.0),
            _Fault("interpolated", "below", -0.822, 1.19, 3.0),
            _Fault("slope", "below", -0.379, 0.866, 2.6),
            _Fault("far.colour.50", "above", 0.257, 0.557, 1.93),
            _Fault("chroma.20", "above", 0.287, 1.044, 1.91),
            _Fault("slope.itself", "below", -0.696, 1.895, 1.84),
            _Fault("fine.80", "below", -0.607, 1.646, 1.31),
            _Fault("remains.coarse", "above", 0.33, 0.843, 1.21),
            _Fault("remains.fine", "above", 0.228, 0.476, 1.13),
            _Fault("far.texture.85", "above", 0.244, 0.82, 0.94),
            _Fault("side.1", "above", -1.204, 0.1, 0.85),
            _Fault("coarse.below", "above", 0.023, 0.12, 0.82),
            _Fault("peaks", "below", -0.391, 1.183, 0.69),
            _Fault("along.below", "above", 0.029, 0.153, 0.51),
            _Fault("side.2", "above", -1.204, 0.1, 0.49),
            _Fault("chroma.above", "above", 0.044, 0.132, 0.35),
            _Fault("remains.middle", "above", 0.23, 0.564, 0.29),
            _Fault("middle.above", "above", 0.034, 0.1, 0.13),
        ),
        "new": (
            _Fault("seam.box", "above", 0.659, 1.891, 3.0),
            _Fault("remains.coarse", "above", 0.305, 0.747, 3.0),
            _Fault("middle.80", "below", -0.314, 2.987, 3.0),
            _Fault("coarse.80", "below", -0.164, 2.984, 3.0),
            _Fault("remains.fine", "above", 0.095, 0.303, 2.43),
            _Fault("slope", "below", -0.744, 1.634, 1.88),
            _Fault("flat", "above", 0.001, 0.271, 1.87),
            _Fault("chroma.20", "above", 0.837, 2.088, 1.66),
            _Fault("slope", "above", 0.204, 1.634, 1.58),
            _Fault("step.box", "above", 0.29, 0.997, 1.52),
            _Fault("fine.80", "below", -0.44, 3.229, 1.16),
            _Fault("seam.ellipse", "above", 0.59, 1.288, 1.03),
            _Fault("along.below", "above", 0.091, 0.294, 0.8),
            _Fault("side.3", "above", -1.204, 0.1, 0.4),
            _Fault("side.2", "above", -1.204, 1.416, 0.14),
            _Fault("direction", "above", 0.378, 1.087, 0.1),
        ),
        "recoloured": (
            _Fault("kept.fine", "below", 0.939, 0.105, 1.89),
            _Fault("seam.ellipse", "above", 0.898, 1.688, 1.32),
            _Fault("kept share.middle", "below", 0.812, 0.35, 1.18),
            _Fault("side.1", "above", -1.204, 0.548, 0.89),
            _Fault("chroma.below", "above", 0.215, 0.434, 0.79),
            _Fault("step.box", "above", 0.563, 1.341, 0.7),
            _Fault("flat", "above", 0.018, 0.428, 0.37),
            _Fault("side.3", "above", -1.204, 0.1, 0.26),
        ),
        "text": (
            _Fault("seam.box", "above", -0.225, 2.015, 3.0),
            _Fault("step.box", "above", 0.225, 0.834, 3.0),
            _Fault("fine.50", "below", 0.18, 2.748, 3.0),
            _Fault("fine.80", "below", -0.054, 2.771, 3.0),
            _Fault("kept.fine", "below", 0.042, 0.667, 3.0),
            _Fault("kept.middle", "below", 0.061, 0.808, 3.0),
            _Fault("kept.coarse", "below", 0.335, 0.902, 3.0),
            _Fault("along.80", "below", 0.184, 2.825, 1.85),
            _Fault("flat", "above", 0.008, 0.348, 1.58),
            _Fault("along.below", "above", 0.0, 0.1, 0.91),
            _Fault("side.3", "above", -1.204, 1.212, 0.8),
            _Fault("chroma.below", "above", 0.0, 0.1, 0.47),
            _Fault("fine.below", "above", 0.0, 0.1, 0.36),
            _Fault("kept share.coarse", "below", 0.491, 0.956, 0.17),
        ),
    }
)
