"""How EdiVal's figures follow from one another: what its tables, and the tests against the printed ones, are made of.

Arguments are numbers or arrays of numbers, shares in [0, 1] or percent throughout; NaN where there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from ..figures import Numbers


def consistency(objects: ArrayLike, background: ArrayLike) -> Numbers:
    """EdiVal-CC of a data set: the mean of its mean object and its mean background similarity. Table 3 of Table 22."""
    return (np.asarray(objects, np.float64) + np.asarray(background, np.float64)) / 2


def overall(following: ArrayLike, consistent: ArrayLike) -> Numbers:
    """EdiVal-O: the geometric mean of EdiVal-IF and EdiVal-CC (section 2.4). A negative similarity counts as 0."""
    return np.sqrt(np.asarray(following, np.float64) * np.maximum(consistent, 0.0))


def task_rate(rates: Sequence[ArrayLike], counts: Sequence[ArrayLike]) -> Numbers:
    """The success rate over all tasks, of the rate and the number of tasks of each type. Table 16 of Tables 17, 18, 2.

    A type without tasks has no rate, and does not count.
    """
    sizes = np.stack([np.asarray(count, np.float64) for count in counts])
    successes = np.where(sizes > 0, np.stack([np.asarray(rate, np.float64) for rate in rates]) * sizes, 0.0)
    total = sizes.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Numbers = np.where(total > 0, successes.sum(axis=0) / total, np.nan)
    return found


def change(now: ArrayLike, base: ArrayLike) -> Numbers:
    """EdiVal-VQ's change as it is printed (table 4): how far the mean of a turn is from the mean of the base."""
    return np.abs(np.asarray(now, np.float64) - np.asarray(base, np.float64))


def all_followed(values: Iterable[float | None]) -> float | None:
    """1 where every instruction was followed, 0 where one was not; None where one is not known: that is no number."""
    found = list(values)
    if not found or any(value is None for value in found):
        return None
    return float(all(value == 1.0 for value in found))
