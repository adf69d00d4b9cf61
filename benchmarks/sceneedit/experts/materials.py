"""Classifies the material of an object by the direction in which its brightness varies."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..vocabulary import MATERIALS

_UNEVEN, _UNEVEN_SOFT = 0.085, 0.016
"""Relative spread of brightness from which on a surface is not plain, and the width of the transition."""
_TAIL, _TAIL_AT = 0.15, 1.036
"""Share of the brightest and of the darkest pixels that are ignored, such as a rim; the normal quantile of that share.
"""
_LINED = 0.8
"""Share of the spread that lines must explain, beyond chance, to score above an irregular surface."""
_STEPS = 0.15
"""Bonus for diagonal lines, which are drawn in steps."""
_CLEAR = 0.5
"""Least share of the spread that is assumed to be signal."""
_SHARP = 14.0
"""Sharpness of the softmax over directions."""


def classify_material(bright: NDArray[np.float32], inside: NDArray[np.bool_], noise: float) -> dict[str, float]:
    """Material -> probability; empty stands for plain.

    bright: brightness of the pixels (H x W). inside: pixels that show the object alone. noise: standard deviation of
    the image's noise, as a share of full brightness. The direction of lines matters, not their distance.
    """
    y, x = np.nonzero(inside)
    if len(y) < 6:
        return dict.fromkeys(("", *MATERIALS), 1 / (1 + len(MATERIALS)))
    values = bright[y, x].astype(np.float64)
    mean = max(float(values.mean()), 1e-3)
    values = values / mean
    ordered = np.sort(values)
    tail_count = int(_TAIL * len(ordered))
    low, high = ordered[tail_count], ordered[-1 - tail_count]
    total_spread = min(float(values.std()), float(high - low) / (2 * _TAIL_AT))
    spread = math.sqrt(max(total_spread**2 - (noise / mean) ** 2, 0.0))
    signal_share = max(spread / max(total_spread, 1e-6), _CLEAR) ** 2
    uneven = 1 / (1 + math.exp(-(spread - _UNEVEN) / _UNEVEN_SOFT))
    lines = {
        "wood": _explained_variance(values, y) / signal_share,
        "metal": _explained_variance(values, x) / signal_share,
        "fabric": max(_explained_variance(values, x + y), _explained_variance(values, x - y)) / signal_share + _STEPS,
        "stone": _LINED,
    }
    weights = {name: math.exp(_SHARP * min(lines[name], 1.0)) for name in MATERIALS}
    total = sum(weights.values())
    return {"": 1 - uneven} | {name: uneven * weight / total for name, weight in weights.items()}


def _explained_variance(values: NDArray[np.float64], line: NDArray[np.int64]) -> float:
    """Share of the variance of brightness between lines, less what chance would put there (adjusted R squared)."""
    line = line - line.min()
    count = np.bincount(line)
    mean = np.bincount(line, values) / np.maximum(count, 1)
    within = float(((values - mean[line]) ** 2).sum())
    total = float(((values - values.mean()) ** 2).sum())
    degrees_of_freedom = max(len(values) - int((count > 0).sum()), 1)
    return 1 - (within / degrees_of_freedom) / max(total / (len(values) - 1), 1e-12)
