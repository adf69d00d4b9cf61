"""How well what stands in a place belongs to its picture: faults that add up, none of which another one can outweigh.

Every statistic (`region_statistics`) has a range in which those of places lie that belong to their pictures. What lies
outside of it counts against the place, in proportion and up to a limit; nothing counts for it. The ranges and weights
were fitted, with weights of at least 0, on photographs of BSDS500 into which objects of other ones were composed, so
that the honest edit is known: `python -m editcritic.benchmarks.studies.real_edits fit`. No real edit was used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np

from ..boxes import Box
from ..image import Image
from ..queries.kinds import RegionChange, RegionRating
from .region_statistics import region_statistics


class _Fault(NamedTuple):
    """A statistic beyond a limit. scale: distance from it that counts as one. weight: what one counts."""

    statistic: str
    side: Literal["above", "below"]
    limit: float
    scale: float
    weight: float

    def amount(self, value: float) -> float:
        """At least 0, at most `_MOST` times the weight."""
        beyond = value - self.limit if self.side == "above" else self.limit - value
        return self.weight * min(_MOST, max(0.0, beyond / self.scale))


_MOST = 3.0
"""Distances beyond a limit that count, in its scale: no statistic decides alone."""

_GROUPS: Mapping[str, str] = MappingProxyType(
    {"seam": "seam", "step": "seam", "side": "seam", "continued": "seam", "far": "neighbours"}
    | {"remains": "source", "left": "source"}
)
"""First part of a statistic's name -> the fault that it is reported as; `detail` for others."""


def rate_region(before: Image, after: Image, box: Box, change: RegionChange) -> RegionRating:
    """The rating of a place, 1 where nothing was redrawn in it. The edit is resized to the source.

    The value is the logistic function of how sure a place without faults is, less its faults.
    """
    corners = box.clipped_corners(before.size)
    if corners is None or min(corners[2] - corners[0], corners[3] - corners[1]) < _SMALLEST:
        return RegionRating(1.0)
    edited = after.resized(*before.size)
    statistics = region_statistics(np.float32(before.pixels), np.float32(edited.pixels), corners)
    if statistics is None:
        return RegionRating(1.0)
    faults: dict[str, float] = {}
    for fault in _FAULTS[change]:
        group = _GROUPS.get(fault.statistic.partition(".")[0], "detail")
        faults[group] = faults.get(group, 0.0) + fault.amount(statistics[fault.statistic])
    belongs = 1 / (1 + math.exp(sum(faults.values()) - _SURE[change]))
    return RegionRating(belongs, {name: round(amount, 4) for name, amount in faults.items()})


_SMALLEST = 6  # pixels: a smaller place has nothing to compare


_SURE: Mapping[RegionChange, float] = MappingProxyType({"removed": 5.23, "new": 3.2, "recoloured": 3.24, "text": 3.22})
"""How sure it is that a place without faults belongs there, as a logit."""

_FAULTS: Mapping[RegionChange, tuple[_Fault, ...]] = MappingProxyType(
    {
        "removed": (
            _Fault("seam.box", "above", 0.314, 0.897, 1.94),
            _Fault("remains.fine", "above", 0.098, 0.332, 1.72),
            _Fault("chroma.20", "above", 0.321, 1.142, 1.51),
            _Fault("far.all.50", "above", 0.442, 0.816, 1.42),
            _Fault("seam.ellipse", "above", 0.259, 0.651, 1.37),
            _Fault("slope", "below", -0.358, 0.965, 1.36),
            _Fault("far.colour.85", "above", 0.364, 0.98, 1.33),
            _Fault("direction", "above", 0.183, 0.621, 1.28),
            _Fault("side.1", "above", -1.204, 0.1, 1.15),
            _Fault("fine.80", "below", -0.687, 2.027, 1.03),
            _Fault("coarse.below", "above", 0.021, 0.1, 0.84),
            _Fault("flat", "above", 0.009, 0.181, 0.58),
            _Fault("along.below", "above", 0.028, 0.122, 0.55),
            _Fault("far.all.85", "above", 0.443, 0.972, 0.38),
            _Fault("along.50", "below", -0.43, 1.796, 0.3),
            _Fault("middle.50", "below", -0.354, 1.702, 0.21),
            _Fault("chroma.above", "above", 0.036, 0.144, 0.2),
            _Fault("far.colour.50", "above", 0.262, 0.589, 0.18),
        ),
        "new": (
            _Fault("middle.80", "below", -0.245, 2.94, 3.0),
            _Fault("coarse.80", "below", -0.122, 2.802, 3.0),
            _Fault("fine.80", "below", -0.426, 3.248, 2.85),
            _Fault("seam.box", "above", 0.809, 2.137, 2.73),
            _Fault("remains.fine", "above", 0.073, 0.231, 2.08),
            _Fault("flat", "above", 0.002, 0.356, 2.03),
            _Fault("slope", "above", 0.249, 1.616, 1.87),
            _Fault("step.box", "above", 0.401, 1.138, 1.58),
            _Fault("remains.coarse", "above", 0.292, 0.809, 1.47),
            _Fault("chroma.20", "above", 0.925, 2.121, 1.26),
            _Fault("direction", "above", 0.406, 1.044, 1.09),
            _Fault("across.80", "below", -0.236, 3.163, 0.96),
            _Fault("slope", "below", -0.751, 1.616, 0.85),
            _Fault("along.below", "above", 0.058, 0.279, 0.6),
            _Fault("side.2", "above", -1.204, 1.753, 0.48),
            _Fault("side.3", "above", -1.204, 0.1, 0.31),
            _Fault("seam.ellipse", "above", 0.695, 1.397, 0.13),
            _Fault("peaks", "below", -0.587, 1.727, 0.07),
        ),
        "recoloured": (
            _Fault("remains.fine", "below", 0.924, 0.117, 1.87),
            _Fault("seam.ellipse", "above", 0.859, 1.561, 1.59),
            _Fault("side.1", "above", -1.204, 0.898, 1.15),
            _Fault("left.coarse", "below", 0.828, 0.377, 1.02),
            _Fault("flat", "above", 0.012, 0.44, 0.86),
            _Fault("step.box", "above", 0.577, 1.355, 0.78),
            _Fault("chroma.below", "above", 0.15, 0.382, 0.49),
        ),
        "text": (
            _Fault("seam.box", "above", -0.224, 1.89, 3.0),
            _Fault("step.box", "above", 0.232, 0.933, 3.0),
            _Fault("along.80", "below", 0.085, 3.076, 3.0),
            _Fault("remains.coarse", "below", 0.299, 0.902, 3.0),
            _Fault("remains.middle", "below", 0.02, 0.88, 1.74),
            _Fault("coarse.80", "below", 0.079, 2.849, 1.53),
            _Fault("fine.80", "below", -0.095, 2.997, 1.34),
            _Fault("along.below", "above", 0.0, 0.1, 1.1),
            _Fault("flat", "above", 0.026, 0.477, 0.54),
            _Fault("side.3", "above", -1.204, 1.217, 0.54),
            _Fault("fine.below", "above", 0.0, 0.1, 0.44),
            _Fault("chroma.below", "above", 0.0, 0.1, 0.3),
            _Fault("slope", "above", 0.377, 1.706, 0.25),
            _Fault("left.coarse", "below", 0.416, 1.005, 0.22),
        ),
    }
)
