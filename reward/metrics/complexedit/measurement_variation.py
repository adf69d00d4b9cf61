"""How much a score varies with the number of measurements it is the mean of. Complex-Edit, section 4.2."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

MEANS = 4
"""So many means are compared."""


def variation(grades: Sequence[float], k: int) -> float:
    """(max - min) / 2 of four means of `k` measurements each, in the unit of the grades; 0 if all agree.

    grades: measurements of one sample, at least 4 k of them; the first k make the first mean, and so on, so that no
    two means share one. Raises ValueError for fewer. The paper's figure 7 has it settle at k = 20.
    """
    if k < 1:
        raise ValueError(f"a mean wants one measurement or more, got k={k}")
    if len(grades) < MEANS * k:
        raise ValueError(f"{MEANS} means of {k} measurements want {MEANS * k} of them, got {len(grades)}: measure more")
    means = [fmean(grades[start : start + k]) for start in range(0, MEANS * k, k)]
    return (max(means) - min(means)) / 2


def variations(grades: Sequence[float]) -> dict[int, float]:
    """The variation for every k that so many measurements of one sample are enough for, from 1 to a fourth of them."""
    return {k: variation(grades, k) for k in range(1, len(grades) // MEANS + 1)}
