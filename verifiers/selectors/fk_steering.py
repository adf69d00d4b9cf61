"""Feynman-Kac steering: a particle filter over denoising trajectories, weighted by the reward of previews."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ...reward import EditSample
from ..selection.candidate import Selection
from ..selection.generation import PartialCandidate
from ..selection.selection_run import SelectionRun
from .halving import advance_interleaved, check_renoising, start_within_budget
from .noise_search import branch_candidate

_BELOW_ONE = np.nextafter(1.0, 0.0)

Potential = Literal["difference", "max"]


@dataclass(frozen=True)
class FKSteering:
    """Feynman-Kac (FK) steering (Singhal et al. 2025): a particle filter whose weights are rewards of previews.

    At each checkpoint a particle's weight is multiplied by its potential. `difference`: exp(reward_scale * (reward -
    reward at the last checkpoint)), so that the product is exp(reward_scale * reward). `max`: exp(reward_scale * the
    highest reward so far), which keeps particles that were good once. reward_scale (lambda): in units of 1 / reward.

    If the effective sample size 1 / sum(w^2) is below `ess_threshold` times the number of alive particles, all `n`
    particles are resampled systematically and the weights become equal. The first copy of a particle continues
    unchanged; because solvers are deterministic, the other copies are its preview with fresh noise at the level of
    `renoise_steps` steps earlier. The winner is the finished particle with the highest score of its final image.

    A preview without a value counts as the lowest of the reward's range, so that no particle gains by it; if the range
    has no lower bound, the particle has weight 0. If no preview of a sample has a value, its weights stay. A particle
    whose editor call failed has weight 0. A larger n can lower the chosen value. If the budget is below the worst case
    (see `nfe_cost`), fewer particles start.
    """

    n: int = 8
    checkpoints: tuple[int, ...] = (2, 4)
    reward_scale: float = 10.0
    potential: Potential = "difference"
    ess_threshold: float = 0.5
    renoise_steps: int = 1

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"a particle filter needs at least one particle, got n={self.n}")
        check_renoising(self.checkpoints, self.renoise_steps)
        if not (self.reward_scale > 0 and math.isfinite(self.reward_scale)):
            raise ValueError(f"reward_scale must be a positive number, got {self.reward_scale}")
        if self.potential not in get_args(Potential):
            raise ValueError(f"potential must be one of {', '.join(get_args(Potential))}, got {self.potential!r}")
        if not 0 <= self.ess_threshold <= 1:
            raise ValueError(f"ess_threshold must lie in [0, 1], got {self.ess_threshold}")

    def nfe_cost(self, nfe: int) -> int:
        """Maximum NFE per sample, with `nfe` per image: one particle replaces all others at each checkpoint."""
        return self._work(self.n, nfe)[0]

    def _work(self, number: int, nfe: int) -> tuple[int, int]:
        renoised = len(self.checkpoints) * (number - 1) * self.renoise_steps
        return number * nfe + renoised, number * (len(self.checkpoints) + 1)

    def __call__(self, run: SelectionRun, samples: Sequence[EditSample]) -> list[Selection]:
        partials, stages, notes = start_within_budget(run, samples, self.n, self.checkpoints, self._work)
        rows = [[Particle(partial) for partial in row] for row in partials]
        dropped: list[list[PartialCandidate]] = [[] for _ in samples]
        for turn, until_step in enumerate(stages):
            advanced = advance_interleaved(run, [[particle.partial for particle in row] for row in rows], until_step)
            rows = [
                [replace(particle, partial=partial) for particle, partial in zip(row, partials_row, strict=True)]
                for row, partials_row in zip(rows, advanced, strict=True)
            ]
            if until_step == run.nfe_per_image:
                break
            for number, sample in enumerate(samples):
                row = self._weighed(rows[number], until_step, run.card.range[0])
                weights = normalize_log_weights([particle.log_weight for particle in row])
                alive = sum(math.isfinite(particle.log_weight) for particle in row)
                if alive and effective_sample_size(weights) < self.ess_threshold * alive:
                    counts = systematic_resample(weights, resampling_uniform(run.seed, sample.id, until_step))
                    dropped[number] += [
                        particle.partial for particle, count in zip(row, counts, strict=True) if not count
                    ]
                    row = self._resampled(run, row, counts, turn)
                rows[number] = row
        selections = []
        for sample, row_dropped, row in zip(samples, dropped, rows, strict=True):
            candidates = [run.to_candidate(one) for one in (*row_dropped, *(particle.partial for particle in row))]
            selections.append(run.make_selection(sample, candidates, len(candidates), notes=notes))
        return selections

    def _weighed(self, row: Sequence[Particle], until_step: int, lowest: float | None) -> list[Particle]:
        """The particles with their weights after this checkpoint. lowest: the lower bound of the reward's range."""
        known = any(one.partial.step == until_step and one.partial.value is not None for one in row)
        particles = []
        for particle in row:
            value = lowest if particle.partial.value is None else particle.partial.value
            is_alive = particle.partial.step == until_step and not particle.partial.error
            if not is_alive or (known and value is None):
                particles.append(replace(particle, log_weight=-math.inf))
            elif known and value is not None:
                particles.append(particle.rewarded(value, self.reward_scale, self.potential))
            else:
                particles.append(particle)
        return particles

    def _resampled(
        self, run: SelectionRun, row: Sequence[Particle], counts: NDArray[np.int64], turn: int
    ) -> list[Particle]:
        """Survivors at their positions, with equal weights; copies at the positions of dropped particles."""
        particles = [replace(particle, log_weight=0.0) for particle in row]
        free = [position for position, count in enumerate(counts) if not count]
        for particle, count in zip(row, counts, strict=True):
            for copy in range(1, count):
                position = free.pop(0)
                candidate_id = f"{particle.partial.request.id}.{turn + 1}.{copy}"
                partial = branch_candidate(
                    particle.partial, candidate_id, run.candidate_noise(position, turn + 2).seed, self.renoise_steps
                )
                particles[position] = replace(particle, partial=partial, log_weight=0.0)
        return particles


