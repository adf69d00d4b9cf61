"""Successive halving over previews: many candidates begin, and only what looks promising half-way is finished."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..reward import EditSample
from .budget import Cost
from .candidate import Selection
from .making import Staged
from .run import Run

Rows = Sequence[Sequence[Staged]]
"""Candidates on their way, a row a sample."""


@dataclass(frozen=True)
class Halving:
    """Successive halving (Jamieson and Talwalkar 2016) with denoising steps as the resource.

    All `n` candidates are brought to the first checkpoint (a step of the denoiser) and scored on their preview. The
    best go on to the next checkpoint, and those that survive the last one are finished. The winner is chosen among
    the finished ones by the score of the picture itself. Without checkpoints it is best-of-n.

    keep: how many survive each checkpoint, as counts (4) or as shares of n in (0, 1], rounded down, at least one;
    decreasing. Default: half of them at each.

    Previews with equal scores are ranked by seed. A preview whose score failed or abstained has no rank: it goes on
    where there is room after those with a value, by seed. A candidate for which the editor failed leaves its place to
    the next. With perfect previews the winner is that of best-of-n; otherwise a larger n can lower the chosen value,
    for a preview can promise too much. A budget too small for the plan shrinks n before anything is made.
    """

    n: int = 16
    checkpoints: tuple[int, ...] = (1, 2)
    keep: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"halving takes one candidate or more, got n={self.n}")
        check_checkpoints(self.checkpoints)
        keep = self.keep
        if keep is None:
            return
        if len(keep) != len(self.checkpoints):
            raise ValueError(f"keep says how many survive each of {len(self.checkpoints)} checkpoints, got {keep}")
        counted = [isinstance(one, int) for one in keep]
        if any(counted) and not all(counted):
            raise ValueError(f"keep holds counts, as in (8, 4), or shares, as in (0.5, 0.25), not both: got {keep}")
        most = self.n if any(counted) else 1
        if not all(0 < one <= most for one in keep) or any(a <= b for a, b in pairwise(keep)):
            raise ValueError(f"keep decreases, from {most} at most, and stays above 0: got {keep}")

    def cost(self, evaluations: int) -> int:
        """Denoiser evaluations a sample, with an editor that takes so many for a picture."""
        return self.work(self.n, evaluations)[0]

    def counts(self, number: int) -> tuple[int, ...]:
        """How many survive each checkpoint where so many begin."""
        if self.keep is None:
            shares = [number * 0.5**place for place in range(1, len(self.checkpoints) + 1)]
        elif all(isinstance(one, int) for one in self.keep):
            shares = [one * number / self.n for one in self.keep]
        else:
            shares = [one * number for one in self.keep]
        return tuple(max(math.floor(round(share, 9)), 1) for share in shares)

    def work(self, number: int, evaluations: int) -> tuple[int, int]:
        """Denoiser evaluations, and pictures that are scored, where so many begin."""
        ends = (*self.checkpoints, evaluations)
        going = (number, *self.counts(number))
        pieces = zip(going, (0, *self.checkpoints), ends, strict=True)
        return sum(count * (end - start) for count, start, end in pieces), sum(going)

    def __call__(self, run: Run, samples: Sequence[EditSample]) -> list[Selection]:
        begun = [[Staged(run.want(sample, number)) for number in range(self.n)] for sample in samples]
        rows, ends, notes = fit(run, begun, stages(run, self.checkpoints), lambda n: self.work(n, run.steps))
        counts = self.counts(len(rows[0])) if len(ends) > 1 else ()
        dropped: list[list[Staged]] = [[] for _ in samples]
        for until, count in zip(ends, (*counts, 0), strict=True):
            rows = in_turn(run, rows, until)
            kept = [ranked(row, until)[:count] for row in rows]
            for out, row, going in zip(dropped, rows, kept, strict=True):
                out += [one for one in row if one.want.id not in {other.want.id for other in going}]
            rows = kept
        found = [[run.candidate(one) for one in sorted(row, key=_seed)] for row in dropped]
        return [run.selection(sample, row, self.n, notes=notes) for sample, row in zip(samples, found, strict=True)]


def check_checkpoints(checkpoints: Sequence[int]) -> None:
    """Raise ValueError unless they are steps from 1 that increase."""
    if any(one >= other for one, other in zip((0, *checkpoints), checkpoints, strict=False)):
        raise ValueError(f"checkpoints are steps of the denoiser, from 1, that increase: got {tuple(checkpoints)}")


def stages(run: Run, checkpoints: Sequence[int]) -> tuple[int, ...]:
    """The checkpoints and the last step. Raises ValueError where the editor has not so many steps."""
    if checkpoints and checkpoints[-1] >= run.steps:
        raise ValueError(
            f"checkpoints come before the last step, and {run.editor.id} takes {run.steps}: got {tuple(checkpoints)}"
        )
    return (*checkpoints, run.steps)


def fit(
    run: Run, rows: Rows, ends: tuple[int, ...], work: Callable[[int], tuple[int, int]]
) -> tuple[list[list[Staged]], tuple[int, ...], tuple[str, ...]]:
    """The rows cut to what the budget has room for, where they are to stop on the way, and a note where that is less.

    work: number of candidates -> (evaluations, pictures to score) of the whole plan for one sample; every sample has
    an equal part of the budget. Evaluations are exact. Where judge calls or seconds are limited, the first candidate
    that the editor can make is brought to the first stop, and each score is taken to cost what its did. Where the
    plan does not fit even for one candidate, one is left in each row, which goes to the end without stops.
    """
    found = [list(row) for row in rows]
    many, limits = len(found[0]), run.budget.limits
    spent, each, begun = run.spent, Cost(), 1
    if limits.keys() - {"evaluations"}:
        for begun in range(1, many + 1):
            (first,) = found[0][begun - 1 : begun] = run.stage(found[0][begun - 1 : begun], ends[0])
            if not first.problem:
                each = first.cost
                break
    part = {name: (limit - getattr(spent, name)) / len(found) for name, limit in limits.items()}

    def fits(number: int) -> bool:
        evaluations, scores = work(number)
        needed = {
            "evaluations": evaluations,
            "judge_calls": scores * each.judge_calls,
            "seconds": max(scores, evaluations / ends[0]) * each.seconds,
        }
        return all(needed[name] <= room for name, room in part.items())

    number = next((number for number in range(many, 0, -1) if fits(number)), 0)
    if number == many:
        return found, ends, ()
    left = ", ".join(f"{room:g} {name.replace('_', ' ')}" for name, room in part.items())
    how = "" if number else ", without previews"
    note = f"{max(number, begun)} of {many} candidates were begun{how}: the budget has {left} for each sample"
    return [row[: max(number, begun)] for row in found], ends if number else ends[-1:], (note,)


def in_turn(run: Run, rows: Rows, until: int) -> list[list[Staged]]:
    """`run.stage` for several samples, one of each in turn, so that a budget that ends is fair to all."""
    places = [(place, row) for row, staged in enumerate(rows) for place in range(len(staged))]
    order = sorted(places)
    found = [list(row) for row in rows]
    moved = run.stage([rows[row][place] for place, row in order], until)
    for (place, row), one in zip(order, moved, strict=True):
        found[row][place] = one
    return found


def ranked(staged: Sequence[Staged], until: int) -> list[Staged]:
    """Those that have come to step `until`, the best preview first; equal ones, and those without a value, by seed."""
    there = [one for one in staged if one.step == until and not one.problem]
    return sorted(there, key=lambda one: (one.value is None, -(one.value or 0.0), _seed(one)))


def _seed(one: Staged) -> int:
    return one.want.noise.seed
