"""Compositions of several pictures: a thing of one source is to be put into another."""

from __future__ import annotations

import random
from dataclasses import replace

from ...reward.sample import POSITIONS, Task
from .cases import Case, Split, case_of, chance_of
from .editors import Edit, honest
from .failures import MODES
from .render import render
from .requests import Request, said_place, side_of
from .scene import Scene, Thing
from .scenes import World, placed_freely, random_scene
from .words import SIGN, TEXT

_HONEST = 0.5


def random_composition(chance: random.Random, world: World) -> tuple[Scene, Scene, Request]:
    """The scene to edit, the scene to take a thing from, and what is asked."""
    while True:
        into, origin = random_scene(chance, world), random_scene(chance, world)
        things = [thing for thing in origin.things if _can_go(thing, origin, into)]
        references = [thing for thing in into.things if len(into.called(thing.name)) == 1]
        places = [(thing, other, place) for thing in things for other in references for place in POSITIONS]
        chance.shuffle(places)
        for thing, reference, position in places:
            new = replace(thing, id=into.next_id)
            at = placed_freely(chance, into, new, within=side_of(position, reference))
            if at is not None:
                words = (
                    f"Put {thing.name} of the second picture into the first one, "
                    f"{said_place(position)} {reference.name}"
                )
                task = Task("subject_add", new=thing.name, position=position, reference=reference.name)
                return into, origin, Request(task, words, reference=reference.id, put=(at,))


def _can_go(thing: Thing, origin: Scene, into: Scene) -> bool:
    if thing.shape == TEXT or len(origin.called(thing.name)) > 1:
        return False
    return all(thing.shape != other.shape and thing.colour != other.colour for other in into.things)


def composition_cases(count: int, *, seed: int = 0, split: Split = "test", size: int = 64) -> list[Case]:
    """That many compositions of two sources, half of them honest. One way to fail is theirs alone: `wrong_source`
    takes another thing of the second picture.
    """
    found = []
    for number in range(count):
        chance = chance_of(split, seed, "composition", number)
        world = World.of(size)
        into, origin, request = random_composition(chance, world)
        edit = honest(chance, request, into, world)
        if chance.random() >= _HONEST:
            edit = _flawed(chance, into, origin, request, world) or edit
        name = f"{split}-{seed}-composition-{number}"
        found.append(case_of([edit], name, others=(render(origin),)))
    return found


def _flawed(chance: random.Random, into: Scene, origin: Scene, request: Request, world: World) -> Edit | None:
    others = [thing for thing in origin.things if thing.name != request.task.new and thing.shape not in (SIGN, TEXT)]
    if others and chance.random() < 0.25:
        wrong = replace(chance.choice(others), id=request.put[0].id, x=request.put[0].x, y=request.put[0].y)
        after = replace(into.with_thing(wrong), noise_seed=chance.randrange(2**31))
        return Edit(request, into, after, mode="wrong_source", severity=1.0)
    return chance.choice(MODES).edit(chance, request, into, world)
