"""Search over the noise that pictures are made from (Ma et al. 2025, Inference-Time Scaling for Diffusion Models beyond
Scaling Denoising Steps, figure 2).

Of the paper's three algorithms, random search is `best_of.BestOf`. Zero-order search and search over paths are here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..reward import EditSample
from .candidate import Candidate, Selection
from .editor import StepwiseEditor
from .halving import check_checkpoints, fit, in_turn, ranked, stages
from .making import Staged, Want
from .run import Run


@dataclass(frozen=True)
class ZeroOrder:
    """Zero-order search: from a pivot to the best of its neighbours, round by round.

    The best of `starts` candidates (the paper: one) is the pivot. Each round makes `neighbours` of the pivot's noise,
    as far away as `radius` in (0, 1] says (see `Noise`; the correlation with the pivot is sqrt(1 - radius^2)), and
    the best becomes the pivot where its value is higher. So no round lowers the value, and more rounds never do. It is
    a local search: from one start it needs many rounds to reach what best-of-n finds. Makes whole pictures only, but
    needs a stepwise editor, for no other can start from given noise.
    """

    neighbours: int = 4
    rounds: int = 3
    radius: float = 0.5
    starts: int = 1

    def __post_init__(self) -> None:
        if min(self.neighbours, self.rounds, self.starts) < 1:
            raise ValueError(
                "a search takes one neighbour, one round and one start or more, got "
                f"{self.neighbours}, {self.rounds} and {self.starts}"
            )
        if not 0 < self.radius <= 1:
            raise ValueError(f"a radius is in (0, 1], got {self.radius}")

    @property
    def candidates(self) -> int:
        """How many there are of a sample."""
        return self.starts + self.rounds * self.neighbours

    def cost(self, evaluations: int) -> int:
        """Denoiser evaluations a sample, with an editor that takes so many for a picture."""
        return self.candidates * evaluations

    def __call__(self, run: Run, samples: Sequence[EditSample]) -> list[Selection]:
        if not isinstance(run.editor, StepwiseEditor):
            raise TypeError(f"{run.editor.id} cannot start from given noise: use BestOf, which needs seeds only")
        pivots = [run.want(sample, 0) for sample in samples]
        found = run.rounds([[run.want(sample, number) for number in range(self.starts)] for sample in samples])
        for turn in range(self.rounds):
            if run.ended:
                break
            pivots = [_best(pivot, made) for pivot, made in zip(pivots, found, strict=True)]
            around = run.rounds([self._around(run, pivot, turn) for pivot in pivots])
            found = [[*made, *new] for made, new in zip(found, around, strict=True)]
        return [run.selection(sample, made, self.candidates) for sample, made in zip(samples, found, strict=True)]

    def _around(self, run: Run, pivot: Want, turn: int) -> list[Want]:
        """Seeds of a round are a step's apart from those of others, so that none is drawn twice."""
        return [
            replace(
                pivot,
                id=f"{turn + 1}.{number}",
                noise=pivot.noise.near(run.noise(number, turn + 2).seed, self.radius),
                parent=pivot.id,
            )
            for number in range(self.neighbours)
        ]


@dataclass(frozen=True)
class Paths:
    """Search over paths: at each checkpoint the best candidates so far branch, and go on under other noise.

    `paths` candidates come to the first checkpoint. There, each gets fresh noise on its preview, as much as there is
    `back` steps earlier, in `branches` ways, and these come to the next checkpoint, where the best `paths` of them by
    their previews branch again; after the last checkpoint all branches are finished, and the best picture wins.
    The paper puts the noise on the noisy latents themselves; here it is put on the preview, which is the same kind of
    step and works with any solver. Previews are ranked as in `Halving`.

    More paths can lower the chosen value, for a preview can promise too much. A budget too small for the plan begins
    fewer of them; where there is no room for branches, one plain candidate.
    """

    paths: int = 4
    branches: int = 2
    checkpoints: tuple[int, ...] = (2, 4)
    back: int = 1

    def __post_init__(self) -> None:
        if self.paths < 1 or self.branches < 1:
            raise ValueError(f"a search takes one path and one branch or more, got {self.paths} and {self.branches}")
        check_checkpoints(self.checkpoints)
        if not self.checkpoints or not 0 <= self.back < self.checkpoints[0]:
            raise ValueError(
                f"back is 0 or more and less than the first checkpoint, for at step 0 there is nothing left of a "
                f"preview: got back={self.back} and checkpoints {self.checkpoints}"
            )

    def cost(self, evaluations: int) -> int:
        """Denoiser evaluations a sample, with an editor that takes so many for a picture."""
        return self._work(self.paths, evaluations)[0]

    def _work(self, number: int, evaluations: int) -> tuple[int, int]:
        """Denoiser evaluations, and pictures that are scored, of so many paths."""
        way = evaluations - self.checkpoints[0] + len(self.checkpoints) * self.back
        scores = number * (1 + self.branches * len(self.checkpoints))
        return number * (self.checkpoints[0] + self.branches * way), scores

    def __call__(self, run: Run, samples: Sequence[EditSample]) -> list[Selection]:
        begun = [[Staged(run.want(sample, number)) for number in range(self.paths)] for sample in samples]
        ends = stages(run, self.checkpoints)
        rows, ends, notes = fit(run, begun, ends, lambda paths: self._work(paths, run.steps))
        paths = len(rows[0])
        left: list[list[Staged]] = [[] for _ in samples]
        for turn, until in enumerate(ends):
            rows = in_turn(run, rows, until)
            for gone, row in zip(left, rows, strict=True):
                gone += row
            if until < run.steps:
                rows = [self._branches(run, ranked(row, until)[:paths], turn) for row in rows]
        found = [[run.candidate(one) for one in row] for row in left]
        count = self.paths * (1 + self.branches * len(self.checkpoints))
        return [run.selection(sample, row, count, notes=notes) for sample, row in zip(samples, found, strict=True)]

    def _branches(self, run: Run, kept: Sequence[Staged], turn: int) -> list[Staged]:
        found = []
        for place, one in enumerate(kept):
            for branch in range(self.branches):
                seed = run.noise(place * self.branches + branch, turn + 2).seed
                found.append(branched(one, f"{one.want.id}.{branch}", seed, self.back))
        return found


def branched(one: Staged, name: str, seed: int, back: int) -> Staged:
    """Another way on from a candidate's preview, from so many steps back."""
    noise = one.want.noise.again(seed, seen=one.step, back=one.step - back)
    return Staged(replace(one.want, id=name, noise=noise, parent=one.want.id), noise.start)


def _best(pivot: Want, made: Sequence[Candidate]) -> Want:
    """The noise of the best candidate so far, the earliest of equals; the pivot where none has a value."""
    valued = [one for one in made if one.value is not None]
    if not valued:
        return pivot
    best = max(valued, key=lambda one: one.value or 0.0)
    return replace(pivot, id=best.id, noise=best.noise)
