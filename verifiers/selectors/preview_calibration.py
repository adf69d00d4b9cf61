"""How well previews predict the final image, measured for one editor and one reward."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...reward import BaseReward, EditSample, SpecError, TooManyFailures
from ...reward.atomic_files import write_atomically
from ...reward.bootstrap_intervals import bootstrap_interval, row_means
from ...reward.installation import install_command
from ...reward.strict_json import read_json
from ..selection.editor import EditorError, StepwiseEditor
from ..selection.generation import PartialCandidate
from ..selection.journal import Journal
from ..selection.selection_run import SelectionRun, SelectionStopped
from .halving import (
    CandidateRows,
    HalvingSchedule,
    SuccessiveHalving,
    ValueArray,
    advance_interleaved,
    best_schedule,
    check_checkpoints,
    rank_order,
    stage_ends,
)

SCHEMA = 1
"""Version of the JSON form of calibrations."""

TOP_FRACTIONS = (0.5, 0.25, 0.125)
"""Fractions of candidates kept by their previews, as columns of the table."""


@dataclass(frozen=True, slots=True)
class BootstrapMean:
    """A mean over samples with a 95 % bootstrap interval; no interval for one sample."""

    value: float
    low: float | None = None
    high: float | None = None

    @staticmethod
    def of(values: Sequence[float] | NDArray[Any]) -> BootstrapMean | None:
        """The mean of the values; None for no values."""
        array = np.asarray(values, float)
        if not len(array):
            return None
        return BootstrapMean(float(array.mean()), *(bootstrap_interval(row_means, array) or (None, None)))

    def __str__(self) -> str:
        return f"{self.value:.3g}" + ("" if self.low is None else f" [{self.low:.3g}, {self.high:.3g}]")


@dataclass(frozen=True, slots=True)
class PreviewQuality:
    """How well previews at one step predict final values, over samples whose final values differ; None without any.

    spearman: rank correlation within a sample; 0 if all previews are equal. top_hit_rate: how often the best image, or
    one as good, is among the top fraction of previews (`TOP_FRACTIONS`). regret: how much lower the best of that
    fraction is, in units of the reward; if none of it has a value, the worst counts.
    """

    step: int
    spearman: BootstrapMean | None
    top_hit_rate: tuple[BootstrapMean | None, ...]
    regret: tuple[BootstrapMean | None, ...]
    samples: int
    num_pairs: int


@dataclass(frozen=True)
class PreviewCalibration:
    """The values of all previews of all candidates, as recorded by `calibrate_previews`.

    Args:
        steps: Recorded steps; the last one is the final image.
        values: Sample id -> one row per candidate, in seed order, and one column per step; None if a score failed or
            abstained. Candidates whose editor call failed are left out; `failed` is their number.
    """

    editor: str
    reward: Mapping[str, Any]
    steps: tuple[int, ...]
    values: Mapping[str, tuple[tuple[float | None, ...], ...]]
    failed: int = 0
    seed: int = 0
    versions: Mapping[str, str] | None = None

    @property
    def informative(self) -> dict[str, ValueArray]:
        """The samples with at least two different final values."""
        arrays = {name: np.array(rows, float).reshape(-1, len(self.steps)) for name, rows in self.values.items()}
        return {name: array for name, array in arrays.items() if len(np.unique(_finite(array[:, -1]))) > 1}

    @property
    def uninformative(self) -> list[str]:
        """The samples whose final values are all equal or missing; they are counted nowhere else."""
        informative = self.informative
        return [name for name in self.values if name not in informative]

    def preview_quality(self, step: int) -> PreviewQuality:
        """How well previews at this step predict final values.

        Raises:
            ValueError: For a step that was not recorded.
        """
        column = self._column(step)
        pairs = [(rows[:, column], rows[:, -1]) for rows in self.informative.values()]
        regrets = [[_regret(previews, finals, share) for previews, finals in pairs] for share in TOP_FRACTIONS]
        return PreviewQuality(
            step,
            BootstrapMean.of([spearman(previews, finals) for previews, finals in pairs]),
            tuple(BootstrapMean.of([regret == 0 for regret in row]) for row in regrets),
            tuple(BootstrapMean.of(row) for row in regrets),
            len(pairs),
            sum(int((np.isfinite(previews) & np.isfinite(finals)).sum()) for previews, finals in pairs),
        )

    def table(self) -> str:
        """A Markdown table with one row per step and 95 % intervals."""
        shares = [f"top 1/{round(1 / share)}" for share in TOP_FRACTIONS]
        header = [
            "step",
            "Spearman",
            *(f"best in {name}" for name in shares),
            *(f"regret of {name}" for name in shares),
        ]
        lines = [[*header, "pairs"], ["---:"] * (len(header) + 1)]
        for step in self.steps[:-1]:
            quality = self.preview_quality(step)
            cells = [str(mean or "–") for mean in (quality.spearman, *quality.top_hit_rate, *quality.regret)]
            lines.append([f"{step} of {self.steps[-1]}", *cells, str(quality.num_pairs)])
        count = len(self.informative)
        note = (
            f"{self.editor}, {self.reward['metric']}: {count} of {len(self.values)} samples; the candidates of the "
            f"others all have the same value. {self.failed} candidates failed."
        )
        return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{note}\n"

    def plot(self, path: str | Path) -> None:
        """Plot rank correlation and regret by step to an image file.

        Raises:
            ImportError: If matplotlib is missing.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError(f"matplotlib is needed here: {install_command('bench')}") from error
        qualities = [self.preview_quality(step) for step in self.steps]
        figure = Figure(figsize=(10, 4), layout="constrained")
        left, right = figure.subplots(1, 2)
        _plot_line(left, self.steps, [quality.spearman for quality in qualities], "")
        left.set(xlabel="NFE", ylabel="Spearman of preview and final value")
        for number, share in enumerate(TOP_FRACTIONS):
            _plot_line(
                right, self.steps, [quality.regret[number] for quality in qualities], f"top 1/{round(1 / share)} kept"
            )
        right.set(xlabel="NFE", ylabel="regret against best-of-n")
        right.legend()
        figure.savefig(path)

    def simulate(self, halving: SuccessiveHalving) -> dict[str, float | None]:
        """The value that this halving would choose for each sample, exact for a deterministic editor and reward, but
        for ties of a preview that a guard rejected (see `rank_order`).

        Raises:
            ValueError: For checkpoints that were not recorded, or more candidates than were recorded.
        """
        columns = [self._column(step) for step in halving.checkpoints]
        chosen: dict[str, float | None] = {}
        for name, rows in self.values.items():
            if len(rows) < halving.n:
                raise ValueError(f"{name} has {len(rows)} candidates, and the plan starts {halving.n}")
            values = np.array(rows, float)
            survivors = np.arange(halving.n)
            for column, count in zip(columns, halving.survivors(halving.n), strict=True):
                survivors = survivors[np.sort(rank_order(values[survivors, column])[:count])]
            finals = _finite(values[survivors, -1])
            chosen[name] = float(finals.max()) if len(finals) else None
        return chosen

    def plan(self, n: int = 16, share: float = 0.5, *, max_checkpoints: int = 2) -> HalvingSchedule:
        """The halving with the least regret against best-of-n within `share` of its NFE.

        The search covers n, n/2, n/4, ... candidates, up to `max_checkpoints` of the recorded steps as checkpoints, all
        survivor counts up to 8 and a few beyond, and best-of-m with fewer candidates, which wins if previews say
        little. Each plan is simulated on the informative samples that have n candidates; among equal plans the cheapest
        is taken.

        Raises:
            ValueError: If there are no such samples or no plan fits.
        """
        tables = [rows[:n] for rows in self.informative.values() if len(rows) >= n]
        tables = [rows for rows in tables if np.isfinite(rows[:, -1]).any()]
        if n < 1 or not tables:
            raise ValueError(f"cannot plan: no sample has {n} candidates that differ in value")
        return best_schedule(np.stack(tables), self.steps, share, max_checkpoints)

    def save(self, path: str | Path) -> None:
        """Write as JSON."""
        write_atomically(Path(path), json.dumps({"schema": SCHEMA, **asdict(self)}, allow_nan=False))

    @staticmethod
    def load(path: str | Path) -> PreviewCalibration:
        """Raises OSError, or ValueError for a file that is not a calibration of this schema."""
        try:
            data = read_json(Path(path), max_values=10**7)
            if data.pop("schema") != SCHEMA:
                raise ValueError(f"it has another schema: this version reads schema {SCHEMA}")
            data["steps"] = tuple(data["steps"])
            data["values"] = {name: tuple(map(tuple, rows)) for name, rows in data["values"].items()}
            calibration = PreviewCalibration(**data)
            if type(calibration.editor) is not str or not isinstance(calibration.reward, dict):
                raise ValueError("its editor is not a string, or its reward is not a table")
            calibration.require_numbers()
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"{path} is not a calibration: {error}") from None
        return calibration

    def require_numbers(self) -> None:
        """Raise ValueError for steps that do not increase, and for rows with anything but a value for each step."""
        if not all(type(step) is int and step > before for before, step in pairwise((0, *self.steps))):
            raise ValueError("its steps are not positive numbers that increase")
        for name, rows in self.values.items():
            for row in rows:
                if len(row) != len(self.steps) or not all(item is None or type(item) in (int, float) for item in row):
                    raise ValueError(f"{name!r:.80} has a row that is not a number or null for each of its steps")

    def _column(self, step: int) -> int:
        if step not in self.steps:
            raise ValueError(f"step {step} was not recorded: the steps are {', '.join(map(str, self.steps))}")
        return self.steps.index(step)


