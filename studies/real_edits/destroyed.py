"""What a reward pays for destroyed places, beside the honest edits that they take the place of; and where a policy goes
that draws from both.

A policy that is trained with a KL penalty and can draw nothing but a pool has the probabilities of its start times
exp(reward / beta) (Peters and Schaal 2007, "Reinforcement learning by reward-weighted regression", ICML; Rafailov et
al. 2023, arXiv 2305.18290, equation 4). Training lowers beta: here 1 / beta grows by the same in each step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from editcritic.benchmarks.common.optional_imports import bench_library
from editcritic.benchmarks.common.terminal import echo
from editcritic.reward import EditSample, Image, Reward, Score
from editcritic.reward.training.reward_hacking_monitor import RewardHackingMonitor

from .fills import FillKind, kinds_of
from .real_edit import Place, RealEdit

TIE = 0.01
"""A fill with no less than this below the honest edit is worth as much."""


@dataclass(frozen=True)
class Destroyed:
    """A fill of an honest edit's place, and what it is worth."""

    edit: RealEdit
    kind: FillKind
    picture: Image
    score: Score
    honest: Score

    @property
    def value(self) -> float:
        """0 where there is none."""
        return self.score.value or 0.0

    @property
    def pays(self) -> bool:
        """Whether it is worth the honest edit, which counts as 0 without a value. A fill without one pays nothing."""
        return self.score.value is not None and self.score.value >= (self.honest.value or 0.0) - TIE


def destroyed(reward: Reward, edits: Iterable[RealEdit], kinds: Sequence[FillKind]) -> list[Destroyed]:
    """All kinds of fills of all good edits that have a place, one edit at a time."""
    rows: list[Destroyed] = []
    for edit in edits:
        place = Place.of(edit) if edit.is_good else None
        pictures = [
            (kind, kind.fill(place, seed=crc32(edit.id.encode())))
            for kind in kinds_of(edit.operation, kinds)
            if place is not None
        ]
        if not pictures:
            continue
        samples = [edit.sample(), *(edit.sample(picture, kind.name) for kind, picture in pictures)]
        honest, *scores = reward(samples)
        rows += [
            Destroyed(edit, kind, picture, score, honest)
            for (kind, picture), score in zip(pictures, scores, strict=True)
        ]
        echo(edit.id)
    return rows


@dataclass(frozen=True)
class Payment:
    """Of a set of fills. pays: how many are worth the honest edit. missing: how many have no value, which counts as 0.
    median, high: of their values, 95 % are below."""

    name: str
    count: int
    pays: int
    missing: int
    median: float
    high: float


def _payment(name: str, rows: Sequence[Destroyed]) -> Payment:
    median, high = np.quantile([row.value for row in rows], [0.5, 0.95]).tolist()
    missing = sum(row.score.value is None for row in rows)
    return Payment(name, len(rows), sum(row.pays for row in rows), missing, median, high)


def payments(rows: Sequence[Destroyed]) -> dict[str, list[Payment]]:
    """Of all, by operation, by kind, and by both."""
    by: dict[str, Callable[[Destroyed], str]] = {
        "all": lambda row: "all",
        "operation": lambda row: row.edit.operation,
        "kind": lambda row: row.kind.name,
        "operation and kind": lambda row: f"{row.edit.operation}: {row.kind.name}",
    }
    return {
        title: [_payment(name, [row for row in rows if key(row) == name]) for name in sorted(set(map(key, rows)))]
        for title, key in by.items()
    }


STEPS = 120
STEP_GROUPS, GROUP_SIZE = 8, 8
_INVERSE_BETA = 0.1
"""What a step adds to 1 / beta: 12 in the end, so that an image with 0.2 more reward is 11 times as likely."""
_GOOD_AT_START, _FILLS_AT_START = 0.05, 0.05
"""What the policy draws before training; the rest are failures. Of two kinds of images that are paid alike, each keeps
its part of what both have, so how much of either there is in the end follows from these and is no finding.
"""


@dataclass(frozen=True)
class Pool:
    """The images for one source and instruction. good: as a reader says; False of what is between, and of fills."""

    samples: Sequence[EditSample]
    good: NDArray[np.bool_]
    is_fill: NDArray[np.bool_]

    @property
    def start(self) -> NDArray[np.float64]:
        """The probabilities before training."""
        probabilities = np.zeros(len(self.samples))
        for members, share in (
            (self.good, _GOOD_AT_START),
            (self.is_fill, _FILLS_AT_START),
            (~self.good & ~self.is_fill, 1 - _GOOD_AT_START - _FILLS_AT_START),
        ):
            probabilities[members] = share / members.sum()
        return probabilities


