"""Compositions of several images: an object of one source is to be put into another."""

from __future__ import annotations

import random
from dataclasses import replace

from ...reward.sample import POSITIONS, Task
from .cases import Case, Split, case_of, seeded_rng
from .failure_modes import FAILURE_MODES
from .render import render
from .scene_generation import SceneConfig, place_randomly, random_scene
from .scene_graph import Scene, SceneObject
from .scene_requests import SceneRequest, position_phrase, side_region
from .simulated_edits import SimulatedEdit, honest_edit
from .vocabulary import SIGN, TEXT

_HONEST_SHARE = 0.5


def random_composition(rng: random.Random, config: SceneConfig) -> tuple[Scene, Scene, SceneRequest]:
    """The scene to edit, the scene to take an object from, and the request."""
    while True:
        into, origin = random_scene(rng, config), random_scene(rng, config)
        objects = [obj for obj in origin.objects if _is_transferable(obj, origin, into)]
        references = [obj for obj in into.objects if len(into.named(obj.name)) == 1]
        placements = [
            (obj, reference, position) for obj in objects for reference in references for position in POSITIONS
        ]
        rng.shuffle(placements)
        for obj, reference, position in placements:
            new = replace(obj, id=into.next_id)
            at = place_randomly(rng, into, new, within=side_region(position, reference))
            if at is not None:
                instruction = (
                    f"Put {obj.name} of the second picture into the first one, "
                    f"{position_phrase(position)} {reference.name}"
                )
                task = Task("subject_add", new=obj.name, position=position, reference=reference.name)
                return into, origin, SceneRequest(task, instruction, reference_id=reference.id, placed=(at,))


def _is_transferable(obj: SceneObject, origin: Scene, into: Scene) -> bool:
    if obj.shape == TEXT or len(origin.named(obj.name)) > 1:
        return False
    return all(obj.shape != other.shape and obj.colour != other.colour for other in into.objects)


def composition_cases(count: int, *, seed: int = 0, split: Split = "test", size: int = 64) -> list[Case]:
    """Compositions of two sources, half of them honest. They have one failure mode of their own: `wrong_source` takes
    another object of the second image.
    """
    composed = []
    for number in range(count):
        rng = seeded_rng(split, seed, "composition", number)
        config = SceneConfig.for_size(size)
        into, origin, request = random_composition(rng, config)
        edit = honest_edit(rng, request, into, config)
        if rng.random() >= _HONEST_SHARE:
            edit = _flawed(rng, into, origin, request, config) or edit
        name = f"{split}-{seed}-composition-{number}"
        composed.append(case_of([edit], name, extra_sources=(render(origin),)))
    return composed


def _flawed(
    rng: random.Random, into: Scene, origin: Scene, request: SceneRequest, config: SceneConfig
) -> SimulatedEdit | None:
    others = [obj for obj in origin.objects if obj.name != request.task.new and obj.shape not in (SIGN, TEXT)]
    if others and rng.random() < 0.25:
        wrong = replace(rng.choice(others), id=request.placed[0].id, x=request.placed[0].x, y=request.placed[0].y)
        after = replace(into.with_object(wrong), noise_seed=rng.randrange(2**31))
        return SimulatedEdit(request, into, after, mode="wrong_source", severity=1.0)
    return rng.choice(FAILURE_MODES).edit(rng, request, into, config)
