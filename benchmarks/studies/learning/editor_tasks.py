"""Training tasks and held-out evaluation of the tiny editor: scenes, and the truth about its images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....reward import EditSample
from ....reward.sample import TASK_TYPES
from ...sceneedit.cases import random_scene_request, seeded_rng
from ...sceneedit.render import render
from ...sceneedit.tiny_editor.editor_evaluation import edit_function, held_out_prompts
from ...sceneedit.tiny_editor.recovered_truth import recovered_truth
from ...sceneedit.tiny_editor.training_examples import EDITOR_SCENES
from ...sceneedit.trials import request_sample, without_annotations

FIRST_EDITOR_SEED = 10
"""The first reported seed: settings were chosen on earlier ones."""

HELD_OUT_SEED_OFFSET = 30
"""Added to a seed for its held-out prompts: the study of selectors uses those from 10 on."""

_LENGTH = 1_000_000


class TrainingEdits(Sequence[EditSample]):
    """Edits of the training split, task types in turn: practically endless.

    annotated: with task and object pools; else with source and sentence alone.
    """

    def __init__(self, seed: int, *, annotated: bool = True) -> None:
        self._seed, self._annotated = seed, annotated

    def __len__(self) -> int:
        return _LENGTH

    def __getitem__(self, number: Any) -> Any:
        before, request = random_scene_request(
            seeded_rng("train", self._seed, "rl", number), EDITOR_SCENES, TASK_TYPES[number % len(TASK_TYPES)]
        )
        sample = request_sample(f"{self._seed}-{number}", request, before)
        return sample if self._annotated else without_annotations(sample)


@dataclass(frozen=True)
class HeldOutResults:
    """Results on held-out prompts. followed, unchanged: (prompts, images); see `recovered_truth`."""

    followed: NDArray[np.float64]
    unchanged: NDArray[np.float64]


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
        rows.append([(truth.followed, truth.unchanged) for truth in truths])
    values = np.array(rows, np.float64).reshape(-1, image_count, 2)
    return HeldOutResults(values[..., 0], values[..., 1])
