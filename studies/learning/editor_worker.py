"""One training run of the tiny editor, which `editor_study` starts."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch

from editcritic.benchmarks.common.argument_types import new_file
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.sceneedit.tiny_editor.pipeline import load_pretrained
from editcritic.integrations.diffusion_rl import DiffusionConfig, DiffusionTrainer
from editcritic.reward import Reward
from editcritic.reward.planners.rule_planner import RulePlanner
from editcritic.reward.sample import TASK_TYPES
from editcritic.reward.training.audit_probe import AuditProbe
from editcritic.reward.training.reward_hacking_monitor import RewardHackingMonitor

from .editor_study import PICTURES_PER_EVALUATION
from .editor_tasks import (
    HELD_OUT_REWARD,
    HELD_OUT_SEED_OFFSET,
    MONITORED,
    NOTHING_GIVEN,
    PROBED,
    REWARDS,
    TRAINED_TASKS,
    TrainingEdits,
    evaluate_held_out,
)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="studies.learning.editor_worker", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--reward", choices=sorted(REWARDS), default="following")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--eval-steps", type=int, required=True, help="steps between evaluations on held-out prompts")
    parser.add_argument("--prompts", type=int, required=True, help="held-out prompts")
    parser.add_argument("--images", type=int, required=True, help="images per held-out prompt")
    parser.add_argument("--out", type=new_file, required=True)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    options.out.write_text(json.dumps(run(options)), encoding="utf-8")


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Train, and evaluate on held-out prompts before, during and after training."""
    seed, reward, every, out = options.seed, options.reward, options.eval_steps, options.out
    count, pictures = options.prompts, options.images
    pipeline, task_types = load_pretrained(), TASK_TYPES if reward in PROBED else TRAINED_TASKS
    examples = TrainingEdits(seed, annotated=reward not in NOTHING_GIVEN, task_types=task_types)
    experts = scene_experts() | ({"planner": RulePlanner()} if reward in NOTHING_GIVEN else {})
    is_monitored, is_probed = reward in MONITORED, reward in PROBED
    config_values = {
        **SETTINGS,
        **(_HACKING_SETTINGS if is_probed else {}),
        "max_steps": options.steps,
        "seed": seed,
    }
    evaluation = _HeldOutCallback(every, count, pictures, seed)
    trained = Reward(REWARDS[reward](), experts)
    trainer = DiffusionTrainer(
        pipeline,
        trained,
        examples,
        DiffusionConfig(out.with_suffix(""), **config_values),
        heldout=Reward.of(HELD_OUT_REWARD, scene_experts()) if is_monitored else None,
        monitor=RewardHackingMonitor(),
        probes=[examples[len(examples) - 1 - number] for number in range(_PROBES)] if is_probed else (),
        audit_probe=AuditProbe(trained, every=_AUDIT_STEPS if is_probed else 2 * _AUDIT_STEPS)
        if is_monitored
        else None,
        callbacks=[evaluation],
    )
    before = evaluate_held_out(trainer.pipeline, count, pictures, HELD_OUT_SEED_OFFSET + seed)
    began = time.process_time()
    log = trainer.train()
    cpu_minutes = (time.process_time() - began - evaluation.cpu_seconds) / 60
    after = evaluate_held_out(trainer.pipeline, count, pictures, HELD_OUT_SEED_OFFSET + seed)
    return {
        "seed": seed,
        "reward": reward,
        "cpu_minutes": cpu_minutes,
        "before": {name: getattr(before, name).tolist() for name in TRUTHS},
        "after": {name: getattr(after, name).tolist() for name in TRUTHS},
        "log": log,
        "alarms": [asdict(alarm) for alarm in trainer.monitor.alarms] if trainer.monitor else [],
    }


SETTINGS: Mapping[str, Any] = {
    "groups": 8,
    "group_size": 8,
    "rollout_batch_size": 64,
    "train_batch_size": 64,
    "objective": "raft",
    "num_noise_levels": 4,
    "beta": 0.3,
    "scale_rewards": "batch",
    "learning_rate": 4e-4,
    "lr_scheduler_type": "linear",
    "warmup_steps": 10,
    "lora_rank": 16,
    "lora_alpha": 32,
    "mixed_precision": "bf16",
    "overlap": False,
}
"""Chosen on the seeds 0 to 9."""

_HACKING_SETTINGS: Mapping[str, Any] = {"warmup_steps": 20, "probe_steps": 5}
TRUTHS = ("followed", "unchanged", "hacked")
"""Fields of `HeldOutResults`."""
_PROBES = 180  # examples that no run reaches
_AUDIT_STEPS = 5


class _HeldOutCallback:
    """Evaluates on held-out prompts every few steps: the first images of each. cpu_seconds: until now."""

    def __init__(self, every: int, count: int, pictures: int, seed: int) -> None:
        self._every, self._count, self._pictures, self._seed = every, count, pictures, seed
        self.cpu_seconds = 0.0

    def __call__(self, trainer: DiffusionTrainer, step: int, numbers: dict[str, float]) -> dict[str, float]:
        if (step + 1) % self._every:
            return {}
        began = time.process_time()
        seed = HELD_OUT_SEED_OFFSET + self._seed
        results = evaluate_held_out(trainer.pipeline, self._count, self._pictures, seed, PICTURES_PER_EVALUATION)
        self.cpu_seconds += time.process_time() - began
        return {f"truth/{name}": float(getattr(results, name).mean()) for name in TRUTHS}


if __name__ == "__main__":
    main()
