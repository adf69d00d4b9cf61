"""Training tasks and held-out evaluation of the tiny editor: scenes, and the truth about its images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from editcritic.benchmarks.sceneedit.cases import random_scene_request, seeded_rng
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_graph import Scene
from editcritic.benchmarks.sceneedit.scene_requests import SceneRequest
from editcritic.benchmarks.sceneedit.tiny_editor.editor_evaluation import (
    edit_function,
    held_out_prompts,
    request_sample,
    without_annotations,
)
from editcritic.benchmarks.sceneedit.tiny_editor.recovered_truth import recovered_truth
from editcritic.benchmarks.sceneedit.tiny_editor.training_examples import EDITOR_SCENES
from editcritic.reward import EditSample
from editcritic.reward.sample import TASK_TYPES, TaskType

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
    pipeline: Any,
    count: int,
    pictures: int,
    seed: int,
    *,
    shard: int = 0,
    shard_count: int = 1,
    max_pictures: int | None = None,
) -> HeldOutResults:
    """`pictures` images, or at most `max_pictures`, of each of the held-out prompts `shard`, `shard + shard_count`, ….

    Each prompt has its own noise, the same in every evaluation, so that results before and after training are
    comparable.
    """
    image_count = pictures if max_pictures is None else min(max_pictures, pictures)
    edit = edit_function(pipeline)
    rows = []
    for number, prompt in list(enumerate(held_out_prompts(count, seed)))[shard::shard_count]:
        seeds = range(number * pictures, number * pictures + image_count)
        edits = edit(render(prompt.before), prompt.request.instruction, seeds)
        truths = [recovered_truth(prompt.request, prompt.before, picture) for picture in edits]
        rows.append([(truth.followed, truth.unchanged, truth.is_hacked) for truth in truths])
    values = np.array(rows, np.float64).reshape(-1, image_count, 3)
    return HeldOutResults(*np.moveaxis(values, -1, 0))
