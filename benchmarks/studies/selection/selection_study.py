"""What selectors gain on the tiny editor: the same reward for all of them, and the truth to judge by.

All choose among the same candidates where they can: they share a journal, so that each is charged what it asks for and
nothing is made twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...reward import Engine, Reward
from ...reward.spec import Spec
from ...verifiers import (
    Adaptive,
    Beam,
    BestOf,
    Halving,
    Journal,
    Particles,
    Paths,
    Selections,
    Selector,
    Sequential,
    StepwiseEditor,
    ZeroOrder,
    select,
)
from ..sceneedit.critics import experts
from .own_noise import OwnNoise
from .trials import Trial, compound, single

FIRST = 10
"""The first seed that is reported: on those before it the reward and the selectors were tried."""
N = 16
LEVEL = 4
_DRAWS = 2_000  # of the bootstrap
NEAR = 0.02
MANY = 4
REWARD: Spec = {"use": "gate", "guard": {"use": "guards", "reader": False}, "reward": {"use": "judge-yes-no"}}
"""A judge's probability that the instruction was followed, behind the guards. Chosen on seeds 0 to 2."""
COMPOUND_REWARD = "compound?reader=false"

SINGLE: Mapping[str, Selector] = {
    **{f"best-of-{n}": BestOf(n) for n in (1, 2, 4, 8, N)},
    **{f"adaptive {share:.0%}": Adaptive(N, share) for share in (0.2, 0.3, 0.4, 0.5, 0.6)},
    **{f"adaptive {share:.0%}, previews": Adaptive(N, share, preview=1) for share in (0.2, 0.3, 0.4, 0.5, 0.6)},
    "halving (1: 4)": Halving(N, (1,), (4,)),
    "halving (1: 6)": Halving(N, (1,), (6,)),
    "halving (1: 8, 2: 4)": Halving(N, (1, 2), (8, 4)),
    "halving (2: 4)": Halving(N, (2,), (4,)),
    "zero-order": ZeroOrder(neighbours=4, rounds=3, starts=4),
    "paths": Paths(paths=4, branches=2),
    "particles": Particles(n=8),
}

