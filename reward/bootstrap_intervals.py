"""Intervals of statistics of independent rows: bootstrap by the percentile method (Efron 1979), Wilson's of a share,
Student's of a ratio of means.

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
_NORMAL = 1.959964  # quantile of the normal distribution at 97.5 %
_STUDENT = (12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004)
"""Of Student's t, at the same, with 1 to 8 degrees of freedom."""


def bootstrap_interval(statistic: Callable[..., Numbers], *columns: ArrayLike) -> tuple[float, float] | None:
    """The 95 % interval of a statistic over bootstrap samples of the rows; the same in every call. columns: a value for
    each row, (rows,) each; rows are resampled whole. statistic: the columns of all samples, (samples, rows) each -> a
    number for each sample, (samples,), NaN where it is undefined. None for fewer than two rows, or if fewer than half
    of the samples are defined.
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
    """The central interval that holds `share` of a statistic's bootstrap samples, (samples,). None if fewer than half
    of them are defined (not NaN).
    """
    defined = samples[~np.isnan(samples)]
    if len(defined) * 2 < len(samples) or not len(defined):
        return None
    low, high = np.quantile(defined, [(1 - share) / 2, (1 + share) / 2])
    return float(low), float(high)


def ratio_interval(totals: ArrayLike, counts: ArrayLike) -> tuple[float, float] | None:
    """The 95 % interval of the sum of totals over the sum of counts, (rows,) each; None for fewer than two rows.
    Student's, with the variance of a ratio of means (linearised; Cochran 1977, 6.4). For few rows it holds what it says
    where the bootstrap is too narrow; it is symmetric, so that it may leave the range of what is averaged.
    """
    tops, bottoms = np.asarray(totals, np.float64), np.asarray(counts, np.float64)
    rows = len(tops)
    if rows < 2:
        return None
    ratio = tops.sum() / bottoms.sum()
    residuals = tops - ratio * bottoms
    error = math.sqrt(rows / (rows - 1) * float(residuals @ residuals)) / bottoms.sum()
    half = (_STUDENT[rows - 2] if rows - 1 <= len(_STUDENT) else student_quantile(_NORMAL, rows - 1)) * error
    return float(ratio - half), float(ratio + half)


def student_quantile(normal: float, freedom: int) -> float:
    """The quantile of Student's t at the share of a quantile of the normal distribution: its Cornish-Fisher expansion
    (Abramowitz and Stegun 26.7.5), within 0.1 % from 9 degrees of freedom on.
    """
    z = normal
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return float(z + sum(term / freedom**power for power, term in enumerate(terms, start=1)))


def wilson_interval(hits: float, count: int, z: float = _NORMAL) -> tuple[float, float]:
    """The 95 % interval of a proportion (Wilson 1927), also where all or none hit; (0, 1) for none at all. hits: may be
    a fraction, as of observations that are rates themselves.
    """
    if not count:
        return 0.0, 1.0
    share = hits / count
    centre = share + z * z / (2 * count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    scale = 1 + z * z / count
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)
