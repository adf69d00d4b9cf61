"""GRPO with the TRL reward on a language model: `python -m studies.learning.writer_study`.

A tiny writer splits and rewrites compound instructions for an editor (`writer_model`). One warm start is trained on
three rewards and evaluated on held-out compounds.

`reward` is the preset `compound` on the edited image. The controls use the text alone: `length` is highest for as many
words as the target has, `format` for lines that the editor can parse.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PrinterCallback, TrainerCallback, set_seed

from editcritic.benchmarks.common.argument_types import at_least_one, new_image_file
from editcritic.benchmarks.common.markdown import table_lines
from editcritic.benchmarks.common.optional_imports import bench_library
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.integrations.dataset_rows import split_instructions
from editcritic.integrations.rng_state import preserve_rng_state
from editcritic.integrations.trl.reward_function import RewardFunction
from editcritic.reward.bootstrap_intervals import RESAMPLES, percentile_interval, resampled_rows, row_means

from .writer_model import (
    MAX_LENGTH,
    RuleBasedEditor,
    SplitTask,
    parse_line,
    sample_completions,
    split_tasks,
    tokenizer,
    untrained_writer,
    warm_start,
)

if TYPE_CHECKING:
    from trl import GRPOConfig


LOOPS = ("reward", "length", "format")


@dataclass(frozen=True, slots=True)
class HeldOutMetrics:
    """Evaluation on held-out compounds after `step` steps, one sample each at temperature 1.

    rewards: of the preset, None where unscored. truths: shares of steps truly followed. lengths, formats: the controls'
    values.
    """

    step: int
    rewards: tuple[float | None, ...]
    truths: tuple[float, ...]
    lengths: tuple[float, ...]
    formats: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class SeedResult:
    """The result of one seed. metrics_by_loop: loop -> evaluations, of which the first one is the warm start, the same
    for all. seconds: processor time by phase.
    """

    seed: int
    metrics_by_loop: dict[str, list[HeldOutMetrics]]
    seconds: dict[str, float]


@dataclass(frozen=True, slots=True)
class WriterSeedRun:
    """One seed, run in one process. All random numbers differ between seeds.

    held_out: compounds of the test split. warm_start_steps: of supervised training. steps: of each loop, each of
    `prompts` compounds with `generations` completions. evaluate_every: steps between evaluations.
    """

    seed: int
    held_out: int = 80
    warm_start_steps: int = 700
    steps: int = 80
    prompts: int = 8
    generations: int = 8
    evaluate_every: int = 20

    def run(self) -> SeedResult:
        """Warm start, then every loop from there."""
        from datasets import Dataset

        torch.set_num_threads(1)
        seconds: dict[str, float] = {}
        began = time.process_time()
        vocabulary = tokenizer()
        warm_model = untrained_writer(vocabulary, self.seed)
        warm_start(warm_model, vocabulary, seed=self.seed, steps=self.warm_start_steps)
        seconds["warm start"] = time.process_time() - began
        train_tasks = split_tasks(self.steps * self.prompts, seed=self.seed, split="train")
        evaluator = HeldOutEvaluator.of(split_tasks(self.held_out, seed=self.seed, split="test"), train_tasks)
        rows = Dataset.from_list([task.row for task in train_tasks])
        first = evaluator.evaluate(warm_model, vocabulary, step=0, seed=self.seed)
        self.log_progress("warm start", first)
        metrics = {}
        rewards: tuple[Callable[..., Any], ...] = (evaluator.reward, length_reward, format_reward)
        for name, reward in zip(LOOPS, rewards, strict=True):
            began = time.process_time()
            metrics[name] = [first, *self._trained(copy.deepcopy(warm_model), vocabulary, rows, reward, evaluator)]
            seconds[name] = time.process_time() - began
        return SeedResult(self.seed, metrics, seconds)

    def log_progress(self, stage: str, metrics: HeldOutMetrics) -> None:
        """Report progress on stderr."""
        values = [value for value in metrics.rewards if value is not None]
        reward = f"{fmean(values):.3f}" if values else "none"
        sys.stderr.write(
            f"seed {self.seed}, {stage}: held-out reward {reward}, truly followed {fmean(metrics.truths):.3f}\n"
        )
        sys.stderr.flush()

    def _trained(
        self, model: Any, vocabulary: Any, rows: Any, reward: Callable[..., Any], evaluator: HeldOutEvaluator
    ) -> list[HeldOutMetrics]:
        from trl import GRPOTrainer

        set_seed(self.seed)
        callback = _EvaluationCallback(evaluator, vocabulary, self, reward.__name__)
        with TemporaryDirectory() as folder:
            trainer = GRPOTrainer(
                model, reward_funcs=[reward], train_dataset=rows, processing_class=vocabulary, callbacks=[callback],
                args=self._config(Path(folder)),
            )  # fmt: skip
            trainer.remove_callback(PrinterCallback)
            trainer.train()
        return callback.evaluations

    def _config(self, folder: Path) -> GRPOConfig:
        from trl import GRPOConfig

        return GRPOConfig(
            output_dir=str(folder), seed=self.seed, use_cpu=True, bf16=False, gradient_checkpointing=False,
            max_steps=self.steps, per_device_train_batch_size=self.prompts * self.generations,
            num_generations=self.generations, max_completion_length=MAX_LENGTH, learning_rate=6e-4,
            lr_scheduler_type="linear", beta=0.0, logging_steps=1, save_strategy="no", report_to=[],
            disable_tqdm=True,
        )  # fmt: skip


@dataclass(frozen=True)
class HeldOutEvaluator:
    """Held-out tasks and the reward: the same one for training and evaluation."""

    tasks: Sequence[SplitTask]
    reward: RewardFunction
    rows: list[dict[str, Any]] = field(repr=False)

    @staticmethod
    def of(held_out: Sequence[SplitTask], train_tasks: Sequence[SplitTask] = ()) -> HeldOutEvaluator:
        editor = RuleBasedEditor(task.compound.scene for task in (*held_out, *train_tasks))
        return HeldOutEvaluator(
            held_out, RewardFunction("compound", scene_experts(), editor=editor), [task.row for task in held_out]
        )

    def evaluate(self, model: Any, vocabulary: Any, *, step: int, seed: int) -> HeldOutMetrics:
        """Evaluate the writer. Preserves the RNG state."""
        with preserve_rng_state():
            completions = sample_completions(
                model, vocabulary, [task.prompt for task in self.tasks], seed=1000 * seed + step
            )
        return self.score_completions(completions, step)

    def score_completions(self, completions: Sequence[str], step: int = 0) -> HeldOutMetrics:
        """The metrics of one completion for each task."""
        columns = {name: [row[name] for row in self.rows] for name in self.rows[0]}
        prompts = columns.pop("prompt")
        rollouts = self.reward.rollouts(prompts, completions, **columns)
        return HeldOutMetrics(
            step,
            tuple(rollout.score.value for rollout in rollouts),
            tuple(
                task.truth(rollout.sample.edited)
                for task, rollout in zip(self.tasks, rollouts, strict=True)
                if rollout.sample is not None
            ),
            tuple(length_reward(prompts, completions, **columns)),
            tuple(format_reward(prompts, completions)),
        )


def length_reward(prompts: Sequence[str], completions: Sequence[str], *, split: Sequence[str], **_: Any) -> list[float]:
    """1 for as many words as the target has, 0 for none or twice as many."""
    counts = [
        (len(completion.split()), len(target.split())) for completion, target in zip(completions, split, strict=True)
    ]
    return [max(0.0, 1.0 - abs(completion - target) / target) for completion, target in counts]


def format_reward(prompts: Sequence[str], completions: Sequence[str], **_: Any) -> list[float]:
    """The share of lines that the editor can parse; 0 without lines."""
    parsed = [[parse_line(line) is not None for line in split_instructions(completion)] for completion in completions]
    return [sum(lines) / len(lines) if lines else 0.0 for lines in parsed]


class _EvaluationCallback(TrainerCallback):
    """Evaluates the writer every `evaluate_every` steps."""

    def __init__(self, evaluator: HeldOutEvaluator, vocabulary: Any, seed_run: WriterSeedRun, name: str) -> None:
        self.evaluator, self.vocabulary, self.seed_run, self.name = evaluator, vocabulary, seed_run, name
        self.evaluations: list[HeldOutMetrics] = []

    def on_step_end(self, args: Any, state: Any, control: Any, *, model: Any, **_: Any) -> None:
        if state.global_step % self.seed_run.evaluate_every and state.global_step < state.max_steps:
            return
        model.eval()
        metrics = self.evaluator.evaluate(model, self.vocabulary, step=state.global_step, seed=self.seed_run.seed)
        model.train()
        self.evaluations.append(metrics)
        self.seed_run.log_progress(f"trained on {self.name}, step {metrics.step}", metrics)


Values = Callable[[HeldOutMetrics], Sequence[float | None]]
"""Metrics -> a value for each held-out compound."""


def rewards(look: HeldOutMetrics) -> Sequence[float | None]:
    """Values of the preset."""
    return look.rewards


def truths(look: HeldOutMetrics) -> Sequence[float | None]:
    """Shares of steps truly followed."""
    return look.truths


def mean(values: Sequence[float | None]) -> float:
    """The mean of the defined values. Raises StatisticsError without any."""
    return fmean(value for value in values if value is not None)


def lift(outcomes: Sequence[SeedResult], loop: str, of: Values = rewards) -> tuple[float, float, float]:
    """Gain from the warm start to the end of a loop: mean and 95 % interval, NaN if undefined.

    Paired: over compounds with a value at both ends. The bootstrap has two stages: seeds are resampled, and for each of
    them anew its compounds, since compounds of one seed share a writer.
    """
    gains = [_gain(outcome.metrics_by_loop[loop], of) for outcome in outcomes]
    rng = np.random.default_rng(0)
    samples = np.zeros(RESAMPLES)
    for drawn in resampled_rows(len(gains), rng).T:  # one seed of each sample at a time
        means = np.stack([row_means(gain[resampled_rows(len(gain), rng)]) for gain in gains])
        samples += means[drawn, np.arange(RESAMPLES)] / len(gains)
    low, high = percentile_interval(samples) or (float("nan"),) * 2
    return float(np.mean([gain.mean() for gain in gains])), low, high


def _gain(looks: Sequence[HeldOutMetrics], of: Values) -> NDArray[np.float64]:
    pairs = zip(of(looks[0]), of(looks[-1]), strict=True)
    return np.array([last - first for first, last in pairs if first is not None and last is not None])


def table(outcomes: Sequence[SeedResult]) -> Iterator[str]:
    """Markdown, line by line: a row for each seed and loop, and one for all seeds. See `lift` for intervals."""
    columns = (
        "seed", "trained on", "reward at warm start", "at the end", "lift (95 %)", "truly followed", "lift (95 %)",
    )  # fmt: skip
    rows = []
    for loop in LOOPS:
        for results in (*([one] for one in outcomes), outcomes):
            name = results[0].seed if len(results) == 1 else "all"
            (first, last), (first_truth, last_truth) = (
                [_at(results, loop, of, end) for end in (0, -1)] for of in (rewards, truths)
            )
            rewards_cells = (f"{first:.3f}", f"{last:.3f}", _signed(lift(results, loop)))
            truth_cells = (f"{first_truth:.3f} to {last_truth:.3f}", _signed(lift(results, loop, truths)))
            rows.append((name, loop, *rewards_cells, *truth_cells))
    yield from table_lines(columns, rows)
    yield ""
    looks = [look for outcome in outcomes for loop in LOOPS for look in outcome.metrics_by_loop[loop]]
    unscored = fmean(value is None for look in looks for value in look.rewards)
    minutes = [sum(outcome.seconds.values()) / 60 for outcome in outcomes]
    yield (
        f"{len(looks[0].rewards)} held-out compounds a seed, one sample each. Unscored: {100 * unscored:.1f} %. "
        f"Minutes of one core for each seed: {', '.join(f'{one:.1f}' for one in minutes)}, of which the loop with the "
        f"reward took {', '.join(f'{one.seconds[LOOPS[0]] / 60:.1f}' for one in outcomes)}."
    )


def _at(outcomes: Sequence[SeedResult], loop: str, of: Values, end: int) -> float:
    return mean([value for outcome in outcomes for value in of(outcome.metrics_by_loop[loop][end])])


def _signed(estimate: tuple[float, float, float]) -> str:
    return "{:+.3f} ({:+.3f} to {:+.3f})".format(*estimate)


def plot(outcomes: Sequence[SeedResult], path: Path) -> None:
    """Held-out reward and truth: a colour for each loop, a thin line for each seed, a thick one for their mean."""
    pyplot = bench_library("matplotlib.pyplot")
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
    for axis, (label, of) in zip(axes, (("held-out reward", rewards), ("steps truly followed", truths)), strict=True):
        for number, loop in enumerate(LOOPS):
            curves = [[mean(of(look)) for look in outcome.metrics_by_loop[loop]] for outcome in outcomes]
            steps = [look.step for look in outcomes[0].metrics_by_loop[loop]]
            for curve in curves:
                axis.plot(steps, curve, color=f"C{number}", linewidth=0.8, alpha=0.5)
            axis.plot(steps, np.mean(curves, axis=0), color=f"C{number}", linewidth=2.2, label=f"trained on {loop}")
        axis.set(xlabel="GRPO step", title=label, ylim=(0, 1))
        axis.grid(visible=True, alpha=0.3)
    axes[0].legend(fontsize=9)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="studies.learning.writer_study", description=__doc__)
    parser.add_argument("--seeds", type=at_least_one, default=3, help="number of seeds (default: 3)")
    parser.add_argument("--steps", type=at_least_one, default=80, help="steps of each training loop (default: 80)")
    parser.add_argument("--plot", type=new_image_file, help="file for a plot of the curves")
    options = parser.parse_args(arguments)
    seed_runs = [WriterSeedRun(seed, steps=options.steps) for seed in range(options.seeds)]
    outcomes = [run.run() for run in seed_runs]
    print("\n".join(table(outcomes)), flush=True)
    if options.plot is not None:
        plot(outcomes, options.plot)


if __name__ == "__main__":
    main()
