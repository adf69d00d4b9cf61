"""How much a preview says about the picture, measured for one editor and one reward."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..reward import AnyReward, EditSample, SpecError, TooManyFailures
from .editor import EditorFailed, StepwiseEditor
from .halving import Halving, Rows, check_checkpoints, in_turn, stages
from .journal import Journal
from .making import Staged
from .planning import Plan, Values, best_plan, order
from .run import Run, RunStopped

SCHEMA = 1
"""Version of the JSON form of calibrations."""

SHARES = (0.5, 0.25, 0.125)
"""Of the candidates, how many are kept by their previews: what the table is about."""

_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over samples, with the 95 % interval of a bootstrap over them; without interval for one sample."""

    value: float
    low: float | None = None
    high: float | None = None

    @staticmethod
    def of(values: Sequence[float] | NDArray[Any]) -> Mean | None:
        """None of none."""
        found = np.asarray(values, float)
        if len(found) < 2:
            return Mean(float(found[0])) if len(found) else None
        drawn = np.random.default_rng(0).integers(0, len(found), (_RESAMPLES, len(found)))
        low, high = np.quantile(found[drawn].mean(axis=1), (0.025, 0.975))
        return Mean(float(found.mean()), float(low), float(high))

    def __str__(self) -> str:
        return f"{self.value:.3g}" + ("" if self.low is None else f" [{self.low:.3g}, {self.high:.3g}]")


@dataclass(frozen=True, slots=True)
class Preview:
    """What previews at one step say, over the samples whose finished pictures differ in value; None without any.

    spearman: rank correlation with the finished pictures' values, within a sample; 0 where all previews are equal.
    best: how often the best picture, or one as good, is among the top share of previews (`SHARES`). regret: how much
    lower the best of that share is, in units of the reward; of a share in which none has a value, as for the worst.
    samples, pairs: how many samples, and candidates with a value both as a preview and finished, this rests on.
    """

    step: int
    spearman: Mean | None
    best: tuple[Mean | None, ...]
    regret: tuple[Mean | None, ...]
    samples: int
    pairs: int


