"""Compound instructions: one to eight atomic steps asked for in one sentence (Complex-Edit's levels C1 to C8)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...reward import EditSample, Pools
from ...reward.edival.pools import apply
from ...reward.sample import TASK_TYPES
from ...verifiers.sequential import joined as in_one_sentence
from . import annotation
from .cases import Case, Split, chance_of
from .editors import Edit, honest
from .failures import MODES
from .render import render
from .requests import Request, random_request
from .scene import Scene
from .scenes import World, random_scene
from .truth import Truth, followed, kept

LEVELS = (1, 2, 3, 4, 5, 6, 7, 8)
_FLAWED = 0.2  # chance that a step goes wrong
_TRIES = 60
_MANY = 4  # steps, beyond which a scene needs more and smaller things than usual


@dataclass(frozen=True, slots=True)
class Compound:
    """A scene, the steps, each about the scene that those before it make, and all of them in one sentence."""

    scene: Scene
    steps: tuple[Request, ...]

    @property
    def level(self) -> int:
        return len(self.steps)

    @property
    def instruction(self) -> str:
        """`Remove red circle, add blue star above teal ring, and change the background to snow`."""
        return joined([step.instruction for step in self.steps])

    @property
    def scenes(self) -> tuple[Scene, ...]:
        """Before the first step, and after each when all are carried out perfectly: (level + 1,)."""
        found = [self.scene]
        for step in self.steps:
            found.append(step.carry_out(found[-1]))
        return tuple(found)


def joined(instructions: Sequence[str]) -> str:
    """Several instructions as one sentence; what a background change lists to be kept is left out."""
    return in_one_sentence([instruction.partition(", remain ")[0] for instruction in instructions])


def random_compound(chance: random.Random, level: int, world: World) -> Compound:
    """A compound of this level. No step undoes another, and no two are about one thing."""
    if level not in LEVELS:
        raise ValueError(f"there is no level {level}: compounds have {LEVELS[0]} to {LEVELS[-1]} steps")
    if level > _MANY:
        most, (least_wide, widest) = world.kinds[1], world.diameter
        smaller = 1.0 if world.cell else 0.8  # cells keep things apart that fill them
        world = replace(world, kinds=(most, most + 2), diameter=(smaller * least_wide, smaller * widest))
    while True:
        base = random_scene(chance, world)
        steps: list[Request] = []
        scene, touched = base, frozenset[int]()
        for _ in range(_TRIES):
            kinds = [kind for kind in TASK_TYPES if kind == "subject_add" or not _holds(steps, kind)]
            request = random_request(chance, scene, world, chance.choice(kinds), leave=touched)
            if request is None:
                continue
            after = request.carry_out(scene)
            if not _stands([*steps, request], base, after):
                continue
            steps.append(request)
            scene, touched = after, touched | request.touches
            if len(steps) == level:
                return Compound(base, tuple(steps))


def _holds(steps: Sequence[Request], kind: str) -> bool:
    """Whether a type has been used often enough: twice, the background once."""
    used = sum(step.task.type == kind for step in steps)
    return used >= (1 if kind in ("background_change", "text_change") else 2)


def _stands(steps: Sequence[Request], base: Scene, after: Scene) -> bool:
    """Whether all that was asked holds at the end."""
    scene = base
    for step in steps:
        if not followed(step, scene, after):
            return False
        scene = step.carry_out(scene)
    return True


def compound_cases(
    count: int, *, seed: int = 0, split: Split = "test", size: int = 64, levels: Sequence[int] = LEVELS
) -> list[Case]:
    """That many compound edits, levels in turn. Each step goes wrong in a fifth of the cases.

    `sample.operations` holds the atomic instructions; `sample.task` is None, as the sentence is of none of the
    nine forms. The truth is `followed` where all steps are; `steps` says which.
    """
    found = []
    for number in range(count):
        chance = chance_of(split, seed, "compound", number)
        compound = random_compound(chance, levels[number % len(levels)], World.of(size))
        found.append(_made(chance, compound, World.of(size), f"{split}-{seed}-compound-{number}"))
    return found


def _made(chance: random.Random, compound: Compound, world: World, name: str) -> Case:
    scene = compound.scene
    turns: list[Edit] = []
    for step in compound.steps:
        edit = None
        if chance.random() < _FLAWED:
            edit = chance.choice(MODES).edit(chance, step, scene, world)
        if edit is None or edit.marks:  # what is done to a whole picture is not done to a step
            edit = honest(chance, step, scene, world)
        turns.append(edit)
        scene = edit.after
    steps = tuple(followed(turn.request, turn.before, scene) for turn in turns)
    ideal = compound.scenes[-1]
    pools = Pools(compound.scene.names, compound.scene.names, compound.scene.names)
    for turn in turns:
        pools = apply(pools, turn.request.task, foreground=turn.before.names)
    sample = EditSample(
        name,
        compound.instruction,
        (render(compound.scene),),
        render(scene),
        pools=pools,
        reference=render(ideal),
        operations=tuple(annotation.operation(step) for step in compound.steps),
        targets=tuple(box for step in compound.steps for box in annotation.targets(step, compound.scene)),
        text=annotation.text(compound.steps),
        hint=annotation.hint(compound.steps),
        dimensions=annotation.dimensions(compound.steps),
        metadata={"level": compound.level, **annotation.captions(compound.scene, ideal)},
    )
    truth = Truth(all(steps), *kept(compound.steps, compound.scene, scene))
    flaws = [turn.mode for turn in turns if turn.mode]
    severity = len(flaws) / len(turns)
    return Case(sample, truth, "compound", "+".join(flaws), severity, before=compound.scene, after=scene, steps=steps)
