"""Compares selectors on the tiny editor: one reward for all of them, and the ground truth.

All select from the same candidates where possible: they share a journal, so that each is charged for its own requests
and nothing is generated twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from editcritic.benchmarks.common.markdown import table_lines
from editcritic.benchmarks.common.optional_imports import bench_library
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.sceneedit.tiny_editor.editor_evaluation import (
    SelectionTrial,
    compound_trials,
    single_edit_trials,
)
from editcritic.reward import Engine, Reward
from editcritic.reward.bootstrap_intervals import (
    RESAMPLES,
    Numbers,
    bootstrap_interval,
    percentile_interval,
    resampled_rows,
    row_means,
)
from editcritic.reward.queries.specs import Spec
from editcritic.verifiers import BestOfN, Journal, Selector, SequentialEditing, select
from editcritic.verifiers.selection import Selections, StepwiseEditor
from editcritic.verifiers.selectors import (
    AdaptiveBestOfN,
    BeamSearch,
    FKSteering,
    PreviewCalibration,
    SearchOverPaths,
    SuccessiveHalving,
    ZeroOrderSearch,
    calibrate_previews,
)

from .per_prompt_noise import PerPromptNoise

FIRST_REPORTED_SEED = 10
"""The first reported seed: reward and selectors were chosen on earlier ones."""
CALIBRATION_SEEDS = range(20, 30)
"""Of the calibration of adaptive selection with previews; none of them is reported."""
PREVIEW_STEP = 1
MAX_CANDIDATES = 16
COMPOUND_LEVEL = 4
SATURATION_MARGIN = 0.02
SATURATION_COUNT = 4
REWARD: Spec = {"use": "gate", "guard": {"use": "guards", "reader": False}, "reward": {"use": "judge-yes-no"}}
"""A judge's probability that the instruction was followed, behind the guards. Chosen on seeds 0 to 2."""
COMPOUND_REWARD = "compound?prompt_injection_guard=false"

SINGLE_EDIT_SELECTORS: Mapping[str, Selector] = {
    **{f"best-of-{n}": BestOfN(n) for n in (1, 2, 4, 8, MAX_CANDIDATES)},
    **{f"adaptive {share:.0%}": AdaptiveBestOfN(MAX_CANDIDATES, share) for share in (0.2, 0.3, 0.4, 0.5, 0.6)},
    "halving (1: 4)": SuccessiveHalving(MAX_CANDIDATES, (1,), (4,)),
    "halving (1: 6)": SuccessiveHalving(MAX_CANDIDATES, (1,), (6,)),
    "halving (1: 8, 2: 4)": SuccessiveHalving(MAX_CANDIDATES, (1, 2), (8, 4)),
    "halving (2: 4)": SuccessiveHalving(MAX_CANDIDATES, (2,), (4,)),
    "zero-order": ZeroOrderSearch(neighbours=4, rounds=3, num_starts=4),
    "paths": SearchOverPaths(num_paths=4, branching_factor=2),
    "particles": FKSteering(n=8),
}

COMPOUND_SELECTORS: Mapping[str, Selector] = {
    **{f"sequential, N = {n}": SequentialEditing(n) for n in (1, 4)},
    "beam of 2, N = 4": BeamSearch(2, 4),
}

PREVIEW_NAMES = {share: f"adaptive {share:.0%}, previews" for share in (0.2, 0.3, 0.4)}


def preview_selectors(calibration: PreviewCalibration) -> dict[str, Selector]:
    """Adaptive selection with previews."""
    return {
        name: AdaptiveBestOfN(MAX_CANDIDATES, share, calibration=calibration, preview_step=PREVIEW_STEP)
        for share, name in PREVIEW_NAMES.items()
    }


def selector_names() -> list[str]:
    """Of all selectors for prompts."""
    return [*SINGLE_EDIT_SELECTORS, *PREVIEW_NAMES.values()]


