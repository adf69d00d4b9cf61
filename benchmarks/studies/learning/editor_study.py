"""Policy gradients on the tiny editor, judged by the truth: `python -m editcritic.benchmarks.learning.editor`.

Three seeds, each with lessons, noise and held-out prompts of its own, one after the other; and with `--hack` a reward
that can be had without an edit, with its guards and without them.
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

from .. import extras
from ..inputs import InputError
from ..options import at_least_one, new_file, new_picture
from .editing import FIRST
from .editor_report import plot, summary


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="editcritic.benchmarks.learning.editor", description=__doc__)
    parser.add_argument("--seeds", type=at_least_one, default=3, help="how many (default: 3)")
    parser.add_argument("--steps", type=at_least_one, default=STEPS, help=f"of training (default: {STEPS})")
    parser.add_argument("--prompts", type=at_least_one, default=180, help="held-out ones of each seed (default: 180)")
    parser.add_argument("--pictures", type=at_least_one, default=8, help="of each held-out prompt (default: 8)")
    parser.add_argument("--every", type=at_least_one, default=EVERY, help=f"look each so many steps (default: {EVERY})")
    parser.add_argument(
        "--processes",
        type=at_least_one,
        default=1,
        help="each with lessons of its own (default: 1)",
    )
    parser.add_argument("--hack", action="store_true", help="the hackable reward and its guarded twin instead")
    parser.add_argument("--runs", type=Path, help="a folder to keep the runs in; one that is there is not made again")
    parser.add_argument("--json", type=new_file, help="write all figures there")
    parser.add_argument("--plot", type=new_picture, help="draw the curves there")
    given = parser.parse_args(arguments)
    try:
        extras.diffusers()
        extras.trl()  # brings peft
        if given.plot is not None:
            extras.bench("matplotlib")
    except InputError as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.runs or Path(temporary)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            parser.exit(2, f"{parser.prog}: error: --runs: {error}\n")
        wanted = [(reward, FIRST) for reward in ("hackable", "guarded")]
        if not given.hack:
            wanted = [("following", FIRST + seed) for seed in range(given.seeds)]
        runs = [_run(reward, seed, given, folder / f"{reward}-{seed}.json") for reward, seed in wanted]
    print("\n".join(summary(runs)), flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(runs) + "\n", encoding="utf-8")
    if given.plot is not None:
        plot(runs, given.plot)


STEPS = 120
EVERY = 20

_CORES = {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}  # a process a core


def _run(reward: str, seed: int, given: argparse.Namespace, out: Path) -> dict[str, Any]:
    """A run in processes of its own, which leave nothing behind in this one."""
    if not out.exists():
        command = [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(given.processes)),
            *("-m", "editcritic.benchmarks.learning.editor_run", "--out", str(out)),
            *("--reward", reward, "--seed", str(seed), "--steps", str(given.steps), "--every", str(given.every)),
            *("--prompts", str(given.prompts), "--pictures", str(given.pictures)),
        ]
        done = subprocess.run(command, check=False, env={**os.environ, **_CORES})
        if done.returncode:
            sys.exit(f"the run of seed {seed} on the reward {reward} ended with {done.returncode}: see above")
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    was = {**found["looks"], **{name: found["settings"][name] for name in ("steps", "processes")}}
    if changed := [name for name in was if was[name] != getattr(given, name)]:
        differing = ", ".join(f"{name} was {was[name]} and is {getattr(given, name)}" for name in changed)
        sys.exit(f"{out} is of another run: {differing}. Take it away, or ask for the same")
    return found


if __name__ == "__main__":
    main()
