"""Surfaces: what a thing is made of, by the way its brightness runs."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..words import MATERIALS

_UNEVEN, _UNEVEN_SOFT = 0.085, 0.016
"""Relative spread of brightness from which a surface is not plain, and how softly that sets in."""
_TAIL, _TAIL_AT = 0.15, 1.036
"""Share of the brightest and of the darkest pixels that do not count as uneven, being a rim or the like; how many
standard deviations from the mean they begin."""
_LINED = 0.8
"""Share of the spread that lines must explain, beyond chance, to outdo an irregular surface."""
_STEPS = 0.15
"""What diagonal lines may lack for being drawn in steps."""
_CLEAR = 0.5
"""Share of the spread that is no noise, below which nothing is told of it."""
_SHARP = 14.0
"""How strongly lines that explain more tell against those that explain less."""


def materials(bright: NDArray[np.float32], inside: NDArray[np.bool_], noise: float) -> dict[str, float]:
    """Material -> probability; empty stands for plain.

    bright: brightness of the pixels (H x W). inside: which of them show the thing and nothing else. noise: standard
    deviation that is no surface's, as a share of full brightness. Of lines it matters which way they run, not how far
    they are apart.
    """
    y, x = np.nonzero(inside)
    if len(y) < 6:
        return dict.fromkeys(("", *MATERIALS), 1 / (1 + len(MATERIALS)))
    values = bright[y, x].astype(np.float64)
    mean = max(float(values.mean()), 1e-3)
    values = values / mean
    ordered = np.sort(values)
    tail = int(_TAIL * len(ordered))
    low, high = ordered[tail], ordered[-1 - tail]
    whole = min(float(values.std()), float(high - low) / (2 * _TAIL_AT))
    spread = math.sqrt(max(whole**2 - (noise / mean) ** 2, 0.0))
    clear = max(spread / max(whole, 1e-6), _CLEAR) ** 2
    uneven = 1 / (1 + math.exp(-(spread - _UNEVEN) / _UNEVEN_SOFT))
    lines = {
        "wood": _explained(values, y) / clear,
        "metal": _explained(values, x) / clear,
        "fabric": max(_explained(values, x + y), _explained(values, x - y)) / clear + _STEPS,
        "stone": _LINED,
    }
    weights = {name: math.exp(_SHARP * min(lines[name], 1.0)) for name in MATERIALS}
    total = sum(weights.values())
    return {"": 1 - uneven} | {name: uneven * weight / total for name, weight in weights.items()}


def _explained(values: NDArray[np.float64], line: NDArray[np.int64]) -> float:
    """Share of the variance of brightness between lines, less what chance would put there (adjusted R squared)."""
    line = line - line.min()
    count = np.bincount(line)
    mean = np.bincount(line, values) / np.maximum(count, 1)
    within = float(((values - mean[line]) ** 2).sum())
    whole = float(((values - values.mean()) ** 2).sum())
    left = max(len(values) - int((count > 0).sum()), 1)
    return 1 - (within / left) / max(whole / (len(values) - 1), 1e-12)
