"""The search for a plan of halving: every one is carried out on values that were recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .halving import Halving

Values = NDArray[np.float64]
"""NaN where there is no value."""

_FOLDS = 5


@dataclass(frozen=True, slots=True)
class Plan:
    """A halving, and what it is expected to do.

    evaluations: of the denoiser, a sample. share: of best-of-n's evaluations. regret: mean loss against best-of-n on
    the samples it was chosen on. kept: share of best-of-n's gain over a single candidate that remains, estimated on
    samples that the plan was not chosen on (cross-fitting); None for fewer than two samples, or without a gain.
    """

    halving: Halving
    evaluations: int
    share: float
    regret: float
    kept: float | None


def best_plan(values: Values, steps: Sequence[int], share: float, most_checkpoints: int) -> Plan:
    """The plan that loses least with at most `share` of the evaluations of best-of-n; see `Calibration.plan`.

    values: (samples, n, steps); the last step is the finished picture, of which each sample has a value at least.
    """
    finals = values[:, :, -1]
    best, worst, single = _best(finals), np.nanmin(finals, 1), np.nanmean(finals, 1)
    whole = values.shape[1] * steps[-1]
    plans, costs, lost = [], [], []
    for halving, chosen in _plans(values, steps, most_checkpoints):
        cost = halving.cost(steps[-1])
        if cost <= share * whole + 1e-9:
            plans.append(halving)
            costs.append(cost)
            lost.append(best - np.maximum(chosen, worst))
    if not plans:
        raise ValueError(f"no plan fits in {share:g} of {whole} evaluations, for a picture takes {steps[-1]}")
    table = np.array(lost)
    number = _least(table, costs)
    kept = _kept(table, costs, best - single)
    return Plan(plans[number], costs[number], costs[number] / whole, float(table[number].mean()), kept)


def order(looks: Values) -> NDArray[np.int64]:
    """As `halving.ranked` orders previews: the best first, equal ones by seed, those without a value at the end."""
    return np.argsort(np.where(np.isfinite(looks), -looks, np.inf), axis=-1, kind="stable")


def _plans(values: Values, steps: Sequence[int], most: int) -> Iterator[tuple[Halving, Values]]:
    """Plans, and what each chooses of each sample (-inf where nothing)."""
    many = values.shape[1]
    for number in range(1, many + 1):
        yield Halving(number, (), ()), _best(values[:, :number, -1])
    while many > 1:
        everyone = np.broadcast_to(np.arange(many), (len(values), many))
        yield from _longer(values, steps, everyone, Halving(many, (), ()), most)
        many //= 2


def _longer(
    values: Values, steps: Sequence[int], going: NDArray[np.int64], plan: Halving, most: int
) -> Iterator[tuple[Halving, Values]]:
    """Plans with more checkpoints than this one. going: (samples, survivors), who has come so far, by seed."""
    last = plan.checkpoints[-1] if plan.checkpoints else 0
    for column, step in enumerate(steps[:-1] if most else ()):
        if step <= last:
            continue
        ranking = order(np.take_along_axis(values[:, :, column], going, 1))
        for count in _counts(going.shape[1]):
            left = np.take_along_axis(going, np.sort(ranking[:, :count], 1), 1)
            longer = Halving(plan.n, (*plan.checkpoints, step), (*(plan.keep or ()), count))
            yield longer, _best(np.take_along_axis(values[:, :, -1], left, 1))
            yield from _longer(values, steps, left, longer, most - 1)


def _counts(many: int) -> list[int]:
    """How many of so many may be kept: all from 1 to 8, then in steps of about a square root of 2."""
    sparse = {round(2 ** (half / 2)) for half in range(7, 40)}
    return [count for count in range(1, many) if count <= 8 or count in sparse]


def _best(finals: Values) -> Values:
    found: Values = np.where(np.isfinite(finals), finals, -np.inf).max(1)
    return found


def _least(lost: Values, costs: Sequence[int]) -> int:
    """The place of the plan with the least mean loss, the cheapest of equals; lost: (plans, samples)."""
    return int(np.lexsort((np.asarray(costs), np.round(lost.mean(1), 12)))[0])


def _kept(lost: Values, costs: Sequence[int], gain: Values) -> float | None:
    """The share of the gain that remains on samples that had no say in the choice of the plan."""
    many = len(gain)
    if many < 2 or gain.sum() <= 0:
        return None
    folds = np.arange(many) % min(_FOLDS, many)
    left_out = np.zeros(many)
    for fold in range(int(folds.max()) + 1):
        out = folds == fold
        left_out[out] = lost[_least(lost[:, ~out], costs), out]
    return float(1 - left_out.sum() / gain.sum())
