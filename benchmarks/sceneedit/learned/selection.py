"""What selection gains on the tiny editor: `python -m editcritic.benchmarks.sceneedit.learned.selection`.

Held-out prompts, several seeds, one reward for every selector and the truth to judge by. All selectors choose among the
same candidates where they can: they share a journal, so that each is charged what it asks for and nothing is made
twice.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ....integrations.diffusers.editor import editor_of
from ....reward import Engine, Reward
from ....verifiers import (
    Adaptive,
    BestOf,
    Editor,
    Halving,
    Journal,
    Particles,
    Paths,
    Selection,
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
_TOP = 1 - 1e-6  # of the reward: what has it cannot be beaten

SINGLE: Mapping[str, Selector] = {
    **{f"best-of-{n}": BestOf(n) for n in (1, 2, 4, 8, N)},
    **{f"adaptive {share:.0%}": Adaptive(N, share) for share in (0.2, 0.3, 0.4, 0.5, 0.6)},
    **{f"adaptive {share:.0%}, no previews": Adaptive(N, share, preview=0) for share in (0.4, 0.5)},
    "halving (1: 4)": Halving(N, (1,), (4,)),
    "halving (1: 8, 2: 4)": Halving(N, (1, 2), (8, 4)),
    "halving (1: 8, 3: 4)": Halving(N, (1, 3), (8, 4)),
    "halving (2: 4)": Halving(N, (2,), (4,)),
    "zero-order": ZeroOrder(neighbours=4, rounds=3, radius=0.5),
    "paths": Paths(paths=4, branches=2),
    "particles": Particles(n=8),
}

COMPOUND: Mapping[str, Selector] = {f"sequential, N = {n}": Sequential(n) for n in (1, 4)}


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
        low, high = np.quantile(gain[rows].sum(axis=1) / whole[rows].sum(axis=1), (0.025, 0.975))
        return float(gain.sum() / whole.sum()), float(low), float(high)


def interval(values: NDArray[np.float64]) -> tuple[float, float, float]:
    """Mean and 95 % bootstrap interval."""
    rows = np.random.default_rng(0).integers(0, len(values), (_DRAWS, len(values)))
    low, high = np.quantile(values[rows].mean(axis=1), (0.025, 0.975))
    return float(values.mean()), float(low), float(high)


class Bench:
    """The editor and the reward that all selectors share."""

    def __init__(self, editor: Editor, reward: str, journal: Journal) -> None:
        self.editor = editor
        self.journal = journal
        self._experts = experts()
        self._engine = Engine(log=journal.log)
        self.reward = Reward.of(reward, self._experts, engine=self._engine, on_failures="none")

    def run(self, selector: Selector, trials: Sequence[Trial], whole: int) -> tuple[list[Outcome], list[Selection]]:
        """whole: evaluations of every candidate of one trial."""
        samples = [trial.sample for trial in trials]
        found = select(selector, samples, editor=self.editor, reward=self.reward, journal=self.journal)
        outcomes = []
        for trial, one in zip(trials, found, strict=True):
            picture = one.picture or trial.sample.source
            spent = one.spent
            outcomes.append(
                Outcome(
                    one.value,
                    trial.followed(picture),
                    spent.evaluations,
                    spent.judge_calls,
                    spent.evaluations / whole,
                )
            )
        return outcomes, list(found)


def studied(bench: Bench, count: int, seeds: Sequence[int], say: Callable[[str], None]) -> Study:
    """Every selector of `SINGLE` on `count` prompts a seed."""
    outcomes: dict[str, list[Outcome]] = {name: [] for name in SINGLE}
    truth, value, best, saturated = [], [], [], []
    for seed in seeds:
        trials = single(count, seed)
        every = select(
            BestOf(N), [trial.sample for trial in trials], editor=bench.editor, reward=bench.reward,
            journal=bench.journal,
        )  # fmt: skip
        for trial, one in zip(trials, every, strict=True):
            values = [candidate.value for candidate in one.candidates if candidate.value is not None]
            pictures = [candidate.picture for candidate in one.candidates if candidate.picture is not None]
            truth.append(np.mean([trial.followed(picture) for picture in pictures]))
            value.append(np.mean(values) if values else 0.0)
            best.append(max(values, default=0.0))
            saturated.append(max(values, default=0.0) >= _TOP or len(set(values)) <= 1)
        for name, selector in SINGLE.items():
            outcomes[name] += bench.run(selector, trials, N * bench.editor.evaluations)[0]
        say(f"seed {seed}: done")
    return Study(outcomes, *map(np.array, (truth, value, best)), np.array(saturated, np.bool_))


def stepwise(bench: Bench, count: int, seeds: Sequence[int], say: Callable[[str], None]) -> dict[str, list[Outcome]]:
    """Every selector of `COMPOUND` on `count` compounds a seed."""
    found: dict[str, list[Outcome]] = {name: [] for name in COMPOUND}
    for seed in seeds:
        trials = compound(count, seed, LEVEL)
        for name, selector in COMPOUND.items():
            found[name] += bench.run(selector, trials, LEVEL * bench.editor.evaluations)[0]
        say(f"seed {seed}, compounds: done")
    return found


def table(study: Study) -> Iterator[str]:
    """Lines of Markdown."""
    yield "| selector | evaluations | truly followed | above one sample (95 %) | gain in reward kept (95 %) |"
    yield "|---|---|---|---|---|"
    for name in study.outcomes:
        lift, low, high = (100 * part for part in study.lift(name))
        kept, least, most = (100 * part for part in study.kept(name))
        yield (
            f"| {name} | {100 * study.share(name):.1f} % | {100 * study.truths(name).mean():.1f} % "
            f"| {lift:+.1f} ({low:+.1f} to {high:+.1f}) | {kept:.1f} % ({least:.1f} to {most:.1f}) |"
        )
    yield ""
    yield (
        f"One sample: {100 * study.one_truth.mean():.1f} % truly followed. {int(study.saturated.sum())} of "
        f"{len(study.saturated)} trials saturate and are left out of the gain kept."
    )


def steps_table(found: Mapping[str, Sequence[Outcome]]) -> Iterator[str]:
    """Lines of Markdown about compounds: the share of steps followed, and compounds with every step followed."""
    if not found:
        return
    yield ""
    yield f"| selector, C{LEVEL} | evaluations of one chain | steps truly followed | all of them | above the first (95 %) |"
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
    parser.add_argument("--prompts", type=int, default=90, help="of each seed, task types in turn (default: 90)")
    parser.add_argument("--compounds", type=int, default=60, help="of each seed (default: 60)")
    parser.add_argument("--seeds", type=int, default=3, help="how many (default: 3)")
    parser.add_argument("--reward", default="edit-balanced?reader=false", help="what selectors go by")
    parser.add_argument("--journal", type=Path, help="a folder that outlives an interruption")
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--plot", type=Path, help="draw quality against evaluations there (PNG)")
    given = parser.parse_args(arguments)
    seeds = range(given.seeds)
    with Journal(given.journal) as journal:
        bench = Bench(editor_of(load()), given.reward, journal)
        study = studied(bench, given.prompts, seeds, _note)
        steps = stepwise(bench, given.compounds, seeds, _note) if given.compounds else {}
    print("\n".join([*table(study), *steps_table(steps)]), flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(figures(study, steps), indent=1) + "\n", encoding="utf-8")
    if given.plot is not None:
        plot(study, given.plot)


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
