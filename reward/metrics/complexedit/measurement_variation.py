"""Variation of a score with the number of judge samples in its mean. Complex-Edit, section 4.2."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

SUBSAMPLE_MEANS = 4
"""Number of means that are compared."""


def variation(grades: Sequence[float], k: int) -> float:
    """(max - min) / 2 of four means of `k` measurements each, in the unit of the grades; 0 if all agree.

    grades: at least 4 k measurements of one sample, which are split into consecutive groups of k. Raises ValueError for
    fewer. In the paper's figure 7 the variation settles at k = 20.
    """
    if k < 1:
        raise ValueError(f"a mean needs at least one measurement, got k={k}")
    if len(grades) < SUBSAMPLE_MEANS * k:
        raise ValueError(
            f"{SUBSAMPLE_MEANS} means of {k} measurements need {SUBSAMPLE_MEANS * k} grades, got {len(grades)}: "
            "measure more"
        )
    means = [fmean(grades[start : start + k]) for start in range(0, SUBSAMPLE_MEANS * k, k)]
    return (max(means) - min(means)) / 2


def variations(grades: Sequence[float]) -> dict[int, float]:
    """The variation for every k from 1 to a fourth of the number of grades."""
    return {k: variation(grades, k) for k in range(1, len(grades) // SUBSAMPLE_MEANS + 1)}
