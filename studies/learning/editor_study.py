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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from editcritic.benchmarks.common import optional_imports
from editcritic.benchmarks.common.argument_types import at_least_one, new_image_file
from studies.learning.editor_tasks import PROBED, REWARDS

from .editor_report import plot, summary
from .editor_tasks import HACKING_SEED, REPORTED_SEEDS


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="studies.learning.editor_study", description=__doc__)
    parser.add_argument(
        "--seeds",
        type=int,
        nargs="+",
        default=REPORTED_SEEDS,
        help=f"seeds, a run each (default: {' '.join(map(str, REPORTED_SEEDS))})",
    )
    parser.add_argument("--steps", type=at_least_one, default=STEPS, help=f"training steps (default: {STEPS})")
    parser.add_argument("--prompts", type=at_least_one, default=180, help="held-out prompts per seed (default: 180)")
    parser.add_argument("--images", type=at_least_one, default=8, help="images per held-out prompt (default: 8)")
    parser.add_argument(
        "--eval-steps",
        type=at_least_one,
        default=EVALUATE_EVERY,
        help=f"steps between evaluations (default: {EVALUATE_EVERY})",
    )
    parser.add_argument(
        "--processes", type=at_least_one, default=1, help="training processes, each with its own examples (default: 1)"
    )
    parser.add_argument(
        "--hack", action="store_true", help="train on the hackable reward, with and without guards, instead"
    )
    parser.add_argument(
        "--reward",
        choices=sorted(set(REWARDS) - set(PROBED)),
        default="following",
        help="reward of the training (default: following); any-edit-open: any-edit without annotations; two-parts: "
        "without its part for what was redrawn",
    )
    parser.add_argument("--runs", type=Path, help="folder to keep the runs in; existing runs are reused")
    parser.add_argument("--plot", type=new_image_file, help="file for a plot of the curves")
    options = parser.parse_args(arguments)
    optional_imports.require_diffusers()
    optional_imports.require_trl()  # brings peft
    if options.plot is not None:
        optional_imports.bench_library("matplotlib")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.runs or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        run_keys = [(reward, HACKING_SEED) for reward in PROBED]
        if not options.hack:
            run_keys = [(options.reward, seed) for seed in dict.fromkeys(options.seeds)]
        runs = [_run(reward, seed, options, folder / f"{reward}-{seed}.json") for reward, seed in run_keys]
    print("\n".join(summary(runs)), flush=True)
    if options.plot is not None:
        plot(runs, options.plot)


STEPS = 120
EVALUATE_EVERY = 20

_SINGLE_CORE_ENV = {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}  # one core per process


def _run(reward: str, seed: int, options: argparse.Namespace, out: Path) -> dict[str, Any]:
    """A run in separate processes; one that is in `out` already is taken from there."""
    if not out.exists():
        launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", options.processes]
        worker = ["-m", "studies.learning.editor_worker", "--out", out, "--reward", reward, "--seed", seed]
        sizes = ["--steps", options.steps, "--eval-steps", options.eval_steps]
        sizes += ["--prompts", options.prompts, "--images", options.images]
        command = [sys.executable, "-m", *map(str, (*launcher, *worker, *sizes))]
        subprocess.run(command, check=True, env={**os.environ, **_SINGLE_CORE_ENV})
    result: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return result


if __name__ == "__main__":
    main()