@dataclass(frozen=True, slots=True)
class Particle:
    """log_weight: since resampling. log_potential, max_reward: over all checkpoints, those of ancestors included."""

    partial: PartialCandidate
    log_weight: float = 0.0
    log_potential: float = 0.0
    max_reward: float = -math.inf

    def rewarded(self, reward: float, reward_scale: float, potential: Potential) -> Particle:
        peak = max(self.max_reward, reward)
        gain = reward_scale * reward - self.log_potential if potential == "difference" else reward_scale * peak
        return replace(
            self, log_weight=self.log_weight + gain, log_potential=self.log_potential + gain, max_reward=peak
        )


def normalize_log_weights(logs: Sequence[float]) -> NDArray[np.float64]:
    """Weights that sum to 1 from their logarithms; all 0 if all are."""
    top = max(logs, default=-math.inf)
    total = top + math.log(math.fsum(math.exp(log - top) for log in logs)) if math.isfinite(top) else top
    return np.array([math.exp(log - total) if math.isfinite(log) else 0.0 for log in logs])


def effective_sample_size(weights: NDArray[np.float64]) -> float:
    """Effective sample size of normalised weights, from 1 to their number (Kong, Liu and Wong 1994)."""
    return float(1 / np.square(weights).sum())


def systematic_resample(weights: NDArray[np.float64], uniform: float) -> NDArray[np.int64]:
    """Copies of each particle, within 1 of n times its weight (Kitagawa 1996). uniform: random, in [0, 1)."""
    count = len(weights)
    sums = np.cumsum(weights)
    points = np.minimum((uniform + np.arange(count)) / count, _BELOW_ONE)  # the last may round to 1, past the end
    indices = np.searchsorted(sums / sums[-1], points, side="right")
    return np.bincount(indices, minlength=count)


def resampling_uniform(seed: int, sample_id: str, step: int) -> float:
    """The random number of a resampling, which depends on the run's seed, the sample id and the step only."""
    digest = hashlib.sha256(f"{seed} {step} {sample_id}".encode()).digest()
    return float(np.random.default_rng(int.from_bytes(digest[:16], "big")).random())
