"""DLEBench's tables: means by instruction type, unweighted over the types, frequencies of the labels,
and scores by the size of the edited object (section 5.2 and figure 6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....reward.metrics.dlebench.replies import CONSISTENCY, FOLLOWING, LabelScale
from ...common.optional_imports import bench_library
from ..bootstrap import Statistic, plain_mean
from ..results import ResultRow, Results
from ..tables import Table
from .reader import TYPES

IF, VC = "dlebench-if", "dlebench-vc"
SCALES: Mapping[str, LabelScale] = {IF: FOLLOWING, VC: CONSISTENCY}
SHORT: Mapping[str, str] = {IF: "IF", VC: "VC"}
AVERAGE = "Average"


def dlebench_tables(results: Results, notes: Sequence[str] = ()) -> list[Table]:
    """Table 1 (mean of IF and VC), table 4 (each), and the frequencies of labels, by type and overall."""
    all_notes = [
        "means are over the judgements with a label; the others are counted as missing",
        "the average is over the types, unweighted",
        *notes,
    ]
    single = {name: _by_type(results, name) for name in SCALES}
    mean_row = {
        kind: Statistic.combine(plain_mean, single[IF][kind], single[VC][kind])
        for kind in single[IF]
        if kind in single[VC]
    }  # fmt: skip
    columns = [*mean_row]
    return [
        Table("leaderboard", "DLEBench, mean of IF and VC", columns, {"IF and VC": mean_row}, 100.0, "of 100", 2,
              all_notes, ranking_column=AVERAGE),
        Table("criteria", "DLEBench by criterion", columns, {SHORT[name]: row for name, row in single.items()}, 100.0,
              "of 100", 2, all_notes, ranking_column=AVERAGE),
        *(_labels(results, name) for name in SCALES),
    ]  # fmt: skip


def types_of(results: Results) -> list[str]:
    """The types of the results, in the paper's order."""
    present = {row.labels.get("type") for row in results.rows}
    return [kind for kind in TYPES if kind in present]


def _by_type(results: Results, metric: str) -> dict[str, Statistic]:
    means = {kind: results.metric_mean(results.filter(type=kind), metric) for kind in types_of(results)}
    return {**means, AVERAGE: Statistic.combine(plain_mean, *means.values())} if means else {}


def _labels(results: Results, metric: str) -> Table:
    """Shares of the labels among the judgements with a label."""
    scale, short = SCALES[metric], SHORT[metric]
    rows = {kind: _shares(results, results.filter(type=kind), metric) for kind in types_of(results)}
    rows["all"] = _shares(results, results.rows, metric)
    return Table(f"labels-{short.lower()}", f"DLEBench, labels for {short}", scale.labels, rows, 100.0, "percent", 1,
                 ranking_column=scale.labels[0], lower_is_better=scale.labels[1:])  # fmt: skip


def _shares(results: Results, rows: Iterable[ResultRow], metric: str) -> dict[str, Statistic]:
    rows = list(rows)
    shares = {label: results.mean(rows, _has_label(metric, label)) for label in SCALES[metric].labels}
    return {label: replace(share, monotone=False) for label, share in shares.items()}  # of one label among others


def _has_label(metric: str, label: str) -> Callable[[ResultRow], float | None]:
    def indicator(row: ResultRow) -> float | None:
        row_label = label_of(row, metric)
        return None if row_label is None else float(row_label == label)

    return indicator


def label_of(row: ResultRow, metric: str) -> str | None:
    """The label that corresponds to a row's score, or None."""
    share = row.value(metric)
    labels = SCALES[metric].labels
    return None if share is None else labels[len(labels) - 1 - round(share * (len(labels) - 1))]


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


def size_curve(results: Results, metric: str = IF) -> SizeCurve:
    """Needs scipy (the extra `bench`). Raises `InputError` without scipy."""
    samples: list[tuple[float, float, float, float]] = []
    for row in results.rows:
        value, area = row.value(metric), row.labels.get("area")
        if value is not None and isinstance(area, int):
            width, height = (int(row.labels.get(name, 0)) / MILLION for name in ("width", "height"))
            samples.append((area / MILLION, width, height, 100 * value))
    samples.sort(key=lambda sample: sample[0])
    areas, widths, heights, scores = np.array(samples, np.float64).reshape(-1, 4).T
    window_areas, window_scores = _means(areas), _means(scores)
    r, p = _pearson(window_areas, window_scores)
    sample_r, sample_p = _pearson(areas, scores)
    num_missing = len(results.rows) - len(samples)
    return SizeCurve(
        areas, widths, heights, scores, WINDOW_SIZE, window_areas, window_scores, r, p, sample_r, sample_p, num_missing
    )


def _means(values: NDArray[np.float64]) -> NDArray[np.float64]:
    if len(values) < WINDOW_SIZE:
        return np.zeros(0)
    means: NDArray[np.float64] = np.lib.stride_tricks.sliding_window_view(values, WINDOW_SIZE).mean(axis=1)
    return means


def _pearson(xs: Sequence[float] | NDArray[np.float64], ys: NDArray[np.float64]) -> tuple[float | None, float | None]:
    if len(xs) < 3 or np.ptp(xs) == 0 or np.ptp(ys) == 0:
        return None, None
    result = bench_library("scipy.stats").pearsonr(xs, ys)
    return float(result.statistic), float(result.pvalue)