def calibrate_previews(
    editor: StepwiseEditor,
    reward: BaseReward,
    samples: Sequence[EditSample],
    *,
    n: int = 16,
    steps: Sequence[int] | None = None,
    journal: Journal | None = None,
    seed: int = 0,
) -> PreviewCalibration:
    """Generate `n` candidates per sample and score their previews at each of these steps (default: all).

    Takes n times the editor's NFE per sample, and one score per candidate and step. The candidates are those of
    `select` with the same seed, and a shared journal reuses them.

    Raises:
        ValueError: For fewer than two candidates, and for steps that the editor does not have or that do not increase.
        TypeError: For an editor that is not a `StepwiseEditor`.
        SelectionStopped: If the editor or the reward is down.
    """
    if n < 2:
        raise ValueError(f"a calibration compares candidates: n must be at least 2, got {n}")
    checkpoints = tuple(range(1, editor.nfe) if steps is None else steps)
    check_checkpoints(checkpoints)
    run = SelectionRun(editor, reward, journal=journal, seed=seed)
    stages = stage_ends(run, checkpoints)
    run.check(samples)
    rows: CandidateRows = [[PartialCandidate(run.request(sample, number)) for number in range(n)] for sample in samples]
    try:
        for until_step in stages:
            rows = advance_interleaved(run, rows, until_step)
    except (EditorError, TooManyFailures) as error:
        raise SelectionStopped(f"{error}; the journal holds what was generated", run.journal) from error
    values = {
        sample.id: tuple(
            tuple(preview.score.value for preview in partial.previews) for partial in row if not partial.error
        )
        for sample, row in zip(samples, rows, strict=True)
    }
    failed = sum(bool(partial.error) for row in rows for partial in row)
    return PreviewCalibration(editor.id, _reward_identity(reward), stages, values, failed, seed, _versions())