@dataclass(frozen=True, slots=True)
class TrialResult:
    """What a selector chose for one trial. value: the reward, None without a choice. truth: of the image, in [0, 1].

    evaluation_share: denoiser evaluations, as a share of those of all candidates.
    """

    value: float | None
    truth: float
    nfe: int
    judge_calls: int
    evaluation_share: float


@dataclass(frozen=True)
class SelectionStudy:
    """outcomes: selector -> a row for each trial, seeds one after the other. single_sample_truth, single_sample_value:
    for each trial, the mean truth and reward of all candidates, which a single sample has on average. best_of_n_value:
    the highest reward of all candidates.

    saturated: the trials in which `SATURATION_COUNT` candidates or more are within `SATURATION_MARGIN` of the best
    reward, so that finding any of them suffices. seeds: of each trial.
    """

    outcomes: Mapping[str, Sequence[TrialResult]]
    single_sample_truth: NDArray[np.float64]
    single_sample_value: NDArray[np.float64]
    best_of_n_value: NDArray[np.float64]
    saturated: NDArray[np.bool_]
    seeds: NDArray[np.int64]

    def truths(self, name: str) -> NDArray[np.float64]:
        return np.array([result.truth for result in self.outcomes[name]])

    def values(self, name: str) -> NDArray[np.float64]:
        """Rewards of the chosen images; without a choice, of a single sample."""
        rows = zip(self.outcomes[name], self.single_sample_value, strict=True)
        return np.array([fallback if row.value is None else row.value for row, fallback in rows])

    def evaluation_share(self, name: str) -> float:
        """Mean share of the evaluations of best-of-N, over all trials."""
        return float(np.mean([result.evaluation_share for result in self.outcomes[name]]))

    def truth_gain(self, name: str) -> tuple[float, float, float]:
        """Gain in truth over a single sample: mean and 95 % interval over trials."""
        return interval(self.truths(name) - self.single_sample_truth)

    def judge_calls(self, name: str) -> float:
        """Mean over all trials: one for each image that was scored, previews included."""
        return float(np.mean([result.judge_calls for result in self.outcomes[name]]))

    def reward_gain_kept_by_seed(self, name: str) -> tuple[list[float], tuple[float, float]]:
        """`reward_gain_kept` of each seed, and the 95 % interval of the whole over seeds and trials: seeds are drawn
        first, then trials of each.
        """
        gain = self.values(name) - self.single_sample_value
        full_gain = self.best_of_n_value - self.single_sample_value
        groups = [np.flatnonzero((self.seeds == seed) & ~self.saturated) for seed in np.unique(self.seeds)]
        groups = [rows for rows in groups if len(rows)]
        shares = [float(gain[rows].sum() / full_gain[rows].sum()) for rows in groups]
        if len(groups) < 2:
            return shares, _NO_INTERVAL
        rng = np.random.default_rng(0)
        totals = np.zeros((2, RESAMPLES))
        for seed in resampled_rows(len(groups), rng).T:  # the seed drawn for each bootstrap sample
            for number, rows in enumerate(groups):
                picked = rows[resampled_rows(len(rows), rng)]
                totals += np.where(seed == number, [gain[picked].sum(axis=1), full_gain[picked].sum(axis=1)], 0.0)
        return shares, percentile_interval(totals[0] / totals[1]) or _NO_INTERVAL

    def reward_gain_kept(self, name: str, *, saturated: bool = False) -> tuple[float, float, float]:
        """Share of best-of-N's gain in reward over a single sample that is kept, with its 95 % interval: over the
        trials that do not saturate, or over those that do.
        """
        mask = self.saturated if saturated else ~self.saturated
        gain, full_gain = (
            (self.values(name) - self.single_sample_value)[mask],
            (self.best_of_n_value - self.single_sample_value)[mask],
        )
        if not len(gain):
            return (float("nan"),) * 3
        return float(gain.sum() / full_gain.sum()), *(bootstrap_interval(_kept, gain, full_gain) or _NO_INTERVAL)


