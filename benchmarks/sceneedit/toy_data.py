"""Drawn tasks, a tiny editor and experts in one object, for trying rewards, selection and training on a CPU."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ...reward import EditSample, Expert, Image, Operation
from ...reward.sample import TASK_TYPES, TaskType
from ...verifiers import edit_request
from ..common import optional_imports
from .cases import random_scene_request
from .compound_requests import random_compound
from .render import render
from .scene_experts import scene_experts
from .tiny_editor.editor_evaluation import (
    RecoveredTruth,
    ScenePrompt,
    held_out_prompts,
    recovered_truth,
    request_sample,
)
from .tiny_editor.training_examples import EDITOR_SCENES

if TYPE_CHECKING:
    from ...verifiers.selection.editor import Editor
    from .tiny_editor.pipeline import SceneEditPipeline


@dataclass(frozen=True)
class ToyData:
    """Edit tasks on drawn images of 32 px, and what it takes to edit and to score them. Made by `toy`."""

    samples: Sequence[EditSample]
    """Sources and instructions, unedited: `edited` is the source."""

    prompts: Mapping[str, ScenePrompt]
    """Sample id -> scene and request; empty for compounds."""

    @cached_property
    def editor(self) -> Editor:
        """The tiny editor, for `select` and `RewardFunction`.

        Raises:
            InputError: Without the extra `diffusers`.
        """
        pipeline = self.pipeline()
        from ...integrations.diffusers.pipeline_editor import make_editor

        return make_editor(pipeline)

    @property
    def experts(self) -> dict[str, Expert]:
        """Role -> expert for these images; new objects on each access."""
        return scene_experts()

    @property
    def weights(self) -> Path:
        """The folder of the tiny editor, for `from_pretrained`."""
        from .tiny_editor.pipeline import PRETRAINED_PATH

        return PRETRAINED_PATH

    def pipeline(self) -> SceneEditPipeline:
        """The tiny editor as a diffusers pipeline, loaded anew on each call.

        Raises:
            InputError: As `editor` does.
        """
        optional_imports.require_diffusers()
        from .tiny_editor.pipeline import load_pretrained

        return load_pretrained()

    def truth(self, sample: EditSample, edited: Image) -> RecoveredTruth:
        """Whether an edit follows the instruction, and the share of other pixels it leaves unchanged.

        Raises:
            KeyError: For a compound or for a sample of other data.
        """
        prompt = self.prompts[sample.id]
        return recovered_truth(prompt.request, prompt.before, edited)


def toy(count: int = 9, *, tasks: Sequence[TaskType] | None = None, steps: int = 1, seed: int = 0) -> ToyData:
    """Tasks on drawn images, the same for the same arguments, with a tiny editor and experts that know these images.

    Args:
        count: Held-out tasks, task types in turn; samples have object pools.
        tasks: One sample for each of these task types instead, with object boxes.
        steps: Above 1, one compound instruction of that many steps, with boxes and operations.

    Raises:
        ValueError: For an unknown task type, or where both `tasks` and `steps` are set.
    """
    if steps > 1:
        if tasks is not None:
            raise ValueError("pass `tasks` or `steps`, not both: the steps of a compound are of random task types")
        compound = random_compound(random.Random(seed), steps, EDITOR_SCENES)
        operations = tuple(Operation(step.instruction) for step in compound.steps)
        boxes = compound.scene.boxes()
        sample = edit_request(compound.instruction, render(compound.scene), operations=operations, boxes=boxes)
        return ToyData((sample,), {})
    if tasks is None:
        held_out = {f"{seed}-{number}": prompt for number, prompt in enumerate(held_out_prompts(count, seed))}
        samples = [request_sample(name, prompt.request, prompt.before) for name, prompt in held_out.items()]
        return ToyData(samples, held_out)
    if unknown := [task for task in tasks if task not in TASK_TYPES]:
        raise ValueError(f"unknown task types {unknown}: expected some of {', '.join(TASK_TYPES)}")
    prompts = {str(number): _random_prompt(task, seed) for number, task in enumerate(tasks)}
    return ToyData([_boxed_sample(name, prompt) for name, prompt in prompts.items()], prompts)


def _random_prompt(task: TaskType, seed: int) -> ScenePrompt:
    scene, request = random_scene_request(random.Random(seed), EDITOR_SCENES, task)
    return ScenePrompt(request, scene)


def _boxed_sample(name: str, prompt: ScenePrompt) -> EditSample:
    return edit_request(prompt.request.instruction, render(prompt.before), boxes=prompt.before.boxes(), id=name)
