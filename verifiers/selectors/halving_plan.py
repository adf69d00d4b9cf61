"""Search for a plan of successive halving: each plan is simulated on recorded values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .halving import SuccessiveHalving

ValueArray = NDArray[np.float64]
"""NaN for missing values."""

_FOLDS = 5


@dataclass(frozen=True, slots=True)
class HalvingPlan:
    """A halving and its expected performance.

    nfe: per sample. nfe_fraction: of the NFE of best-of-n. regret: mean loss against best-of-n on the samples it was
    chosen on. retained_gain: share of best-of-n's gain over a single candidate that remains, estimated on held-out
    samples (cross-fitting); None for fewer than two samples, or without a gain.
    """

    halving: SuccessiveHalving
    nfe: int
    nfe_fraction: float
    regret: float
    retained_gain: float | None


def best_plan(values: ValueArray, steps: Sequence[int], share: float, most_checkpoints: int) -> HalvingPlan:
    """The plan with the least regret within `share` of the NFE of best-of-n; see `PreviewCalibration.plan`.

    values: (samples, n, steps); the last step is the final image; each sample has at least one final value.
    """
    finals = values[:, :, -1]
    best, worst, single = _best_values(finals), np.nanmin(finals, 1), np.nanmean(finals, 1)
    total = values.shape[1] * steps[-1]
    plans, costs, regrets = [], [], []
    for halving, chosen_values in _plans(values, steps, most_checkpoints):
        cost = halving.nfe_cost(steps[-1])
        if cost <= share * total + 1e-9:
            plans.append(halving)
            costs.append(cost)
            regrets.append(best - np.maximum(chosen_values, worst))
    if not plans:
        raise ValueError(f"no plan fits in {share:g} of {total} NFE: an image takes {steps[-1]}")
    table = np.array(regrets)
    number = _least_regret(table, costs)
    retained = _cross_fitted_gain(table, costs, best - single)
    return HalvingPlan(plans[number], costs[number], costs[number] / total, float(table[number].mean()), retained)


def rank_order(previews: ValueArray) -> NDArray[np.int64]:
    """The order of `halving.rank_by_preview`: best first, equal ones by seed, those without a value last.

    Values do not tell a guard's rejection from an equal value.
    """
    return np.argsort(np.where(np.isfinite(previews), -previews, np.inf), axis=-1, kind="stable")


def _plans(
    values: ValueArray, steps: Sequence[int], max_checkpoints: int
) -> Iterator[tuple[SuccessiveHalving, ValueArray]]:
    """Plans, and the value that each chooses for each sample (-inf for none)."""
    count = values.shape[1]
    for number in range(1, count + 1):
        yield SuccessiveHalving(number, (), ()), _best_values(values[:, :number, -1])
    while count > 1:
        all_candidates = np.broadcast_to(np.arange(count), (len(values), count))
        yield from _extend_plan(values, steps, all_candidates, SuccessiveHalving(count, (), ()), max_checkpoints)
        count //= 2


def _extend_plan(
    values: ValueArray,
    steps: Sequence[int],
    survivors: NDArray[np.int64],
    plan: SuccessiveHalving,
    max_checkpoints: int,
) -> Iterator[tuple[SuccessiveHalving, ValueArray]]:
    """Plans with more checkpoints than this one. survivors: (samples, survivors), candidate indices in seed order."""
    last = plan.checkpoints[-1] if plan.checkpoints else 0
    for column, step in enumerate(steps[:-1] if max_checkpoints else ()):
        if step <= last:
            continue
        ranking = rank_order(np.take_along_axis(values[:, :, column], survivors, 1))
        for count in _keep_counts(survivors.shape[1]):
            kept = np.take_along_axis(survivors, np.sort(ranking[:, :count], 1), 1)
            longer = SuccessiveHalving(plan.n, (*plan.checkpoints, step), (*(plan.keep or ()), count))
            yield longer, _best_values(np.take_along_axis(values[:, :, -1], kept, 1))
            yield from _extend_plan(values, steps, kept, longer, max_checkpoints - 1)


def _keep_counts(total: int) -> list[int]:
    """Candidate numbers of survivors below `total`: all from 1 to 8, then a factor of about sqrt(2) apart."""
    sparse = {round(2 ** (half / 2)) for half in range(7, 40)}
    return [count for count in range(1, total) if count <= 8 or count in sparse]


def _best_values(finals: ValueArray) -> ValueArray:
    best: ValueArray = np.where(np.isfinite(finals), finals, -np.inf).max(1)
    return best


def _least_regret(regrets: ValueArray, costs: Sequence[int]) -> int:
    """Index of the plan with the least mean regret, the cheapest of equals. regrets: (plans, samples)."""
    return int(np.lexsort((np.asarray(costs), np.round(regrets.mean(1), 12)))[0])


def _cross_fitted_gain(regrets: ValueArray, costs: Sequence[int], gain: ValueArray) -> float | None:
    """The share of the gain that remains on samples held out from the choice of the plan."""
    count = len(gain)
    if count < 2 or gain.sum() <= 0:
        return None
    folds = np.arange(count) % min(_FOLDS, count)
    held_out_regret = np.zeros(count)
    for fold in range(int(folds.max()) + 1):
        held_out = folds == fold
        held_out_regret[held_out] = regrets[_least_regret(regrets[:, ~held_out], costs), held_out]
    return float(1 - held_out_regret.sum() / gain.sum())