@dataclass(frozen=True)
class Calibration:
    """The values of all previews of all candidates, as `calibrate` recorded them.

    steps: those looked at; the last one is the finished picture. values: sample id -> a row a candidate, in the order
    of their seeds, and a column a step; None where a score failed or abstained. Candidates for which the editor failed
    are not in it; there are `failed` of them.
    """

    editor: str
    reward: Mapping[str, Any]
    steps: tuple[int, ...]
    values: Mapping[str, tuple[tuple[float | None, ...], ...]]
    failed: int = 0
    seed: int = 0
    versions: Mapping[str, str] | None = None

    @property
    def telling(self) -> dict[str, Values]:
        """The samples that say something: those of whose finished pictures two differ in value."""
        arrays = {name: np.array(rows, float).reshape(-1, len(self.steps)) for name, rows in self.values.items()}
        return {name: found for name, found in arrays.items() if len(np.unique(_valued(found[:, -1]))) > 1}

    @property
    def flat(self) -> list[str]:
        """The samples whose finished pictures all have one value, or none: they are counted nowhere else."""
        told = self.telling
        return [name for name in self.values if name not in told]

    def at(self, step: int) -> Preview:
        """What previews at this step say. Raises ValueError for a step that was not looked at."""
        column = self._column(step)
        found = [(rows[:, column], rows[:, -1]) for rows in self.telling.values()]
        lost = [[_regret(looks, finals, share) for looks, finals in found] for share in SHARES]
        return Preview(
            step,
            Mean.of([spearman(looks, finals) for looks, finals in found]),
            tuple(Mean.of([one == 0 for one in part]) for part in lost),
            tuple(Mean.of(part) for part in lost),
            len(found),
            sum(int((np.isfinite(looks) & np.isfinite(finals)).sum()) for looks, finals in found),
        )

    def table(self) -> str:
        """In Markdown: a row a step, with 95 % intervals."""
        shares = [f"top 1/{round(1 / share)}" for share in SHARES]
        heads = ["step", "Spearman", *(f"best in {name}" for name in shares), *(f"regret of {name}" for name in shares)]
        lines = [[*heads, "pairs"], ["---:"] * (len(heads) + 1)]
        for step in self.steps[:-1]:
            seen = self.at(step)
            cells = [str(mean or "–") for mean in (seen.spearman, *seen.best, *seen.regret)]
            lines.append([f"{step} of {self.steps[-1]}", *cells, str(seen.pairs)])
        told = len(self.telling)
        note = (
            f"{self.editor}, {self.reward['metric']}: {told} of {len(self.values)} samples; the candidates of the "
            f"others are all worth the same. {self.failed} candidates failed."
        )
        return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{note}\n"

    def plot(self, path: str | Path) -> None:
        """Rank correlation and regret by step, as an image file. Raises ImportError where matplotlib is missing."""
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError("matplotlib is needed here: pip install 'editcritic[bench]'") from error
        seen = [self.at(step) for step in self.steps]
        figure = Figure(figsize=(10, 4), layout="constrained")
        left, right = figure.subplots(1, 2)
        _line(left, self.steps, [one.spearman for one in seen], "")
        left.set(xlabel="evaluations", ylabel="Spearman of preview and picture")
        for number, share in enumerate(SHARES):
            _line(right, self.steps, [one.regret[number] for one in seen], f"top 1/{round(1 / share)} kept")
        right.set(xlabel="evaluations", ylabel="regret against best-of-n")
        right.legend()
        figure.savefig(path)

    def chosen(self, halving: Halving) -> dict[str, float | None]:
        """By sample, the value of what this halving would choose: exact for a deterministic editor and reward.

        Raises ValueError for checkpoints that were not looked at, or more candidates than there are.
        """
        columns = [self._column(step) for step in halving.checkpoints]
        found: dict[str, float | None] = {}
        for name, rows in self.values.items():
            if len(rows) < halving.n:
                raise ValueError(f"{name} has {len(rows)} candidates, and the plan begins {halving.n}")
            values = np.array(rows, float)
            going = np.arange(halving.n)
            for column, count in zip(columns, halving.counts(halving.n), strict=True):
                going = going[np.sort(order(values[going, column])[:count])]
            left = _valued(values[going, -1])
            found[name] = float(left.max()) if len(left) else None
        return found

    def plan(self, n: int = 16, share: float = 0.5, *, most_checkpoints: int = 2) -> Plan:
        """The halving that loses least against best-of-n with at most `share` of its evaluations.

        Tried are n, n/2, n/4, ... candidates, up to `most_checkpoints` checkpoints among the steps looked at, all
        counts to keep up to 8 and a few beyond; and best-of-m with fewer candidates, which wins where previews say
        little. Each is carried out on the recorded values of the samples that have n candidates and differ; among
        equals the cheapest is taken. Raises ValueError where there are no such samples, or nothing fits.
        """
        told = [rows[:n] for rows in self.telling.values() if len(rows) >= n]
        told = [rows for rows in told if np.isfinite(rows[:, -1]).any()]
        if n < 1 or not told:
            raise ValueError(f"there is nothing to plan by: no sample has {n} candidates that differ in value")
        return best_plan(np.stack(told), self.steps, share, most_checkpoints)

    def save(self, path: str | Path) -> None:
        """As JSON."""
        path = Path(path)
        half = path.with_name(f".{os.getpid()}-{path.name}")
        half.write_text(json.dumps({"schema": SCHEMA, **asdict(self)}, allow_nan=False), encoding="utf-8")
        half.replace(path)

    @staticmethod
    def load(path: str | Path) -> Calibration:
        """Raises OSError, or ValueError where it is not a calibration that this version reads."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
            if data.pop("schema") != SCHEMA:
                raise ValueError(f"{path} is of another version: this one reads schema {SCHEMA}")
            data["steps"] = tuple(data["steps"])
            data["values"] = {name: tuple(map(tuple, rows)) for name, rows in data["values"].items()}
            return Calibration(**data)
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
            raise ValueError(f"{path} is not a calibration: {error}") from None

    def _column(self, step: int) -> int:
        if step not in self.steps:
            raise ValueError(f"step {step} was not looked at: there are {', '.join(map(str, self.steps))}")
        return self.steps.index(step)


def calibrate(
    editor: StepwiseEditor,
    reward: AnyReward,
    samples: Sequence[EditSample],
    *,
    n: int = 16,
    steps: Sequence[int] | None = None,
    journal: Journal | None = None,
    seed: int = 0,
) -> Calibration:
    """Make `n` candidates of each sample, and score what they look like at each of these steps (default: all).

    Takes n times the editor's evaluations for each sample, and as many scores as steps. The candidates are those of
    `select` with the same seed; with the same journal what was made here is not made again. Raises ValueError,
    TypeError for an editor that cannot stop half-way, and `RunStopped` where the editor or the reward is down.
    """
    if n < 2:
        raise ValueError(f"candidates are compared with each other: make two or more of each sample, got {n}")
    looked = tuple(range(1, editor.evaluations) if steps is None else steps)
    check_checkpoints(looked)
    run = Run(editor, reward, journal=journal, seed=seed)
    ends = stages(run, looked)
    run.check(samples)
    rows: Rows = [[Staged(run.want(sample, number)) for number in range(n)] for sample in samples]
    try:
        for until in ends:
            rows = in_turn(run, rows, until)
    except (EditorFailed, TooManyFailures) as error:
        raise RunStopped(f"{error}; what was made is in the journal", run.journal) from error
    values = {
        sample.id: tuple(tuple(look.score.value for look in one.looks) for one in row if not one.problem)
        for sample, row in zip(samples, rows, strict=True)
    }
    failed = sum(bool(one.problem) for row in rows for one in row)
    return Calibration(editor.id, _named(reward), ends, values, failed, seed, _versions())


def spearman(looks: Values, finals: Values) -> float:
    """Spearman's rank correlation of those that have both values, tied ones with their mean rank; 0 where either side
    is constant.
    """
    both = np.isfinite(looks) & np.isfinite(finals)
    if len(np.unique(looks[both])) < 2 or len(np.unique(finals[both])) < 2:
        return 0.0
    return float(np.corrcoef(_ranks(looks[both]), _ranks(finals[both]))[0, 1])


def _ranks(values: Values) -> Values:
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Values = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return ranks


def _valued(values: Values) -> Values:
    return values[np.isfinite(values)]


def _regret(looks: Values, finals: Values, share: float) -> float:
    """What is lost where only the top share of previews is finished, rounded down, one at least."""
    kept, known = _valued(finals[order(looks)[: max(int(share * len(looks)), 1)]]), _valued(finals)
    return float(known.max() - (kept.max() if len(kept) else known.min()))


def _line(axes: Any, steps: Sequence[int], means: Sequence[Mean | None], label: str) -> None:
    there = [(step, mean) for step, mean in zip(steps, means, strict=True) if mean is not None]
    where = [step for step, _ in there]
    (drawn,) = axes.plot(where, [mean.value for _, mean in there], marker="o", label=label)
    low = [mean.value if mean.low is None else mean.low for _, mean in there]
    high = [mean.value if mean.high is None else mean.high for _, mean in there]
    axes.fill_between(where, low, high, alpha=0.15, color=drawn.get_color())


def _named(reward: AnyReward) -> dict[str, Any]:
    """What was asked: enough to tell two rewards apart, and the spec where there is one."""
    experts = dict(sorted(reward.expert_ids.items()))
    try:
        spec: Any = reward.spec
    except SpecError:
        spec = None
    return {"metric": reward.card.signature, "experts": experts, "spec": spec}


def _versions() -> dict[str, str]:
    found = {}
    for name in ("editcritic", "numpy", "torch", "diffusers", "transformers"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
