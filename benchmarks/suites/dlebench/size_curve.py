"""Scores by the size of the edited object (DLEBench, section 5.2 and figure 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...common.optional_imports import bench_library
from ..results import Results
from .tables import IF

WINDOW_SIZE = 10
"""Samples in a window, as in the paper."""

MILLION = 1_000_000
"""Labels of rows are integers: `area`, `width` and `height` are millionths of the image and of its sides."""


@dataclass(frozen=True)
class SizeCurve:
    """areas: of the smallest target of each sample, as a share of the image, ascending; (samples,). widths, heights: of
    that target, shares of the sides. scores: of the samples, 0 to 100.

    window_areas, window_scores: moving averages over `window` samples, (samples - window + 1,). r, p: their Pearson
    correlation and its p-value, as in the paper; windows overlap, so p is far too small. sample_r, sample_p: of the
    samples themselves. None if undefined: fewer than three values, or constant ones. num_missing: samples without a
    score or a box.
    """

    areas: NDArray[np.float64]
    widths: NDArray[np.float64]
    heights: NDArray[np.float64]
    scores: NDArray[np.float64]
    window: int
    window_areas: NDArray[np.float64]
    window_scores: NDArray[np.float64]
    r: float | None
    p: float | None
    sample_r: float | None
    sample_p: float | None
    num_missing: int

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, for the report."""
        numbers = ("areas", "widths", "heights", "scores", "window_areas", "window_scores")
        plain = ("window", "r", "p", "sample_r", "sample_p", "num_missing")
        return {name: getattr(self, name).tolist() for name in numbers} | {name: getattr(self, name) for name in plain}


def size_curve(results: Results, metric: str = IF, window: int = WINDOW_SIZE) -> SizeCurve:
    """Needs scipy (the extra `bench`). Raises ValueError for a window below 1, `InputError` without scipy."""
    if window < 1:
        raise ValueError(f"a window has at least one sample, got {window}")
    samples: list[tuple[float, float, float, float]] = []
    for row in results.rows:
        value, area = row.value(metric), row.labels.get("area")
        if value is not None and isinstance(area, int):
            width, height = (int(row.labels.get(name, 0)) / MILLION for name in ("width", "height"))
            samples.append((area / MILLION, width, height, 100 * value))
    samples.sort(key=lambda sample: sample[0])
    areas, widths, heights, scores = np.array(samples, np.float64).reshape(-1, 4).T
    window_areas, window_scores = _means(areas, window), _means(scores, window)
    r, p = _pearson(window_areas, window_scores)
    sample_r, sample_p = _pearson(areas, scores)
    num_missing = len(results.rows) - len(samples)
    return SizeCurve(
        areas, widths, heights, scores, window, window_areas, window_scores, r, p, sample_r, sample_p, num_missing
    )


def _means(values: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    if len(values) < window:
        return np.zeros(0)
    means: NDArray[np.float64] = np.lib.stride_tricks.sliding_window_view(values, window).mean(axis=1)
    return means


def _pearson(xs: Sequence[float] | NDArray[np.float64], ys: NDArray[np.float64]) -> tuple[float | None, float | None]:
    if len(xs) < 3 or np.ptp(xs) == 0 or np.ptp(ys) == 0:
        return None, None
    result = bench_library("scipy.stats").pearsonr(xs, ys)
    return float(result.statistic), float(result.pvalue)
