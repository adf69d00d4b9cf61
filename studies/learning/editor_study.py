"""Policy gradients on the tiny editor, evaluated with ground truth: `python -m
studies.learning.editor_study`.

Several seeds, each with its own examples, noise and held-out prompts, one after the other; the interval of all is over
seeds and prompts. With `--hack`, a reward that can be hacked without an edit, with and without guards, on one seed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from editcritic.benchmarks.common import optional_imports
from editcritic.benchmarks.common.argument_types import at_least_one, new_image_file
from editcritic.benchmarks.common.markdown import table_lines
from editcritic.benchmarks.common.optional_imports import bench_library
from editcritic.reward.bootstrap_intervals import percentile_interval, resampled_rows

from .editor_worker import HACKING_SEED, PICTURES_PER_EVALUATION, PROBED, REPORTED_SEEDS, REWARDS

_SMOOTH = 15  # steps; a single step has few rewards


def summary(runs: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Markdown, line by line: each run, and all runs together if they have one reward."""
    columns = (
        "reward",
        "seed",
        "truly followed",
        "after",
        "gain (95 %)",
        "change in unchanged",
        "hacked",
        "after",
        "CPU minutes",
        "alarm",
    )
    rows = [_row([run], str(run["seed"])) for run in runs]
    if len(runs) > 1 and len({run["reward"] for run in runs}) == 1:
        rows.append(_row(runs, "all"))
    yield from table_lines(columns, rows)


def _row(runs: Sequence[dict[str, Any]], name: str) -> tuple[str, ...]:
    before, after = (np.array([_per_prompt_mean(run, moment, "followed") for run in runs]) for moment in _MOMENTS)
    unchanged = [np.mean([_per_prompt_mean(run, moment, "unchanged") for run in runs]) for moment in _MOMENTS]
    hacked = [np.mean([_per_prompt_mean(run, moment, "hacked") for run in runs]) for moment in _MOMENTS]
    gain, low, high = (100 * value for value in gain_interval(after - before))
    minutes = f"{sum(run['cpu_minutes'] for run in runs):.1f}"
    alarms = [alarm for run in runs for alarm in run["alarms"]]
    first = f"{alarms[0]['name']}, step {alarms[0]['step']}" if alarms else "none"
    return (
        str(runs[0]["reward"]),
        name,
        f"{100 * before.mean():.1f} %",
        f"{100 * after.mean():.1f} %",
        f"{gain:+.1f} ({low:+.1f} to {high:+.1f})",
        f"{100 * (unchanged[1] - unchanged[0]):+.1f}",
        *(f"{100 * share:.1f} %" for share in hacked),
        minutes,
        first,
    )


_MOMENTS = ("before", "after")


def gain_interval(gains: NDArray[np.float64]) -> tuple[float, float, float]:
    """Mean and 95 % bootstrap interval over seeds and prompts together, NaN for a single prompt. gains: (seeds,
    prompts).

    Each sample draws seeds, and for each of them prompts of its own: runs of the same settings differ by more than
    their prompts explain, so an interval over prompts alone would be too narrow. That of one seed is over its prompts.
    """
    seed_count, prompt_count = gains.shape
    if prompt_count < 2:
        return float(gains.mean()), float("nan"), float("nan")
    rng = np.random.default_rng(0)
    seeds = resampled_rows(seed_count, rng)
    prompts = rng.integers(0, prompt_count, (*seeds.shape, prompt_count))
    low, high = percentile_interval(gains[seeds[:, :, None], prompts].mean(axis=(1, 2))) or (float("nan"),) * 2
    return float(gains.mean()), low, high


def _per_prompt_mean(run: dict[str, Any], moment: str, name: str) -> NDArray[np.float64]:
    return np.array(run[moment][name], np.float64).mean(axis=1)


def plot(runs: Sequence[dict[str, Any]], path: Path) -> None:
    """Truth on held-out prompts and training reward against steps, a line for each run; alarms as dotted lines in the
    first.
    """
    pyplot = bench_library("matplotlib.pyplot")
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for number, run in enumerate(runs):
        colour, label = f"C{number}", f"{run['reward']}, seed {run['seed']}"
        evaluated = [(row["step"] + 1, row["truth/followed"]) for row in run["log"] if "truth/followed" in row]
        # Of the same images as during training: others have other noise.
        ends = {
            moment: 100 * float(np.array(run[moment]["followed"])[:, :PICTURES_PER_EVALUATION].mean())
            for moment in ("before", "after")
        }
        last = run["log"][-1]["step"] + 1
        points = [(0, ends["before"]), *((step, 100 * value) for step, value in evaluated if step < last)]
        points.append((last, ends["after"]))
        left.plot(*zip(*points, strict=True), color=colour, marker="o", markersize=3, label=label)
        for alarm in run["alarms"]:
            left.axvline(alarm["step"] + 1, color=colour, linestyle=":", linewidth=1)
            left.annotate(alarm["name"], (alarm["step"] + 1, left.get_ylim()[0]), rotation=90, fontsize=7, color=colour)
        rewards = np.array([row.get("reward", np.nan) for row in run["log"]])
        smooth = np.convolve(rewards, np.ones(_SMOOTH) / _SMOOTH, "valid")
        right.plot(np.arange(len(smooth)) + _SMOOTH, smooth, color=colour, label=label)
    left.set(xlabel="steps", ylabel="held-out edits truly followed (%)")
    right.set(xlabel="steps", ylabel=f"reward in training, mean of {_SMOOTH} steps")
    for axes in (left, right):
        axes.grid(visible=True, alpha=0.3)
    left.legend(fontsize=8)
    figure.savefig(path, dpi=110)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="studies.learning.editor_study", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=REPORTED_SEEDS, help="a run each")
    parser.add_argument("--steps", type=at_least_one, default=120, help="training steps (default: 120)")
    parser.add_argument("--prompts", type=at_least_one, default=180, help="held-out prompts per seed (default: 180)")
    parser.add_argument("--images", type=at_least_one, default=8, help="images per held-out prompt (default: 8)")
    parser.add_argument("--eval-steps", type=at_least_one, default=20, help="between evaluations (default: 20)")
    parser.add_argument("--hack", action="store_true", help="the hackable reward, with and without guards, instead")
    parser.add_argument("--reward", choices=sorted(set(REWARDS) - set(PROBED)), default="following")
    parser.add_argument("--plot", type=new_image_file, help="file for a plot of the curves")
    options = parser.parse_args(arguments)
    optional_imports.require_diffusers()
    optional_imports.require_trl()  # brings peft
    if options.plot is not None:
        optional_imports.bench_library("matplotlib")
    run_keys = [(reward, HACKING_SEED) for reward in PROBED]
    if not options.hack:
        run_keys = [(options.reward, seed) for seed in dict.fromkeys(options.seeds)]
    runs = [_run(reward, seed, options) for reward, seed in run_keys]
    print("\n".join(summary(runs)), flush=True)
    if options.plot is not None:
        plot(runs, options.plot)


_SINGLE_CORE_ENV = {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}  # one core per process


def _run(reward: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "run.json")
        worker = ["-m", "studies.learning.editor_worker", "--out", out, "--reward", reward, "--seed", seed]
        sizes = ["--steps", options.steps, "--eval-steps", options.eval_steps]
        sizes += ["--prompts", options.prompts, "--images", options.images]
        command = [sys.executable, *map(str, (*worker, *sizes))]
        subprocess.run(command, check=True, env={**os.environ, **_SINGLE_CORE_ENV})
        result: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return result


if __name__ == "__main__":
    main()