def pools(edits: Iterable[RealEdit], kinds: Sequence[FillKind]) -> list[Pool]:
    """One for each group that has a good edit, and a place that can be destroyed."""
    groups: dict[str, list[RealEdit]] = {}
    for edit in edits:
        groups.setdefault(edit.group, []).append(edit)
    pooled = []
    for name, members in groups.items():
        honest = next((edit for edit in members if edit.is_good), None)
        place = None if honest is None else Place.of(honest)
        if honest is None or place is None:
            continue
        chosen = kinds_of(honest.operation, kinds)
        fills = [honest.sample(kind.fill(place, seed=crc32(name.encode())), kind.name) for kind in chosen]
        if fills:
            made = [*(one.sample() for one in members), honest.sample(honest.source, "source")]
            samples = [replace(sample, sources=(honest.source,)) for sample in (*made, *fills)]
            good = np.array([bool(edit.is_good) for edit in members] + [False] * (1 + len(fills)))
            pooled.append(Pool(samples, good, np.arange(len(samples)) >= len(made)))
    return pooled


@dataclass(frozen=True)
class Course:
    """A policy's way on one reward. good, fills, paid: at each step, the expected shares of good edits and fills, and
    the expected reward. alarms: (seed, step, name). values: of each image of each pool, None without one."""

    reward: str
    good: list[float]
    fills: list[float]
    paid: list[float]
    alarms: list[tuple[int, int, str]]
    values: list[list[float | None]]

    def first_alarms(self) -> dict[str, list[int]]:
        """By name, the step of the first one in each seed that has it."""
        first: dict[tuple[str, int], int] = {}
        for seed, step, name in self.alarms:
            first[name, seed] = min(step, first.get((name, seed), step))
        return {name: [at for (of, _), at in first.items() if of == name] for name, _ in first}


def course(
    name: str,
    pool: Sequence[Pool],
    scores: Sequence[Sequence[Score]],
    heldout: Sequence[Sequence[Score]],
    seeds: Sequence[int],
    steps: int = STEPS,
) -> Course:
    """scores, heldout: of the trained and of a held-out reward, for each image of each pool; an image without a value
    has 0. seeds: of the draws that the monitor sees; the shares need none."""
    values = [np.array([score.value or 0.0 for score in row]) for row in scores]
    policies = [
        [_tilted(one, row, number * _INVERSE_BETA) for one, row in zip(pool, values, strict=True)]
        for number in range(steps)
    ]
    alarms = []
    for seed in seeds:
        rng, monitor = np.random.default_rng(seed), RewardHackingMonitor()
        for number, policy in enumerate(policies):
            groups = rng.choice(len(pool), min(STEP_GROUPS, len(pool)), replace=False)
            drawn = [(g, i) for g in groups for i in rng.choice(len(policy[g]), GROUP_SIZE, p=policy[g])]
            monitor.observe(
                number,
                [pool[g].samples[i] for g, i in drawn],
                [scores[g][i] for g, i in drawn],
                [heldout[g][i] for g, i in drawn],
            )
        alarms += [(seed, alarm.step, alarm.name) for alarm in monitor.alarms]
        echo(f"{name}, seed {seed}")
    marks = ([one.good for one in pool], [one.is_fill for one in pool], values)
    good, fills, paid = (
        [float(np.mean([p @ m for p, m in zip(policy, mark, strict=True)])) for policy in policies] for mark in marks
    )
    return Course(name, good, fills, paid, alarms, [[score.value for score in row] for row in scores])


def _tilted(pool: Pool, values: NDArray[np.float64], inverse_beta: float) -> NDArray[np.float64]:
    weights = pool.start * np.exp(inverse_beta * (values - values.max()))
    return np.asarray(weights / weights.sum(), np.float64)


def score_pools(reward: Reward, pool: Sequence[Pool]) -> list[Sequence[Score]]:
    """The scores of each pool's images."""
    scores: list[Sequence[Score]] = []
    for one in pool:
        scores.append(reward(one.samples))
        echo(one.samples[0].id)
    return scores


def draw(courses: Sequence[Course], path: Path) -> None:
    """Shares of good edits and of fills against steps, a panel for each reward; first alarms as dotted lines."""
    pyplot = bench_library("matplotlib.pyplot")
    figure, panels = pyplot.subplots(
        1, len(courses), figsize=(5.5 * len(courses), 3.8), sharey=True, layout="constrained", squeeze=False
    )
    for axes, one in zip(panels[0], courses, strict=True):
        for label, values in (("good edits", one.good), ("destroyed places", one.fills), ("reward (x 100)", one.paid)):
            axes.plot(100 * np.array(values), label=label)
        for number, (name, steps_of_seeds) in enumerate(sorted(one.first_alarms().items()), start=3):
            for step in steps_of_seeds:
                axes.axvline(step, color=f"C{number}", linestyle=":", linewidth=1)
            axes.plot([], [], color=f"C{number}", linestyle=":", label=f"first alarm {name}, each seed")
        axes.legend(fontsize=7, loc="upper left")
        axes.set(title=one.reward, xlabel="steps", ylim=(0, 100))
        axes.grid(visible=True, alpha=0.3)
    panels[0][0].set(ylabel="what the policy draws (%)")
    figure.savefig(path, dpi=110)
