"""Successive halving over previews: many candidates start, and only the most promising ones are finished."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...reward import EditSample
from ..selection.candidate import Cost, Selection, unit_name
from ..selection.generation import PartialCandidate
from ..selection.selection_run import SelectionRun

CandidateRows = Sequence[Sequence[PartialCandidate]]
"""Partial candidates, one row per sample."""


@dataclass(frozen=True)
class SuccessiveHalving:
    """Successive halving (Jamieson and Talwalkar 2016) with denoising steps as the resource.

    All `n` candidates advance to the first checkpoint (a denoising step) and their previews are scored. The best
    advance to the next checkpoint; survivors of the last one are finished. The winner is the finished candidate with
    the highest score of its final image. Without checkpoints it is best-of-n.

    Previews with equal scores are ranked by seed. Previews that a guard rejected rank after the others with a value,
    and those without a value last, by seed. A candidate whose editor call failed is dropped and the next one takes its
    place. With perfect previews the winner is that of best-of-n; otherwise a larger n can lower the chosen value,
    because a preview can overestimate. If the budget is too small for the plan, n is reduced before generation.

    Args:
        keep: Number of survivors of each checkpoint, as counts (4) or as shares of n in (0, 1], rounded down, at least
            one; decreasing. Default: half at each checkpoint.
    """

    n: int = 16
    checkpoints: tuple[int, ...] = (1, 2)
    keep: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"halving needs at least one candidate, got n={self.n}")
        check_checkpoints(self.checkpoints)
        keep = self.keep
        if keep is None:
            return
        if len(keep) != len(self.checkpoints):
            raise ValueError(f"keep needs one value for each of {len(self.checkpoints)} checkpoints, got {keep}")
        counted = [isinstance(count, int) for count in keep]
        if any(counted) and not all(counted):
            raise ValueError(f"keep must be counts, as in (8, 4), or shares, as in (0.5, 0.25), not both: got {keep}")
        limit = self.n if any(counted) else 1
        if not all(0 < count <= limit for count in keep) or any(a <= b for a, b in pairwise(keep)):
            raise ValueError(f"keep must decrease, from {limit} at most, and stay above 0: got {keep}")

    def nfe_cost(self, nfe: int) -> int:
        """NFE per sample, with `nfe` per image."""
        return self.nfe_and_scores(self.n, nfe)[0]

    def survivors(self, number: int) -> tuple[int, ...]:
        """Number of survivors of each checkpoint for `number` candidates."""
        if self.keep is None:
            shares = [number * 0.5**position for position in range(1, len(self.checkpoints) + 1)]
        elif all(isinstance(count, int) for count in self.keep):
            shares = [count * number / self.n for count in self.keep]
        else:
            shares = [count * number for count in self.keep]
        return tuple(max(math.floor(round(share, 9)), 1) for share in shares)

    def nfe_and_scores(self, number: int, nfe: int) -> tuple[int, int]:
        """NFE and scored images for `number` candidates, with `nfe` per image."""
        ends = (*self.checkpoints, nfe)
        counts = (number, *self.survivors(number))
        stages = zip(counts, (0, *self.checkpoints), ends, strict=True)
        return sum(count * (end - start) for count, start, end in stages), sum(counts)

    def __call__(self, run: SelectionRun, samples: Sequence[EditSample]) -> list[Selection]:
        rows, stages, notes = start_within_budget(run, samples, self.n, self.checkpoints, self.nfe_and_scores)
        counts = self.survivors(len(rows[0])) if len(stages) > 1 else ()
        dropped: list[list[PartialCandidate]] = [[] for _ in samples]
        for until_step, count in zip(stages, (*counts, 0), strict=True):
            rows = advance_interleaved(run, rows, until_step)
            kept = [rank_by_preview(row, until_step)[:count] for row in rows]
            for row_dropped, row, survivors in zip(dropped, rows, kept, strict=True):
                names = {survivor.request.id for survivor in survivors}
                row_dropped += [partial for partial in row if partial.request.id not in names]
            rows = kept
        return select_among(run, samples, [sorted(row, key=_seed) for row in dropped], self.n, notes)


def check_checkpoints(checkpoints: Sequence[int]) -> None:
    """Raise ValueError unless they are increasing steps from 1 on."""
    if any(earlier >= later for earlier, later in zip((0, *checkpoints), checkpoints, strict=False)):
        raise ValueError(f"checkpoints must be increasing denoising steps from 1 on, got {tuple(checkpoints)}")


def check_renoising(checkpoints: Sequence[int], renoise_steps: int) -> None:
    """Raise ValueError unless there are checkpoints, all of them after the step that their previews go back to."""
    check_checkpoints(checkpoints)
    if not checkpoints or not 0 <= renoise_steps < checkpoints[0]:
        raise ValueError(
            f"renoise_steps must be >= 0 and less than the first checkpoint, because step 0 is pure noise: got "
            f"renoise_steps={renoise_steps} and checkpoints {checkpoints}"
        )


def stage_ends(run: SelectionRun, checkpoints: Sequence[int]) -> tuple[int, ...]:
    """The checkpoints and the last step. Raises ValueError if the editor has too few steps."""
    if checkpoints and checkpoints[-1] >= run.nfe_per_image:
        raise ValueError(
            f"checkpoints must lie before the last of {run.nfe_per_image} steps of {run.editor.id}, got "
            f"{tuple(checkpoints)}"
        )
    return (*checkpoints, run.nfe_per_image)


def start_within_budget(
    run: SelectionRun,
    samples: Sequence[EditSample],
    count: int,
    checkpoints: Sequence[int],
    plan_cost: Callable[[int, int], tuple[int, int]],
) -> tuple[list[list[PartialCandidate]], tuple[int, ...], tuple[str, ...]]:
    """`count` candidates for each sample, or as many as its equal part of the budget allows, the steps to stop at, and
    a note if reduced.

    plan_cost: number of candidates, NFE per image -> (NFE, images to score). If judge calls or seconds are limited, the
    first candidate's first preview is the estimate for all scores. A plan that does not fit leaves one candidate
    without checkpoints.
    """
    ends = stage_ends(run, checkpoints)
    fitted = [[PartialCandidate(run.request(sample, number)) for number in range(count)] for sample in samples]
    spent, limits, unit_cost, started = run.spent, run.budget.limits, Cost(), 1
    if limits.keys() - {"nfe"}:
        for started in range(1, count + 1):
            (first,) = fitted[0][started - 1 : started] = run.advance(fitted[0][started - 1 : started], ends[0])
            if not first.error:
                unit_cost = first.cost
                break
    per_sample = {name: (limit - getattr(spent, name)) / len(fitted) for name, limit in limits.items()}

    def fits(number: int) -> bool:
        nfe, scores = plan_cost(number, run.nfe_per_image)
        needed = {
            "nfe": nfe,
            "judge_calls": scores * unit_cost.judge_calls,
            "seconds": max(scores, nfe / ends[0]) * unit_cost.seconds,
        }
        return all(needed[name] <= room for name, room in per_sample.items())

    number = next((number for number in range(count, 0, -1) if fits(number)), 0)
    if number == count:
        return fitted, ends, ()
    budget_text = ", ".join(f"{room:g} {unit_name(name)}" for name, room in per_sample.items())
    suffix = "" if number else ", without previews"
    kept = max(number, started)
    note = f"{kept} of {count} candidates were started{suffix}: the budget has {budget_text} for each sample"
    return [row[:kept] for row in fitted], ends if number else ends[-1:], (note,)


def select_among(
    run: SelectionRun, samples: Sequence[EditSample], rows: CandidateRows, max_candidates: int, notes: tuple[str, ...]
) -> list[Selection]:
    """The selection of each sample from its row; see `SelectionRun.make_selection`."""
    return [
        run.make_selection(sample, [run.to_candidate(partial) for partial in row], max_candidates, notes=notes)
        for sample, row in zip(samples, rows, strict=True)
    ]


def advance_interleaved(run: SelectionRun, rows: CandidateRows, until_step: int) -> list[list[PartialCandidate]]:
    """`SelectionRun.advance` for several samples, round-robin, so that a budget that runs out treats all alike."""
    ordered = sorted((position, row) for row, partials in enumerate(rows) for position in range(len(partials)))
    results = [list(row) for row in rows]
    advanced = run.advance([rows[row][position] for position, row in ordered], until_step)
    for (position, row), partial in zip(ordered, advanced, strict=True):
        results[row][position] = partial
    return results


def rank_by_preview(partials: Sequence[PartialCandidate], until_step: int) -> list[PartialCandidate]:
    """At step `until_step`: the best preview first, then rejected ones, then those without a value; then by seed."""
    reached = [partial for partial in partials if partial.step == until_step and not partial.error]
    return sorted(
        reached, key=lambda partial: (partial.value is None, partial.rejected, -(partial.value or 0.0), _seed(partial))
    )


def _seed(partial: PartialCandidate) -> int:
    return partial.request.noise.seed


ValueArray = NDArray[np.float64]
"""NaN for missing values."""

_FOLDS = 5


@dataclass(frozen=True, slots=True)
class HalvingSchedule:
    """A halving, its NFE per sample and as a fraction of best-of-n's; regret: mean loss against best-of-n;
    retained_gain: share of best-of-n's gain over one candidate, cross-fitted; None for fewer than two samples, or
    without a gain.
    """

    halving: SuccessiveHalving
    nfe: int
    nfe_fraction: float
    regret: float
    retained_gain: float | None


def best_schedule(values: ValueArray, steps: Sequence[int], share: float, most_checkpoints: int) -> HalvingSchedule:
    """The least regret within `share` of best-of-n's NFE. values: (samples, n, steps), final images last, with at least
    one final value a sample."""
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
    return HalvingSchedule(plans[number], costs[number], costs[number] / total, float(table[number].mean()), retained)


def rank_order(previews: ValueArray) -> NDArray[np.int64]:
    """The order of `halving.rank_by_preview`, of values alone."""
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