def spearman(previews: ValueArray, finals: ValueArray) -> float:
    """Spearman's rank correlation over candidates with both values, ties at mean rank; 0 if either side is constant."""
    both = np.isfinite(previews) & np.isfinite(finals)
    if len(np.unique(previews[both])) < 2 or len(np.unique(finals[both])) < 2:
        return 0.0
    return float(np.corrcoef(_ranks(previews[both]), _ranks(finals[both]))[0, 1])


def _ranks(values: ValueArray) -> ValueArray:
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: ValueArray = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return ranks


def _finite(values: ValueArray) -> ValueArray:
    return values[np.isfinite(values)]


def _regret(previews: ValueArray, finals: ValueArray, share: float) -> float:
    """The loss if only the top fraction of previews is finished (rounded down, at least one)."""
    kept, valued = _finite(finals[rank_order(previews)[: max(int(share * len(previews)), 1)]]), _finite(finals)
    return float(valued.max() - (kept.max() if len(kept) else valued.min()))


def _plot_line(axes: Any, steps: Sequence[int], means: Sequence[BootstrapMean | None], label: str) -> None:
    points = [(step, mean) for step, mean in zip(steps, means, strict=True) if mean is not None]
    xs = [step for step, _ in points]
    (line,) = axes.plot(xs, [mean.value for _, mean in points], marker="o", label=label)
    low = [mean.value if mean.low is None else mean.low for _, mean in points]
    high = [mean.value if mean.high is None else mean.high for _, mean in points]
    axes.fill_between(xs, low, high, alpha=0.15, color=line.get_color())


def _reward_identity(reward: BaseReward) -> dict[str, Any]:
    """What identifies the reward: signature and identity, and for readers its experts, and its spec if it has one."""
    experts = dict(sorted(reward.expert_ids.items()))
    try:
        spec: Any = reward.spec
    except SpecError:
        spec = None
    return {"metric": reward.signature, "identity": reward.identity, "experts": experts, "spec": spec}


def _versions() -> dict[str, str]:
    versions = {}
    for name in ("editcritic", "numpy", "torch", "diffusers", "transformers"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
