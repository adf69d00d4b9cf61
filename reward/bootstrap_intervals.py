"""Intervals of statistics of independent rows: bootstrap by the percentile method (Efron 1979), Wilson's of a share.

Equal to `scipy.stats.bootstrap(columns, statistic, paired=True, method="percentile")` with the same generator, but for
rounding; a test compares them. scipy itself, 143 MB, is in no library of the base install, and importing `scipy.stats`
takes three times as long as importing `editcritic.reward`.

Tables of suites resample weights of cases instead (`benchmarks/suites/bootstrap.py`), so that all statistics of all
tables share the same samples, which makes differences of editors paired.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.float64]

RESAMPLES = 2000
"""Number of bootstrap samples."""


def bootstrap_interval(statistic: Callable[..., Numbers], *columns: ArrayLike) -> tuple[float, float] | None:
    """The 95 % interval of a statistic over bootstrap samples of the rows; the same in every call.

    columns: a value for each row, (rows,) each; rows are resampled whole. statistic: the columns of all samples,
    (samples, rows) each -> a number for each sample, (samples,), NaN where it is undefined. None for fewer than two
    rows, or if fewer than half of the samples are defined.
    """
    arrays = [np.asarray(column, np.float64) for column in columns]
    if len(arrays[0]) < 2:
        return None
    rows = resampled_rows(len(arrays[0]), np.random.default_rng(0))
    return percentile_interval(statistic(*(array[rows] for array in arrays)))


def row_means(values: Numbers) -> Numbers:
    """The mean of each sample, (samples, rows) -> (samples,): the statistic of a mean."""
    means: Numbers = values.mean(axis=-1)
    return means


def resampled_rows(count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Numbers of the rows in each bootstrap sample of `count` rows, (`RESAMPLES`, count)."""
    return rng.integers(0, count, (RESAMPLES, count))


def percentile_interval(samples: Numbers, share: float = 0.95) -> tuple[float, float] | None:
    """The central interval that holds `share` of a statistic's bootstrap samples, (samples,).

    None if fewer than half of them are defined (not NaN).
    """
    defined = samples[~np.isnan(samples)]
    if len(defined) * 2 < len(samples) or not len(defined):
        return None
    low, high = np.quantile(defined, [(1 - share) / 2, (1 + share) / 2])
    return float(low), float(high)


def wilson_interval(hits: float, count: int, z: float = 1.959964) -> tuple[float, float]:
    """The 95 % interval of a proportion (Wilson 1927), also where all or none hit; (0, 1) for none at all.

    hits: may be a fraction, as of observations that are rates themselves.
    """
    if not count:
        return 0.0, 1.0
    share = hits / count
    centre = share + z * z / (2 * count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    scale = 1 + z * z / count
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)