def interval(values: NDArray[np.float64]) -> tuple[float, float, float]:
    """Mean and 95 % bootstrap interval, NaN for one value."""
    return float(values.mean()), *(bootstrap_interval(row_means, values) or _NO_INTERVAL)


_NO_INTERVAL = (float("nan"), float("nan"))


def _kept(gain: Numbers, full_gain: Numbers) -> Numbers:
    """Share of the full gain in each sample, (samples, trials) -> (samples,); NaN without a full gain."""
    total = full_gain.sum(axis=-1)
    shares: Numbers = np.divide(gain.sum(axis=-1), total, out=np.full_like(total, np.nan), where=total > 0)
    return shares


@dataclass(frozen=True)
class SelectionSeedRun:
    """One seed of the study, run in one process. Picklable.

    calibration: of other seeds, for the `preview_selectors`. names: of the selectors for prompts; all if empty.
    """

    seed: int
    prompts: int
    compounds: int
    calibration: PreviewCalibration | None = None
    names: Sequence[str] = ()

    def run(self) -> tuple[SelectionStudy, dict[str, list[TrialResult]]]:
        """The selectors of prompts on the prompts, and those of `COMPOUND_SELECTORS` on the compounds."""
        with Journal() as journal:
            editor = _study_editor()
            engine = Engine(log=journal.answer_log)
            selectors = {
                **SINGLE_EDIT_SELECTORS,
                **({} if self.calibration is None else preview_selectors(self.calibration)),
            }

            def run_selector(selector: Selector, trials: Sequence[SelectionTrial], reward: Spec) -> Selections:
                return select(
                    selector,
                    [trial.sample for trial in trials],
                    editor=editor,
                    reward=_study_reward(reward, engine),
                    journal=journal,
                )

            trials = single_edit_trials(self.prompts, self.seed)
            study = _run_selectors(
                {name: selector for name, selector in selectors.items() if not self.names or name in self.names},
                trials,
                lambda selector: run_selector(selector, trials, REWARD),
                editor.nfe,
                self.seed,
            )
            chains = compound_trials(self.compounds, self.seed, COMPOUND_LEVEL)
            steps = {
                name: _outcomes(chains, run_selector(selector, chains, COMPOUND_REWARD), COMPOUND_LEVEL * editor.nfe)
                for name, selector in COMPOUND_SELECTORS.items()
                if chains
            }
            return study, steps


@dataclass(frozen=True)
class CalibrationSeedRun:
    """One seed of the calibration, run in one process. Picklable."""

    seed: int
    prompts: int

    def run(self) -> PreviewCalibration:
        """The previews at `PREVIEW_STEP` and the final images of `MAX_CANDIDATES` candidates of each prompt."""
        with Journal() as journal:
            return calibrate_previews(
                _study_editor(),
                _study_reward(REWARD, Engine(log=journal.answer_log)),
                [trial.sample for trial in single_edit_trials(self.prompts, self.seed)],
                n=MAX_CANDIDATES,
                steps=(PREVIEW_STEP,),
                journal=journal,
            )


def merge_calibrations(parts: Sequence[PreviewCalibration]) -> PreviewCalibration:
    """Calibrations of several seeds as one."""
    values = {name: rows for part in parts for name, rows in part.values.items()}
    return replace(parts[0], values=values, failed=sum(part.failed for part in parts))


def _study_editor() -> PerPromptNoise:
    """The tiny editor with separate noise for every prompt, on one thread: processes share the cores."""
    import torch

    from editcritic.benchmarks.sceneedit.tiny_editor.pipeline import load_pretrained
    from editcritic.integrations.diffusers.pipeline_editor import make_editor

    torch.set_num_threads(1)
    editor = make_editor(load_pretrained(), batch_size=MAX_CANDIDATES)
    assert isinstance(editor, StepwiseEditor)
    return PerPromptNoise(editor)


