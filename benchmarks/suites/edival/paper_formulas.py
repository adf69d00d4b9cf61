"""EdiVal's formulas: used by its tables, and by the tests against the printed ones.

Arguments are numbers or arrays, all shares in [0, 1] or all percent; NaN if undefined.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from ..bootstrap import Numbers


def consistency(objects: ArrayLike, background: ArrayLike) -> Numbers:
    """EdiVal-CC of a data set: the mean of its mean object and its mean background similarity. Table 3 from 22."""
    return (np.asarray(objects, np.float64) + np.asarray(background, np.float64)) / 2


def overall(following: ArrayLike, consistent: ArrayLike) -> Numbers:
    """EdiVal-O: the geometric mean of EdiVal-IF and EdiVal-CC (section 2.4). A negative similarity counts as 0."""
    return np.sqrt(np.asarray(following, np.float64) * np.maximum(consistent, 0.0))


def overall_over_turns(following: Sequence[ArrayLike], consistent: Sequence[ArrayLike]) -> Numbers:
    """EdiVal-O of appendix O.4: the geometric mean of the means of EdiVal-IF and of EdiVal-CC over the turns.

    Undefined if one of them is.
    """
    return overall(np.mean(np.stack(following), axis=0), np.mean(np.stack(consistent), axis=0))


def task_rate(rates: Sequence[ArrayLike], counts: Sequence[ArrayLike]) -> Numbers:
    """The success rate over all tasks, from the rate and count of each type. Table 16 from Tables 17, 18, 2.

    A type without tasks has no rate, and is ignored.
    """
    sizes = np.stack([np.asarray(count, np.float64) for count in counts])
    successes = np.where(sizes > 0, np.stack([np.asarray(rate, np.float64) for rate in rates]) * sizes, 0.0)
    total = sizes.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        rates_over_tasks: Numbers = np.where(total > 0, successes.sum(axis=0) / total, np.nan)
    return rates_over_tasks


def relative_change(now: ArrayLike, base: ArrayLike) -> Numbers:
    """EdiVal-VQ's change as printed (table 4): absolute difference of a turn's mean and the mean of the base."""
    return np.abs(np.asarray(now, np.float64) - np.asarray(base, np.float64))


def all_followed(values: Iterable[float | None]) -> float | None:
    """1 if every instruction was followed, 0 if one was not, whatever the others; None if one is unknown, or without
    instructions.
    """
    each = list(values)
    if any(value is not None and value != 1.0 for value in each):
        return 0.0
    return None if not each or None in each else 1.0
