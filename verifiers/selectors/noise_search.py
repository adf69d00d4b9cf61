"""Zero-order search and search over paths (Ma et al. 2025, Inference-Time Scaling for Diffusion Models, figure 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...reward import EditSample
from ..selection.candidate import Candidate, Selection
from ..selection.editor import StepwiseEditor
from ..selection.generation import CandidateRequest, PartialCandidate
from ..selection.selection_run import SelectionRun
from .halving import advance_interleaved, check_renoising, rank_by_preview, select_among, start_within_budget


@dataclass(frozen=True)
class ZeroOrderSearch:
    """Zero-order search: moves from a pivot to the best of its neighbours, round by round.

    The best of `num_starts` candidates (the paper: one) is the pivot. Each round generates `neighbours` at distance
    `radius` in (0, 1] from the pivot's noise (see `NoiseSpec`; the correlation is sqrt(1 - radius^2)); the best becomes
    the pivot if its value is higher. More rounds never lower the value. As a local search, it needs many rounds from
    one start to reach best-of-n. It generates final images only, but needs a `StepwiseEditor`, because other editors
    cannot start from given noise.
    """

    neighbours: int = 4
    rounds: int = 3
    radius: float = 0.5
    num_starts: int = 1

    def __post_init__(self) -> None:
        if min(self.neighbours, self.rounds, self.num_starts) < 1:
            raise ValueError(
                "zero-order search needs at least one neighbour, one round and one start, got "
                f"{self.neighbours}, {self.rounds} and {self.num_starts}"
            )
        if not 0 < self.radius <= 1:
            raise ValueError(f"radius must lie in (0, 1], got {self.radius}")

    @property
    def candidates(self) -> int:
        """Number of candidates per sample."""
        return self.num_starts + self.rounds * self.neighbours

    def nfe_cost(self, nfe: int) -> int:
        """NFE per sample, with `nfe` per image."""
        return self.candidates * nfe

    def __call__(self, run: SelectionRun, samples: Sequence[EditSample]) -> list[Selection]:
        if not isinstance(run.editor, StepwiseEditor):
            raise TypeError(f"{run.editor.id} cannot start from given noise: use BestOfN, which needs seeds only")
        pivots = [run.request(sample, 0) for sample in samples]
        rows = run.generate_interleaved(
            [[run.request(sample, number) for number in range(self.num_starts)] for sample in samples]
        )
        for round_index in range(self.rounds):
            if run.stop_reason:
                break
            pivots = [_best_pivot(pivot, row) for pivot, row in zip(pivots, rows, strict=True)]
            neighbours = run.generate_interleaved([self._around(run, pivot, round_index) for pivot in pivots])
            rows = [[*row, *added] for row, added in zip(rows, neighbours, strict=True)]
        return [run.make_selection(sample, row, self.candidates) for sample, row in zip(samples, rows, strict=True)]

    def _around(self, run: SelectionRun, pivot: CandidateRequest, round_index: int) -> list[CandidateRequest]:
        """Neighbours of the pivot. Rounds have separate seed ranges, so that no noise is sampled twice."""
        seeds = [run.candidate_noise(number, round_index + 2).seed for number in range(self.neighbours)]
        noises = [pivot.noise.perturbed(seed, self.radius) for seed in seeds]
        names = [f"{round_index + 1}.{number}" for number in range(self.neighbours)]
        return [
            replace(pivot, id=name, noise=noise, parent=pivot.id) for name, noise in zip(names, noises, strict=True)
        ]


@dataclass(frozen=True)
class SearchOverPaths:
    """Search over paths: at each checkpoint the best candidates branch under fresh noise.

    `num_paths` candidates advance to the first checkpoint. There, the preview of each is re-noised to the level of
    `renoise_steps` steps earlier in `branching_factor` ways. These branches advance to the next checkpoint, where the
    best `num_paths` by their previews branch again. After the last checkpoint all branches are finished, and the best
    image wins. The paper adds the noise to the noisy latents; here it is added to the preview, which is the same kind
    of step and works with any solver. Previews are ranked as in `SuccessiveHalving`.

    More paths can lower the chosen value, because a preview can overestimate. If the budget is too small for the plan,
    fewer paths start; if it allows no branches, one plain candidate is generated.
    """

    num_paths: int = 4
    branching_factor: int = 2
    checkpoints: tuple[int, ...] = (2, 4)
    renoise_steps: int = 1

    def __post_init__(self) -> None:
        if self.num_paths < 1 or self.branching_factor < 1:
            raise ValueError(
                f"search over paths needs num_paths >= 1 and branching_factor >= 1, got {self.num_paths} and "
                f"{self.branching_factor}"
            )
        check_renoising(self.checkpoints, self.renoise_steps)

    def nfe_cost(self, nfe: int) -> int:
        """NFE per sample, with `nfe` per image."""
        return self._work(self.num_paths, nfe)[0]

    def _work(self, number: int, nfe: int) -> tuple[int, int]:
        """NFE and scored images for `number` paths, with `nfe` per image."""
        steps = nfe - self.checkpoints[0] + len(self.checkpoints) * self.renoise_steps
        scores = number * (1 + self.branching_factor * len(self.checkpoints))
        return number * (self.checkpoints[0] + self.branching_factor * steps), scores

    def __call__(self, run: SelectionRun, samples: Sequence[EditSample]) -> list[Selection]:
        rows, stages, notes = start_within_budget(run, samples, self.num_paths, self.checkpoints, self._work)
        num_paths = len(rows[0])
        finished: list[list[PartialCandidate]] = [[] for _ in samples]
        for stage, until_step in enumerate(stages):
            rows = advance_interleaved(run, rows, until_step)
            for row_finished, row in zip(finished, rows, strict=True):
                row_finished += row
            if until_step < run.nfe_per_image:
                rows = [self._branches(run, rank_by_preview(row, until_step)[:num_paths], stage) for row in rows]
        count = self.num_paths * (1 + self.branching_factor * len(self.checkpoints))
        return select_among(run, samples, finished, count, notes)

    def _branches(self, run: SelectionRun, survivors: Sequence[PartialCandidate], stage: int) -> list[PartialCandidate]:
        branches = []
        for position, partial in enumerate(survivors):
            for branch in range(self.branching_factor):
                seed = run.candidate_noise(position * self.branching_factor + branch, stage + 2).seed
                branches.append(branch_candidate(partial, f"{partial.request.id}.{branch}", seed, self.renoise_steps))
        return branches


def branch_candidate(partial: PartialCandidate, candidate_id: str, seed: int, renoise_steps: int) -> PartialCandidate:
    """A branch of a candidate: its preview re-noised to the level of `renoise_steps` steps earlier."""
    noise = partial.request.noise.renoised(seed, preview_step=partial.step, restart_step=partial.step - renoise_steps)
    return PartialCandidate(
        replace(partial.request, id=candidate_id, noise=noise, parent=partial.request.id), noise.start_step
    )


def _best_pivot(pivot: CandidateRequest, candidates: Sequence[Candidate]) -> CandidateRequest:
    """The noise of the best candidate so far, the earliest of equals; the old pivot if there is none."""
    valued = [candidate for candidate in candidates if candidate.value is not None and not candidate.score.rejected]
    if not valued:
        return pivot
    best = max(valued, key=lambda candidate: candidate.value or 0.0)
    return replace(pivot, id=best.id, noise=best.noise)
