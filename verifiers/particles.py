"""Particles: many denoisings side by side, thinned out and multiplied by the reward of their previews."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..reward import EditSample
from .candidate import Selection
from .halving import check_checkpoints, fit, in_turn, stages
from .making import Staged
from .noise_search import branched
from .run import Run

_BELOW_ONE = np.nextafter(1.0, 0.0)

Potential = Literal["difference", "max"]


@dataclass(frozen=True)
class Particles:
    """Feynman-Kac steering (Singhal et al. 2025): a particle filter whose weights are rewards of previews.

    At each checkpoint a particle's weight is multiplied by its potential. `difference`: exp(strength * (reward - the
    reward at the last checkpoint)), so that the product is exp(strength * reward). `max`: exp(strength * the highest
    reward so far), which keeps those that once looked good. strength: in units of 1 / reward.

    Where the effective sample size 1 / sum(w^2) is below `resample_below` of the particles that are left, all `n`
    places are filled anew by systematic resampling, and weights are equal again. The first copy of a particle goes
    on as it was; since solvers are deterministic, the others get fresh noise on the preview, as much as there is
    `back` steps earlier. The winner is the best of the finished particles by the score of the picture itself.

    A particle whose preview has no value keeps its share of the weight: with equal weights it is expected to go on
    once, neither dropped nor multiplied by a guess. One for which the editor failed has no weight. More particles can
    lower the chosen value. A budget too small for the dearest course (see `cost`) begins fewer of them.
    """

    n: int = 8
    checkpoints: tuple[int, ...] = (2, 4)
    strength: float = 10.0
    potential: Potential = "difference"
    resample_below: float = 0.5
    back: int = 1

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"a filter takes one particle or more, got n={self.n}")
        check_checkpoints(self.checkpoints)
        if not self.checkpoints or not 0 <= self.back < self.checkpoints[0]:
            raise ValueError(
                f"back is 0 or more and less than the first checkpoint, for at step 0 there is nothing left of a "
                f"preview: got back={self.back} and checkpoints {self.checkpoints}"
            )
        if not (self.strength > 0 and math.isfinite(self.strength)):
            raise ValueError(f"strength is a positive number, got {self.strength}")
        if self.potential not in get_args(Potential):
            raise ValueError(f"a potential is one of {', '.join(get_args(Potential))}, got {self.potential!r}")
        if not 0 <= self.resample_below <= 1:
            raise ValueError(f"resample_below is a share in [0, 1], got {self.resample_below}")

    def cost(self, evaluations: int) -> int:
        """Denoiser evaluations a sample at most: where at each checkpoint one particle fills all places."""
        return self._work(self.n, evaluations)[0]

    def _work(self, number: int, evaluations: int) -> tuple[int, int]:
        again = len(self.checkpoints) * (number - 1) * self.back
        return number * evaluations + again, number * (len(self.checkpoints) + 1)

    def __call__(self, run: Run, samples: Sequence[EditSample]) -> list[Selection]:
        begun = [[Staged(run.want(sample, number)) for number in range(self.n)] for sample in samples]
        ends = stages(run, self.checkpoints)
        fitting, ends, notes = fit(run, begun, ends, lambda number: self._work(number, run.steps))
        rows = [[Particle(one) for one in row] for row in fitting]
        dropped: list[list[Staged]] = [[] for _ in samples]
        for turn, until in enumerate(ends):
            moved = in_turn(run, [[one.staged for one in row] for row in rows], until)
            rows = [
                [replace(one, staged=staged) for one, staged in zip(row, after, strict=True)]
                for row, after in zip(rows, moved, strict=True)
            ]
            if until == run.steps:
                break
            for number, sample in enumerate(samples):
                row = self._weighed(rows[number], until)
                weights = normalised([one.log_weight for one in row])
                left = sum(math.isfinite(one.log_weight) for one in row)
                if left and effective(weights) < self.resample_below * left:
                    counts = systematic(weights, offset(run.seed, sample.id, until))
                    dropped[number] += [one.staged for one, count in zip(row, counts, strict=True) if not count]
                    row = self._resampled(run, row, counts, turn)
                rows[number] = row
        found = [[*out, *(one.staged for one in row)] for out, row in zip(dropped, rows, strict=True)]
        made = [[run.candidate(one) for one in row] for row in found]
        return [run.selection(sample, row, len(row), notes=notes) for sample, row in zip(samples, made, strict=True)]

    def _weighed(self, row: Sequence[Particle], until: int) -> list[Particle]:
        """With the weights that this checkpoint gives them."""
        there = [one.staged.step == until and not one.staged.problem for one in row]
        scored = {
            place: one.rewarded(one.staged.value, self.strength, self.potential)
            for place, one in enumerate(row)
            if there[place] and one.staged.value is not None
        }
        # What those with a value gain on average leaves the share of the others as it was.
        before = log_sum([row[place].log_weight for place in scored])
        gain = log_sum([one.log_weight for one in scored.values()]) - before if math.isfinite(before) else 0.0
        found = []
        for place, one in enumerate(row):
            if not there[place]:
                found.append(replace(one, log_weight=-math.inf))
            elif place in scored:
                found.append(scored[place])
            else:
                found.append(replace(one, log_weight=one.log_weight + gain, accounted=one.accounted + gain))
        return found

    def _resampled(self, run: Run, row: Sequence[Particle], counts: NDArray[np.int64], turn: int) -> list[Particle]:
        """Survivors in their places, with equal weights; copies in the places of those that were dropped."""
        found = [replace(one, log_weight=0.0) for one in row]
        free = [place for place, count in enumerate(counts) if not count]
        for one, count in zip(row, counts, strict=True):
            for copy in range(1, count):
                place = free.pop(0)
                name = f"{one.staged.want.id}.{turn + 1}.{copy}"
                staged = branched(one.staged, name, run.noise(place, turn + 2).seed, self.back)
                found[place] = replace(one, staged=staged, log_weight=0.0)
        return found


@dataclass(frozen=True, slots=True)
class Particle:
    """log_weight: of its weight since the last resampling, unnormalised. accounted: of all potentials so far, those of
    its ancestors included. peak: the highest reward of its previews and theirs.
    """

    staged: Staged
    log_weight: float = 0.0
    accounted: float = 0.0
    peak: float = -math.inf

    def rewarded(self, reward: float, strength: float, potential: Potential) -> Particle:
        """With the potential of a preview's reward."""
        peak = max(self.peak, reward)
        gain = strength * reward - self.accounted if potential == "difference" else strength * peak
        return replace(self, log_weight=self.log_weight + gain, accounted=self.accounted + gain, peak=peak)


