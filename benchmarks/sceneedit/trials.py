"""Trials of selection: held-out edits for the tiny editor, and the truth about each result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...reward import EditSample, Image, Pools
from ...reward.metrics.edival.pools import update_pools
from . import sample_annotations
from .cases import seeded_rng
from .compound_requests import random_compound
from .ground_truth import followed
from .render import render
from .scene_graph import Scene
from .scene_recovery import recover_scene
from .scene_requests import SceneRequest
from .tiny_editor.editor_evaluation import held_out_prompts
from .tiny_editor.recovered_truth import recovered_truth
from .tiny_editor.training_examples import EDITOR_SCENES

FollowedShare = Callable[[Image], float]
"""Of an image, the share of the instructions that it follows, in [0, 1]."""


@dataclass(frozen=True, slots=True)
class SelectionTrial:
    """sample: unedited. followed_share: of an image, the share of the instructions it follows."""

    sample: EditSample
    followed_share: FollowedShare


def single_edit_trials(count: int, seed: int) -> list[SelectionTrial]:
    """Held-out edits of one instruction each, task types in turn: those of `held_out_prompts`."""
    return [
        _single(f"{seed}-{number}", prompt.request, prompt.before)
        for number, prompt in enumerate(held_out_prompts(count, seed))
    ]


def request_sample(sample_id: str, request: SceneRequest, scene: Scene) -> EditSample:
    """The request as an unedited sample with object pools."""
    source = render(scene)
    return EditSample(
        sample_id,
        request.instruction,
        (source,),
        source,
        task=request.task,
        pools=update_pools(Pools(scene.names, scene.names, scene.names), request.task, foreground=scene.names),
    )


def without_annotations(sample: EditSample) -> EditSample:
    """The sample with its images and its sentence alone."""
    return EditSample(sample.id, sample.instruction, sample.sources, sample.edited)


def _single(name: str, request: SceneRequest, before: Scene) -> SelectionTrial:
    return SelectionTrial(
        request_sample(name, request, before), lambda picture: float(recovered_truth(request, before, picture).followed)
    )


def compound_trials(count: int, seed: int, level: int) -> list[SelectionTrial]:
    """Held-out compounds of `level` steps, weighted equally. The sample's `operations` are the steps."""
    return [_compound(number, seed, level) for number in range(count)]


def _compound(number: int, seed: int, level: int) -> SelectionTrial:
    compound = random_compound(seeded_rng("test", seed, "learned-compound", number), level, EDITOR_SCENES)
    source = render(compound.scene)
    scenes = compound.scenes
    pools = Pools(compound.scene.names, compound.scene.names, compound.scene.names)
    for step, before in zip(compound.steps, scenes[:-1], strict=True):
        pools = update_pools(pools, step.task, foreground=before.names)
    sample = EditSample(
        f"{seed}-{number}",
        compound.instruction,
        (source,),
        source,
        pools=pools,
        operations=tuple(sample_annotations.operation(step) for step in compound.steps),
    )

    def share(picture: Image) -> float:
        recovered = recover_scene(picture, *scenes).scene
        return sum(
            followed(step, before, recovered) for step, before in zip(compound.steps, scenes[:-1], strict=True)
        ) / len(compound.steps)

    return SelectionTrial(sample, share)
