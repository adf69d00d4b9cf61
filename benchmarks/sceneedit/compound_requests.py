"""Compounds and compositions: steps requested in one sentence (Complex-Edit's levels C1 to C8), and several sources."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...reward import EditSample, Pools
from ...reward.metrics.edival.task_parser import update_pools
from ...reward.sample import POSITIONS, TASK_TYPES, Task
from ...verifiers.selectors.sequential import join_instructions
from .cases import Case, Split, case_of, seeded_rng
from .failure_modes import FAILURE_MODES
from .ground_truth import (
    GroundTruth,
    captions,
    dimensions,
    expected_state,
    followed,
    kept,
    operation,
    target_boxes,
    target_text,
)
from .render import render
from .scene_generation import SceneConfig, place_randomly, random_scene
from .scene_graph import Scene, SceneObject
from .scene_requests import SceneRequest, position_phrase, random_request, side_region
from .simulated_edits import SimulatedEdit, honest_edit
from .vocabulary import SIGN, TEXT

LEVELS = (1, 2, 3, 4, 5, 6, 7, 8)
_STEP_FAILURE_RATE = 0.2
_MAX_ATTEMPTS = 60
_MAX_STEPS_ALIKE = 4  # steps, beyond which a scene needs more and smaller objects than usual


@dataclass(frozen=True, slots=True)
class CompoundRequest:
    """A scene and the steps of its edit. Each step is about the scene that the steps before it make."""

    scene: Scene
    steps: tuple[SceneRequest, ...]

    @property
    def level(self) -> int:
        return len(self.steps)

    @property
    def instruction(self) -> str:
        """`Remove red circle, add blue star above teal ring, and change the background to snow`."""
        return join_steps([step.instruction for step in self.steps])

    @property
    def scenes(self) -> tuple[Scene, ...]:
        """Before the first step, and after each when all are carried out perfectly: (level + 1,)."""
        scenes = [self.scene]
        for step in self.steps:
            scenes.append(step.apply(scenes[-1]))
        return tuple(scenes)


def join_steps(instructions: Sequence[str]) -> str:
    """Several instructions as one sentence, without a background change's list of what to keep."""
    return join_instructions([instruction.partition(", remain ")[0] for instruction in instructions])


def random_compound(rng: random.Random, level: int, config: SceneConfig) -> CompoundRequest:
    """A compound of this level. No step undoes another, and no two are about one object."""
    if level not in LEVELS:
        raise ValueError(f"there is no level {level}: compounds have {LEVELS[0]} to {LEVELS[-1]} steps")
    if level > _MAX_STEPS_ALIKE:
        most, (least_wide, widest) = config.distinct_objects[1], config.diameter
        smaller = 1.0 if config.cell else 0.8  # cells keep objects apart that fill them
        config = replace(config, distinct_objects=(most, most + 2), diameter=(smaller * least_wide, smaller * widest))
    while True:
        base = random_scene(rng, config)
        steps: list[SceneRequest] = []
        scene, touched = base, frozenset[int]()
        for _ in range(_MAX_ATTEMPTS):
            kinds = [kind for kind in TASK_TYPES if kind == "subject_add" or not _type_exhausted(steps, kind)]
            request = random_request(rng, scene, config, rng.choice(kinds), excluded_ids=touched)
            if request is None:
                continue
            after = request.apply(scene)
            if not _all_followed([*steps, request], base, after):
                continue
            steps.append(request)
            scene, touched = after, touched | request.affected_ids
            if len(steps) == level:
                return CompoundRequest(base, tuple(steps))


def _type_exhausted(steps: Sequence[SceneRequest], kind: str) -> bool:
    """Whether a type has been used often enough: twice, the background once."""
    used = sum(step.task.type == kind for step in steps)
    return used >= (1 if kind in ("background_change", "text_change") else 2)


def _all_followed(steps: Sequence[SceneRequest], base: Scene, after: Scene) -> bool:
    scene = base
    for step in steps:
        if not followed(step, scene, after):
            return False
        scene = step.apply(scene)
    return True


def compound_cases(
    count: int, *, seed: int = 0, split: Split = "test", size: int = 64, levels: Sequence[int] = LEVELS
) -> list[Case]:
    """`count` compound edits, levels in turn. Each step fails in a fifth of the cases.

    `sample.operations` holds the atomic instructions; `sample.task` is None, as the sentence has none of the nine
    forms. The truth is `followed` where all steps are; `steps_followed` says which.
    """
    compounds = []
    for number in range(count):
        rng = seeded_rng(split, seed, "compound", number)
        compound = random_compound(rng, levels[number % len(levels)], SceneConfig.for_size(size))
        compounds.append(_compound_case(rng, compound, SceneConfig.for_size(size), f"{split}-{seed}-compound-{number}"))
    return compounds


def _compound_case(rng: random.Random, compound: CompoundRequest, config: SceneConfig, name: str) -> Case:
    scene = compound.scene
    turns: list[SimulatedEdit] = []
    for step in compound.steps:
        edit = None
        if rng.random() < _STEP_FAILURE_RATE:
            edit = rng.choice(FAILURE_MODES).edit(rng, step, scene, config)
        if edit is None or edit.corruptions:  # what is done to a whole image is not done to a step
            edit = honest_edit(rng, step, scene, config)
        turns.append(edit)
        scene = edit.after
    steps = tuple(followed(turn.request, turn.before, scene) for turn in turns)
    ideal = compound.scenes[-1]
    pools = Pools(compound.scene.names, compound.scene.names, compound.scene.names)
    for turn in turns:
        pools = update_pools(pools, turn.request.task, foreground=turn.before.names)
    sample = EditSample(
        name,
        compound.instruction,
        (render(compound.scene),),
        render(scene),
        pools=pools,
        reference=render(ideal),
        operations=tuple(operation(step) for step in compound.steps),
        targets=tuple(box for step in compound.steps for box in target_boxes(step, compound.scene)),
        target_text=target_text(compound.steps),
        hint=expected_state(compound.steps),
        dimensions=dimensions(compound.steps),
        metadata={"level": compound.level, **captions(compound.scene, ideal)},
    )
    truth = GroundTruth(all(steps), *kept(compound.steps, compound.scene, scene))
    flaws = [turn.mode for turn in turns if turn.mode]
    severity = len(flaws) / len(turns)
    return Case(
        sample, truth, "compound", "+".join(flaws), severity, before=compound.scene, after=scene, steps_followed=steps
    )


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