def log_sum(logs: Sequence[float]) -> float:
    """The logarithm of the sum of exponentials; -inf of none."""
    top = max(logs, default=-math.inf)
    return top + math.log(math.fsum(math.exp(log - top) for log in logs)) if math.isfinite(top) else top


def normalised(logs: Sequence[float]) -> NDArray[np.float64]:
    """Weights that sum to 1, of their logarithms; all 0 where each is."""
    whole = log_sum(logs)
    return np.array([math.exp(log - whole) if math.isfinite(log) else 0.0 for log in logs])


def effective(weights: NDArray[np.float64]) -> float:
    """Effective sample size of normalised weights, from 1 to as many as there are (Kong, Liu and Wong 1994)."""
    return float(1 / np.square(weights).sum())


def systematic(weights: NDArray[np.float64], first: float) -> NDArray[np.int64]:
    """How often each is drawn, as many times as there are weights (Kitagawa 1996): within 1 of n times its weight.

    first: uniform in [0, 1), the one random number it takes.
    """
    many = len(weights)
    sums = np.cumsum(weights)
    points = np.minimum((first + np.arange(many)) / many, _BELOW_ONE)  # the last may round to 1, where nobody is drawn
    drawn = np.searchsorted(sums / sums[-1], points, side="right")
    return np.bincount(drawn, minlength=many)


def offset(seed: int, name: str, step: int) -> float:
    """The random number of a resampling: of the run's seed, the sample and the step, and of nothing else."""
    digest = hashlib.sha256(f"{seed} {step} {name}".encode()).digest()
    return float(np.random.default_rng(int.from_bytes(digest[:16], "big")).random())