def _study_reward(reward: Spec, engine: Engine) -> Reward:
    return Reward.of(reward, scene_experts(), engine=engine, on_failures="none")


def _run_selectors(
    selectors: Mapping[str, Selector],
    trials: Sequence[SelectionTrial],
    run: Callable[[Selector], Selections],
    evaluations: int,
    seed: int,
) -> SelectionStudy:
    mean_truths, mean_values, best_values, saturated = [], [], [], []
    for trial, selection in zip(trials, run(BestOfN(MAX_CANDIDATES)), strict=True):
        values = np.array([candidate.value for candidate in selection.candidates if candidate.value is not None])
        pictures = [candidate.picture for candidate in selection.candidates if candidate.picture is not None]
        mean_truths.append(np.mean([trial.followed_share(picture) for picture in pictures]))
        mean_values.append(values.mean() if len(values) else 0.0)
        best_values.append(values.max() if len(values) else 0.0)
        saturated.append((values >= best_values[-1] - SATURATION_MARGIN).sum() >= SATURATION_COUNT or not len(values))
    single_sample_truth = np.array(mean_truths)
    outcomes = {
        name: _outcomes(trials, run(selector), MAX_CANDIDATES * evaluations, single_sample_truth)
        for name, selector in selectors.items()
    }
    return SelectionStudy(
        outcomes,
        single_sample_truth,
        np.array(mean_values),
        np.array(best_values),
        np.array(saturated, np.bool_),
        np.full(len(trials), seed),
    )


def _outcomes(
    trials: Sequence[SelectionTrial],
    selections: Selections,
    max_evaluations: int,
    single_sample_truth: NDArray[np.float64] | None = None,
) -> list[TrialResult]:
    """max_evaluations: of all candidates of one trial. single_sample_truth: used where no choice was made."""
    outcomes = []
    for number, (trial, selection) in enumerate(zip(trials, selections, strict=True)):
        picture, spent = selection.picture, selection.spent
        truth = (
            trial.followed_share(picture or trial.sample.source)
            if picture or single_sample_truth is None
            else float(single_sample_truth[number])
        )
        outcomes.append(TrialResult(selection.value, truth, spent.nfe, spent.judge_calls, spent.nfe / max_evaluations))
    return outcomes


def merge_studies(parts: Sequence[SelectionStudy]) -> SelectionStudy:
    """Studies of several seeds as one."""
    return SelectionStudy(
        {name: [result for part in parts for result in part.outcomes[name]] for name in parts[0].outcomes},
        np.concatenate([part.single_sample_truth for part in parts]),
        np.concatenate([part.single_sample_value for part in parts]),
        np.concatenate([part.best_of_n_value for part in parts]),
        np.concatenate([part.saturated for part in parts]),
        np.concatenate([part.seeds for part in parts]),
    )


def table(study: SelectionStudy) -> Iterator[str]:
    """The table of selectors in Markdown, line by line."""
    columns = (
        "selector", "NFE", "truly followed", "above one sample (95 %)", "gain in reward kept (95 %)",
        "the same, saturated",
    )  # fmt: skip
    rows = []
    for name in study.outcomes:
        gain, low, high = (100 * value for value in study.truth_gain(name))
        kept, kept_low, kept_high = (100 * value for value in study.reward_gain_kept(name))
        rows.append(
            (
                name,
                f"{100 * study.evaluation_share(name):.1f} %",
                f"{100 * study.truths(name).mean():.1f} %",
                f"{gain:+.1f} ({low:+.1f} to {high:+.1f})",
                f"{kept:.1f} % ({kept_low:.1f} to {kept_high:.1f})",
                f"{100 * study.reward_gain_kept(name, saturated=True)[0]:.1f} %",
            )
        )
    yield from table_lines(columns, rows)
    yield ""
    yield (
        f"One sample: {100 * study.single_sample_truth.mean():.1f} % truly followed. {int(study.saturated.sum())} of "
        f"{len(study.saturated)} trials saturate: {SATURATION_COUNT} candidates or more within {SATURATION_MARGIN} of "
        "the best reward. They are in the last column, the others in the one before it."
    )


