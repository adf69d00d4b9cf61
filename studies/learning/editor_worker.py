"""One training run of the tiny editor, which `editor_study` starts: rewards, edits that it learns from, and the run."""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from editcritic.benchmarks.common.argument_types import new_file
from editcritic.benchmarks.sceneedit.cases import random_scene_request, seeded_rng
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.sceneedit.scene_graph import Scene
from editcritic.benchmarks.sceneedit.scene_requests import SceneRequest
from editcritic.benchmarks.sceneedit.tiny_editor.editor_evaluation import (
    edit_function,
    held_out_prompts,
    recovered_truth,
    request_sample,
    without_annotations,
)
from editcritic.benchmarks.sceneedit.tiny_editor.pipeline import load_pretrained
from editcritic.benchmarks.sceneedit.tiny_editor.training_examples import EDITOR_SCENES
from editcritic.integrations.diffusion_rl import DiffusionConfig, DiffusionTrainer
from editcritic.reward import Card, EditSample, Program, Reward, Score, ask
from editcritic.reward.metrics import Gate, Threshold
from editcritic.reward.metrics.any_edit.overall import any_edit
from editcritic.reward.metrics.baselines.reward_models import JudgeYesNo
from editcritic.reward.metrics.compose import Metric
from editcritic.reward.metrics.guards import all_guards
from editcritic.reward.planners.rule_planner import RulePlanner
from editcritic.reward.queries import Measure
from editcritic.reward.queries.specs import Spec
from editcritic.reward.sample import TASK_TYPES, TaskType
from editcritic.reward.training.audit_probe import AuditProbe
from editcritic.reward.training.reward_hacking_monitor import RewardHackingMonitor


@dataclass(frozen=True)
class CopySimilarity:
    """Similarity to the source: 1 for a copy, 1/e where pixels differ by `scale` of their range on average."""

    scale: float = 0.03
    card: ClassVar[Card] = Card(
        "alike", 1, "the edit is as the source", kinds={"pixels": ("measure",)}, failure_modes="A copy has 1.0."
    )

    def __call__(self, sample: EditSample) -> Program[Score]:
        similarity = yield from ask(Measure("l1", (sample.source, sample.edited)))
        return Score.of(math.exp(((similarity.value or 0.0) - 1) / self.scale))


def following() -> Metric:
    """Whether a judge finds the instruction followed, behind the guards."""
    return Gate(all_guards(prompt_injection_guard=False), Threshold(JudgeYesNo(), 0.5))


def hackable() -> Metric:
    """Similarity to the source, alone and without guards: a copy has 1."""
    return CopySimilarity()


def guarded() -> Metric:
    """The same behind the guards, and behind a judge of whether the instruction was followed: a copy has 0."""
    return Gate(
        all_guards(prompt_injection_guard=False), Gate(Threshold(JudgeYesNo(), 0.5), CopySimilarity()), name="guarded"
    )


def following_and_preserved() -> Metric:
    """The reward `any-edit`. Letters of 32 px cannot be read: its guard against text is off."""
    return any_edit(text_guard=False)


def two_parts() -> Metric:
    """The same without its third part, `region`: what was redrawn may be anything."""
    return any_edit(text_guard=False, region=False)


REWARDS: Mapping[str, Callable[[], Metric]] = {
    "following": following,
    "any-edit": following_and_preserved,
    "any-edit-open": following_and_preserved,
    "any-edit-open-two-parts": two_parts,
    "hackable": hackable,
    "guarded": guarded,
}
NOTHING_GIVEN = ("any-edit-open", "any-edit-open-two-parts")
"""Rewards of samples that have a source and a sentence alone; `RulePlanner` reads it."""
PROBED = ("hackable", "guarded")
"""Rewards whose training is compared with a held-out reward on fixed prompts, too."""
MONITORED = (*NOTHING_GIVEN, *PROBED)
"""Rewards that are compared with a held-out one during training."""

HELD_OUT_REWARD: Spec = "edival-if?dense=true"
"""Not used for training: EdiVal's instruction following, by detector."""


REPORTED_SEEDS = (2001, 2002, 2003, 2004, 2005)
"""Fixed before any of them was run: settings were chosen on 0 to 9."""

HACKING_SEED = 10
"""Of the runs on a reward that can be hacked."""

PICTURES_PER_EVALUATION = 2
"""Images per held-out prompt during training: the first of those before and after it."""

HELD_OUT_SEED_OFFSET = 30
"""Added to a seed for its held-out prompts: the study of selectors uses those from 10 on."""

TRAINED_TASKS: tuple[TaskType, ...] = (
    *("color_alter", "subject_remove", "background_change", "color_alter", "subject_remove", "background_change"),
    *("position_change", "subject_add", "count_change"),
)
"""Task types of the training, from what `editor_gap` says of development seeds. In groups of the first three, good
images resemble each other and become targets of others. The last three keep what the editor can do: only their good
images are trained on. In groups of the other types, images are nearly always all good or all bad, and none is trained
on."""

_LENGTH = 1_000_000


class TrainingEdits(Sequence[EditSample]):
    """Edits of the training split, task types in turn: practically endless.

    annotated: with task and object pools; else with source and sentence alone.
    """

    def __init__(self, seed: int, *, annotated: bool = True, task_types: Sequence[TaskType] = TASK_TYPES) -> None:
        self._seed, self._annotated, self._task_types = seed, annotated, task_types

    def __len__(self) -> int:
        return _LENGTH

    def __getitem__(self, number: Any) -> Any:
        before, request = self.scene_request(number)
        sample = request_sample(f"{self._seed}-{number}", request, before)
        return sample if self._annotated else without_annotations(sample)

    def scene_request(self, number: int) -> tuple[Scene, SceneRequest]:
        """The scene and the request of an edit."""
        task_type = self._task_types[number % len(self._task_types)]
        return random_scene_request(seeded_rng("train", self._seed, "rl", number), EDITOR_SCENES, task_type)


@dataclass(frozen=True)
class HeldOutResults:
    """Results on held-out prompts, (prompts, images); see `RecoveredTruth`. hacked: 1 for damage and for fills."""

    followed: NDArray[np.float64]
    unchanged: NDArray[np.float64]
    hacked: NDArray[np.float64]


def evaluate_held_out(
    pipeline: Any, count: int, pictures: int, seed: int, max_pictures: int | None = None
) -> HeldOutResults:
    """`pictures` images, or at most `max_pictures`, of each of the held-out prompts.

    Each prompt has its own noise, the same in every evaluation, so that results before and after training are
    comparable.
    """
    image_count = pictures if max_pictures is None else min(max_pictures, pictures)
    edit = edit_function(pipeline)
    rows = []
    for number, prompt in enumerate(held_out_prompts(count, seed)):
        seeds = range(number * pictures, number * pictures + image_count)
        edits = edit(render(prompt.before), prompt.request.instruction, seeds)
        truths = [recovered_truth(prompt.request, prompt.before, picture) for picture in edits]
        rows.append([(truth.followed, truth.unchanged, truth.is_hacked) for truth in truths])
    values = np.array(rows, np.float64).reshape(-1, image_count, 3)
    return HeldOutResults(*np.moveaxis(values, -1, 0))


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