COMPOUND: Mapping[str, Selector] = {
    **{f"sequential, N = {n}": Sequential(n) for n in (1, 4)},
    "beam of 2, N = 4": Beam(2, 4),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a selector chose for one trial. value: the reward, None without a choice. truth: of the picture, in [0, 1].

    share: denoiser evaluations, as a share of those of every candidate.
    """

    value: float | None
    truth: float
    evaluations: int
    judge_calls: int
    share: float


@dataclass(frozen=True)
class Study:
    """outcomes: selector -> a row a trial, seeds one after the other. one_truth, one_value: of each trial, the mean of
    all candidates' truths and rewards, which is what one sample gives. best: the highest reward of all.

    saturated: of which trials so many candidates share the best reward, `MANY` of them within `NEAR` of it, that
    whoever finds any of them has it.
    """

    outcomes: Mapping[str, Sequence[Outcome]]
    one_truth: NDArray[np.float64]
    one_value: NDArray[np.float64]
    best: NDArray[np.float64]
    saturated: NDArray[np.bool_]

    def truths(self, name: str) -> NDArray[np.float64]:
        return np.array([one.truth for one in self.outcomes[name]])

    def values(self, name: str) -> NDArray[np.float64]:
        """Rewards of what was chosen; where nothing was, of one sample."""
        rows = zip(self.outcomes[name], self.one_value, strict=True)
        return np.array([one if row.value is None else row.value for row, one in rows])

    def share(self, name: str) -> float:
        """Of the evaluations of best-of-n, over all trials."""
        return float(np.mean([one.share for one in self.outcomes[name]]))

    def lift(self, name: str) -> tuple[float, float, float]:
        """Truth above that of one sample: mean and 95 % interval over trials."""
        return interval(self.truths(name) - self.one_truth)

    def kept(self, name: str, *, saturated: bool = False) -> tuple[float, float, float]:
        """Share of best-of-n's gain in reward over one sample that is kept: over the trials that do not saturate, or
        over those that do.
        """
        chosen = self.saturated if saturated else ~self.saturated
        gain, whole = (self.values(name) - self.one_value)[chosen], (self.best - self.one_value)[chosen]
        if not len(gain):
            return (float("nan"),) * 3
        rows = np.random.default_rng(0).integers(0, len(gain), (_DRAWS, len(gain)))
        sums = gain[rows].sum(axis=1), whole[rows].sum(axis=1)
        low, high = np.quantile(sums[0][sums[1] > 0] / sums[1][sums[1] > 0], (0.025, 0.975))
        return float(gain.sum() / whole.sum()), float(low), float(high)


def interval(values: NDArray[np.float64]) -> tuple[float, float, float]:
    """Mean and 95 % bootstrap interval."""
    rows = np.random.default_rng(0).integers(0, len(values), (_DRAWS, len(values)))
    low, high = np.quantile(values[rows].mean(axis=1), (0.025, 0.975))
    return float(values.mean()), float(low), float(high)


@dataclass(frozen=True)
class Work:
    """What one process does: a seed of the study. Everything in it can be sent to another process."""

    seed: int
    prompts: int
    compounds: int
    journal: Path | None

    def done(self) -> tuple[Study, dict[str, list[Outcome]]]:
        """Every selector of `SINGLE` on the prompts and of `COMPOUND` on the compounds."""
        import torch

        from ...integrations.diffusers.editor import editor_of
        from ..sceneedit.learned.pipeline import load

        torch.set_num_threads(1)  # processes share the cores
        with Journal(None if self.journal is None else self.journal / f"seed-{self.seed}") as journal:
            editor = editor_of(load(), batch=N)
            assert isinstance(editor, StepwiseEditor)
            editor = OwnNoise(editor)
            engine = Engine(log=journal.log)

            def run(selector: Selector, trials: Sequence[Trial], reward: Spec) -> Selections:
                scorer = Reward.of(reward, experts(), engine=engine, on_failures="none")
                return select(selector, [one.sample for one in trials], editor=editor, reward=scorer, journal=journal)

            trials = single(self.prompts, self.seed)
            study = _studied(trials, lambda selector: run(selector, trials, REWARD), editor.evaluations)
            chains = compound(self.compounds, self.seed, LEVEL)
            steps = {
                name: _outcomes(chains, run(selector, chains, COMPOUND_REWARD), LEVEL * editor.evaluations)
                for name, selector in COMPOUND.items()
                if chains
            }
            return study, steps


def _studied(trials: Sequence[Trial], run: Callable[[Selector], Selections], evaluations: int) -> Study:
    truth, value, best, plain = [], [], [], []
    for trial, one in zip(trials, run(BestOf(N)), strict=True):
        values = np.array([candidate.value for candidate in one.candidates if candidate.value is not None])
        pictures = [candidate.picture for candidate in one.candidates if candidate.picture is not None]
        truth.append(np.mean([trial.followed(picture) for picture in pictures]))
        value.append(values.mean() if len(values) else 0.0)
        best.append(values.max() if len(values) else 0.0)
        plain.append((values >= best[-1] - NEAR).sum() >= MANY or not len(values))
    one_truth = np.array(truth)
    found = {name: _outcomes(trials, run(selector), N * evaluations, one_truth) for name, selector in SINGLE.items()}
    return Study(found, one_truth, np.array(value), np.array(best), np.array(plain, np.bool_))


def _outcomes(
    trials: Sequence[Trial], found: Selections, whole: int, one: NDArray[np.float64] | None = None
) -> list[Outcome]:
    """whole: evaluations of every candidate of one trial. one: what stands for a choice where none was made."""
    outcomes = []
    for number, (trial, selection) in enumerate(zip(trials, found, strict=True)):
        picture, spent = selection.picture, selection.spent
        truth = trial.followed(picture or trial.sample.source) if picture or one is None else float(one[number])
        outcomes.append(
            Outcome(selection.value, truth, spent.evaluations, spent.judge_calls, spent.evaluations / whole)
        )
    return outcomes


def together(parts: Sequence[Study]) -> Study:
    """Studies of several seeds as one."""
    return Study(
        {name: [one for part in parts for one in part.outcomes[name]] for name in parts[0].outcomes},
        np.concatenate([part.one_truth for part in parts]),
        np.concatenate([part.one_value for part in parts]),
        np.concatenate([part.best for part in parts]),
        np.concatenate([part.saturated for part in parts]),
    )
