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
from editcritic.benchmarks.common.argument_types import at_least_one, new_file, new_image_file
from editcritic.benchmarks.common.errors import InputError

from .editor_report import plot, summary
from .editor_rewards import PROBED, REWARDS
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
    parser.add_argument("--json", type=new_file, help="file to write all figures to")
    parser.add_argument("--plot", type=new_image_file, help="file for a plot of the curves")
    options = parser.parse_args(arguments)
    try:
        optional_imports.require_diffusers()
        optional_imports.require_trl()  # brings peft
        if options.plot is not None:
            optional_imports.bench_library("matplotlib")
    except InputError as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.runs or Path(temporary)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            parser.exit(2, f"{parser.prog}: error: --runs: {error}\n")
        run_keys = [(reward, HACKING_SEED) for reward in PROBED]
        if not options.hack:
            run_keys = [(options.reward, seed) for seed in dict.fromkeys(options.seeds)]
        runs = [_run(reward, seed, options, folder / f"{reward}-{seed}.json") for reward, seed in run_keys]
    print("\n".join(summary(runs)), flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(runs) + "\n", encoding="utf-8")
    if options.plot is not None:
        plot(runs, options.plot)


STEPS = 120
EVALUATE_EVERY = 20

_SINGLE_CORE_ENV = {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}  # one core per process


def _run(reward: str, seed: int, options: argparse.Namespace, out: Path) -> dict[str, Any]:
    """A run in separate processes."""
    if not out.exists():
        command = [
            *(
                sys.executable,
                "-m",
                "torch.distributed.run",
                "--standalone",
                "--nproc-per-node",
                str(options.processes),
            ),
            *("-m", "studies.learning.editor_worker", "--out", str(out)),
            *(
                "--reward",
                reward,
                "--seed",
                str(seed),
                "--steps",
                str(options.steps),
                "--eval-steps",
                str(options.eval_steps),
            ),
            *("--prompts", str(options.prompts), "--images", str(options.images)),
        ]
        process = subprocess.run(command, check=False, env={**os.environ, **_SINGLE_CORE_ENV})
        if process.returncode:
            sys.exit(f"the run of seed {seed} on the reward {reward} ended with {process.returncode}: see above")
    result: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    if "cpu_minutes" not in result:
        sys.exit(f"{out} is of an earlier version of the study, which took other times: delete it")
    previous = {
        **result["evaluation"],
        "steps": result["settings"]["max_steps"],
        "processes": result["settings"]["processes"],
    }
    if changed := [name for name in previous if previous[name] != getattr(options, name)]:
        differing = ", ".join(f"{name} was {previous[name]} and is {getattr(options, name)}" for name in changed)
        sys.exit(f"{out} is of another run: {differing}. Delete it, or use the same settings")
    return result


if __name__ == "__main__":
    main()