def seeds_table(study: SelectionStudy) -> Iterator[str]:
    """The share of the gain in reward that is kept, seed by seed, and what was scored for it, in Markdown."""
    columns = (
        "selector", "NFE", "judge calls", "gain in reward kept, by seed", "all seeds", "over seeds and prompts (95 %)"
    )  # fmt: skip
    rows = []
    for name in study.outcomes:
        shares, (low, high) = study.reward_gain_kept_by_seed(name)
        rows.append(
            (
                name,
                f"{100 * study.evaluation_share(name):.1f} %",
                f"{study.judge_calls(name):.1f}",
                ", ".join(f"{100 * share:.1f}" for share in shares),
                f"{100 * study.reward_gain_kept(name)[0]:.1f} %",
                f"{100 * low:.1f} to {100 * high:.1f}",
            )
        )
    yield ""
    yield from table_lines(columns, rows)


def steps_table(results: Mapping[str, Sequence[TrialResult]]) -> Iterator[str]:
    """The table of compounds in Markdown, line by line: share of steps followed, share of compounds with all."""
    if not results:
        return
    yield ""
    columns = (
        f"selector, C{COMPOUND_LEVEL}",
        "NFE (one chain: 1)",
        "steps truly followed",
        "all",
        "above the first (95 %)",
    )
    rows = []
    truths = {name: np.array([result.truth for result in rows]) for name, rows in results.items()}
    first = next(iter(truths.values()))
    for name, truth in truths.items():
        share = np.mean([result.evaluation_share for result in results[name]])
        gain, low, high = (100 * value for value in interval(truth - first))
        rows.append(
            (
                name,
                f"{share:.1f}",
                f"{100 * truth.mean():.1f} %",
                f"{100 * (truth == 1).mean():.1f} %",
                f"{gain:+.1f} ({low:+.1f} to {high:+.1f})",
            )
        )
    yield from table_lines(columns, rows)


def plot(study: SelectionStudy, path: Path) -> None:
    """Quality against denoiser evaluations: truth on the left, reward on the right, a line for each family of
    selectors.
    """
    families: dict[str, list[str]] = {}
    for name in study.outcomes:
        families.setdefault(_family(name), []).append(name)
    pyplot = bench_library("matplotlib.pyplot")
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    for number, (family, names) in enumerate(families.items()):
        names.sort(key=study.evaluation_share)
        shares = [100 * study.evaluation_share(name) for name in names]
        style = {"marker": "os^Dv<>P"[number % 8], "label": family, "linestyle": "-" if len(names) > 1 else "none"}
        axes[0].plot(shares, [100 * study.truths(name).mean() for name in names], **style)
        axes[1].plot(shares, [100 * study.reward_gain_kept(name)[0] for name in names], **style)
    axes[0].axhline(100 * study.single_sample_truth.mean(), color="grey", linewidth=0.8)
    axes[0].set(ylabel="truly followed (%)")
    axes[1].set(ylabel=f"gain in reward of best-of-{MAX_CANDIDATES} kept (%)")
    for axis in axes:
        axis.set(xlabel=f"denoiser evaluations (% of best-of-{MAX_CANDIDATES})", xlim=(0, None))
        axis.grid(visible=True, alpha=0.3)
    axes[1].legend(fontsize=8)
    figure.savefig(path, dpi=110)


def _family(name: str) -> str:
    if name.startswith("best-of-"):
        return "best of n"
    family = name.partition(" ")[0]
    return f"{family}, previews" if name.endswith(", previews") else family
