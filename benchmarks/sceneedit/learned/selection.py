"""What selection gains on the tiny editor: `python -m editcritic.benchmarks.sceneedit.learned.selection`.

Held-out prompts, several seeds (a process each), one reward for every selector and the truth to judge by. All selectors
choose among the same candidates where they can: they share a journal, so that each is charged what it asks for and
nothing is made twice.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ....integrations.diffusers.editor import editor_of
from ....reward import Engine, Reward
from ....verifiers import (
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
    ZeroOrder,
    select,
)
from ...extras import bench as bench_extra
from ..critics import experts
from .pipeline import load
from .trials import Trial, compound, single

N = 16
LEVEL = 4
_DRAWS = 2_000  # of the bootstrap
NEAR = 0.02
MANY = 4
REWARD = "edit-balanced?reader=false"
COMPOUND_REWARD = "compound?reader=false"

SINGLE: Mapping[str, Selector] = {
    **{f"best-of-{n}": BestOf(n) for n in (1, 2, 4, 8, N)},
    **{f"adaptive {share:.0%}": Adaptive(N, share) for share in (0.2, 0.3, 0.4, 0.5, 0.6)},
    **{f"adaptive {share:.0%}, no previews": Adaptive(N, share, preview=0) for share in (0.4, 0.5)},
    "halving (1: 4)": Halving(N, (1,), (4,)),
    "halving (1: 8, 2: 4)": Halving(N, (1, 2), (8, 4)),
    "halving (1: 8, 3: 4)": Halving(N, (1, 3), (8, 4)),
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
    """outcomes: selector -> a row a trial, seeds one after the other. one: of each trial, the mean truth and reward of
    all candidates, which is what one sample gives. best: the highest reward of all. saturated: which trials' best
    reward cannot be beaten, or have the same reward for every candidate.
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
    reward: str = REWARD
    compound_reward: str = COMPOUND_REWARD

    def done(self) -> tuple[Study, dict[str, list[Outcome]]]:
        """Every selector of `SINGLE` on the prompts and of `COMPOUND` on the compounds."""
        torch.set_num_threads(1)  # processes share the cores
        with Journal(None if self.journal is None else self.journal / f"seed-{self.seed}") as journal:
            editor = editor_of(load(), batch=N)
            engine = Engine(log=journal.log)

            def run(selector: Selector, trials: Sequence[Trial], reward: str) -> Selections:
                scorer = Reward.of(reward, experts(), engine=engine, on_failures="none")
                return select(selector, [one.sample for one in trials], editor=editor, reward=scorer, journal=journal)

            trials = single(self.prompts, self.seed)
            study = _studied(trials, lambda selector: run(selector, trials, self.reward), editor.evaluations)
            chains = compound(self.compounds, self.seed, LEVEL)
            steps = {
                name: _outcomes(chains, run(selector, chains, self.compound_reward), LEVEL * editor.evaluations)
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


def table(study: Study) -> Iterator[str]:
    """Lines of Markdown."""
    yield (
        "| selector | evaluations | truly followed | above one sample (95 %) | gain in reward kept (95 %) "
        "| the same, saturated |"
    )
    yield "|---|---|---|---|---|---|"
    for name in study.outcomes:
        lift, low, high = (100 * part for part in study.lift(name))
        kept, least, most = (100 * part for part in study.kept(name))
        yield (
            f"| {name} | {100 * study.share(name):.1f} % | {100 * study.truths(name).mean():.1f} % "
            f"| {lift:+.1f} ({low:+.1f} to {high:+.1f}) | {kept:.1f} % ({least:.1f} to {most:.1f}) "
            f"| {100 * study.kept(name, saturated=True)[0]:.1f} % |"
        )
    yield ""
    yield (
        f"One sample: {100 * study.one_truth.mean():.1f} % truly followed. {int(study.saturated.sum())} of "
        f"{len(study.saturated)} trials saturate: {MANY} candidates or more within {NEAR} of the best reward. They are "
        "in the last column, the others in the one before it."
    )


def steps_table(found: Mapping[str, Sequence[Outcome]]) -> Iterator[str]:
    """Lines of Markdown about compounds: the share of steps followed, and compounds with every step followed."""
    if not found:
        return
    yield ""
    yield f"| selector, C{LEVEL} | evaluations (one chain: 1) | steps truly followed | all | above the first (95 %) |"
    yield "|---|---|---|---|---|"
    truths = {name: np.array([one.truth for one in rows]) for name, rows in found.items()}
    first = next(iter(truths.values()))
    for name, truth in truths.items():
        share = np.mean([one.share for one in found[name]])
        lift, low, high = (100 * part for part in interval(truth - first))
        yield (
            f"| {name} | {share:.1f} | {100 * truth.mean():.1f} % | {100 * (truth == 1).mean():.1f} % "
            f"| {lift:+.1f} ({low:+.1f} to {high:+.1f}) |"
        )


def figures(study: Study, steps: Mapping[str, Sequence[Outcome]]) -> dict[str, object]:
    """All that the tables say, and the outcome of every trial, as JSON."""
    return {
        "one_sample": {"truth": study.one_truth.tolist(), "value": study.one_value.tolist()},
        "best_of_n": study.best.tolist(),
        "saturated": study.saturated.tolist(),
        "selectors": {
            name: {
                "evaluations": study.share(name),
                "truth": float(study.truths(name).mean()),
                "lift": study.lift(name),
                "kept": study.kept(name),
                "trials": [asdict(one) for one in rows],
            }
            for name, rows in study.outcomes.items()
        },
        "compounds": {name: [asdict(one) for one in rows] for name, rows in steps.items()},
    }


def plot(study: Study, path: Path) -> None:
    """Quality against denoiser evaluations: truth on the left, reward on the right, a line a family of selectors."""
    families: dict[str, list[str]] = {}
    for name in study.outcomes:
        families.setdefault(_family(name), []).append(name)
    pyplot = bench_extra("matplotlib.pyplot")
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    for number, (family, names) in enumerate(families.items()):
        names.sort(key=study.share)
        shares = [100 * study.share(name) for name in names]
        style = {"marker": "os^Dv<>P"[number % 8], "label": family, "linestyle": "-" if len(names) > 1 else "none"}
        axes[0].plot(shares, [100 * study.truths(name).mean() for name in names], **style)
        axes[1].plot(shares, [100 * study.kept(name)[0] for name in names], **style)
    axes[0].axhline(100 * study.one_truth.mean(), color="grey", linewidth=0.8)
    axes[0].set(ylabel="truly followed (%)")
    axes[1].set(ylabel=f"gain in reward of best-of-{N} kept (%)")
    for one in axes:
        one.set(xlabel=f"denoiser evaluations (% of best-of-{N})", xlim=(0, None))
        one.grid(visible=True, alpha=0.3)
    axes[1].legend(fontsize=8)
    figure.savefig(path, dpi=110)


def _family(name: str) -> str:
    if name.startswith("best-of-"):
        return "best of n"
    head, _, rest = name.partition(" ")
    return f"{head}, no previews" if rest.endswith("no previews") else head


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="editcritic.benchmarks.sceneedit.learned.selection", description=__doc__)
    parser.add_argument("--prompts", type=int, default=63, help="of each seed, task types in turn (default: 63)")
    parser.add_argument("--compounds", type=int, default=40, help="of each seed (default: 40)")
    parser.add_argument("--seeds", type=int, default=3, help="how many (default: 3)")
    parser.add_argument("--journal", type=Path, help="a folder, to go on from after an interruption")
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--plot", type=Path, help="draw quality against evaluations there (PNG)")
    given = parser.parse_args(arguments)
    works = [Work(seed, given.prompts, given.compounds, given.journal) for seed in range(given.seeds)]
    with ProcessPoolExecutor(min(len(works), os.cpu_count() or 1), get_context("spawn")) as processes:
        found = list(processes.map(Work.done, works))
    study = together([part for part, _ in found])
    steps = {name: [one for _, part in found for one in part[name]] for name in found[0][1]}
    print("\n".join([*table(study), *steps_table(steps)]), flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(figures(study, steps), indent=1) + "\n", encoding="utf-8")
    if given.plot is not None:
        plot(study, given.plot)


if __name__ == "__main__":
    main()
