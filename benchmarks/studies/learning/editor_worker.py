"""One run of the tiny editor's training. `editor` starts it, in as many processes as it is told to:

torchrun --standalone --nproc-per-node 2 -m editcritic.benchmarks.learning.editor_run --seed 0 --out run.json …
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from numpy.typing import NDArray

from ...integrations.diffusion_rl import DiffusionConfig, DiffusionTrainer
from ...reward import Reward
from ...reward.alarms import Watch
from ..options import new_file
from ..sceneedit.critics import experts
from ..sceneedit.learned.pipeline import load
from .editing import HELD_OUT, Lessons, tried
from .editor_report import LOOKED
from .editor_rewards import HELD_OUT_REWARD, REWARDS


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="editcritic.benchmarks.learning.editor_run", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--reward", choices=sorted(REWARDS), default="following")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--every", type=int, required=True, help="steps from one look at held-out prompts to the next")
    parser.add_argument("--prompts", type=int, required=True, help="held-out ones")
    parser.add_argument("--pictures", type=int, required=True, help="of each of them, before and after")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=JSON", help="other settings of DiffusionConfig")
    parser.add_argument("--out", type=new_file, required=True)
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    try:
        said = {name: json.loads(value) for name, _, value in (one.partition("=") for one in given.set)}
        DiffusionConfig(given.out, **{**SETTINGS, **said})
    except (TypeError, ValueError) as error:
        parser.exit(2, f"{parser.prog}: error: --set: {error}\n")
    found = run(given.seed, given.reward, given.steps, given.every, given.prompts, given.pictures, given.out, said)
    if found is not None:
        given.out.write_text(json.dumps(found), encoding="utf-8")


def run(
    seed: int,
    reward: str,
    steps: int,
    every: int,
    count: int,
    pictures: int,
    out: Path,
    said: Mapping[str, Any],
) -> dict[str, Any] | None:
    """Train, and look at held-out prompts before, in between and after. None beside the main process."""
    pipeline, lessons = load(), Lessons(seed)
    watched = reward != "following"  # by a reward that nothing is trained on
    settings = {**SETTINGS, **(_WATCHED if watched else {}), "steps": steps, "seed": seed, **said}
    trainer = DiffusionTrainer(
        pipeline,
        Reward(REWARDS[reward](), experts()),
        lessons,
        DiffusionConfig(out.with_suffix(""), **settings),
        heldout=Reward.of(HELD_OUT_REWARD, experts()) if watched else None,
        watch=Watch(),
        probes=[lessons[len(lessons) - 1 - number] for number in range(_PROBES)] if watched else (),
        callbacks=[_Looks(every, count, pictures, seed)],
    )
    before = looked_at(trainer, count, pictures, seed)
    began = time.perf_counter()
    log = trainer.train()
    minutes = (time.perf_counter() - began) / 60
    after = looked_at(trainer, count, pictures, seed)
    if not trainer.accelerator.is_main_process:
        return None
    return {
        "seed": seed,
        "reward": reward,
        "settings": {**settings, "processes": trainer.accelerator.num_processes},
        "looks": {"every": every, "prompts": count, "pictures": pictures},
        "minutes": minutes,
        "before": {name: values.tolist() for name, values in before.items()},
        "after": {name: values.tolist() for name, values in after.items()},
        "log": log,
        "alarms": [asdict(alarm) for alarm in trainer.watch.alarms] if trainer.watch else [],
    }


SETTINGS: Mapping[str, Any] = {
    "groups": 8,
    "group_size": 8,
    "rollout_batch": 64,
    "train_batch": 64,
    "objective": "raft",
    "levels": 4,
    "beta": 0.3,
    "scale": "batch",
    "learning_rate": 4e-4,
    "schedule": "linear",
    "warmup": 10,
    "lora_rank": 16,
    "lora_alpha": 32,
    "mixed_precision": "bf16",
    "overlap": False,
}
"""Chosen on seeds before `FIRST`."""

_WATCHED: Mapping[str, Any] = {"warmup": 20, "probe_every": 5}  # which begins while little has been learned
_PROBES = 180  # lessons that no run comes to


class _Looks:
    """After so many steps, what held-out prompts come to: the first pictures of each, on all processes."""

    def __init__(self, every: int, count: int, pictures: int, seed: int) -> None:
        self._every, self._count, self._pictures, self._seed = every, count, pictures, seed

    def __call__(self, trainer: DiffusionTrainer, step: int, numbers: dict[str, float]) -> dict[str, float]:
        if (step + 1) % self._every:
            return {}
        found = looked_at(trainer, self._count, self._pictures, self._seed, first=LOOKED)
        return {f"truth/{name}": float(values.mean()) for name, values in found.items()}


def looked_at(
    trainer: DiffusionTrainer, count: int, pictures: int, seed: int, *, first: int | None = None
) -> dict[str, NDArray[np.float64]]:
    """`tried`, with the prompts shared out among the processes, which changes their order."""
    here, parts = trainer.accelerator.process_index, trainer.accelerator.num_processes
    found = tried(trainer.pipeline, count, pictures, HELD_OUT + seed, part=here, parts=parts, first=first)
    every = gather_object([found])
    return {name: np.concatenate([getattr(one, name) for one in every]) for name in ("followed", "unchanged")}


if __name__ == "__main__":
    main()
