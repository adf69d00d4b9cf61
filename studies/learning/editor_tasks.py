"""Training tasks and held-out evaluation of the tiny editor: scenes, and the truth about its images."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from editcritic.benchmarks.sceneedit.cases import random_scene_request, seeded_rng
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_graph import Scene
from editcritic.benchmarks.sceneedit.scene_requests import SceneRequest
from editcritic.benchmarks.sceneedit.tiny_editor.editor_evaluation import (
    edit_function,
    held_out_prompts,
    recovered_truth,
    request_sample,
    without_annotations,
)
from editcritic.benchmarks.sceneedit.tiny_editor.training_examples import EDITOR_SCENES
from editcritic.reward import Card, EditSample, Program, Score, ask
from editcritic.reward.metrics import Gate, Threshold
from editcritic.reward.metrics.any_edit.overall import any_edit
from editcritic.reward.metrics.baselines.single_question import JudgeYesNo
from editcritic.reward.metrics.compose import Metric
from editcritic.reward.metrics.guards import all_guards
from editcritic.reward.queries import Measure
from editcritic.reward.queries.specs import Spec
from editcritic.reward.sample import TASK_TYPES, TaskType


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
