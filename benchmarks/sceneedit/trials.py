"""What selection is tried on: edits that the tiny editor is asked for, and the truth about what it made of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...reward import EditSample, Image, Pools
from ...reward.edival.pools import apply
from ..sceneedit import annotation
from ..sceneedit.cases import chance_of
from ..sceneedit.compounds import random_compound
from ..sceneedit.learned.card import prompts
from ..sceneedit.learned.lessons import WORLD
from ..sceneedit.learned.verdict import verdict
from ..sceneedit.reidentify import reidentify
from ..sceneedit.render import render
from ..sceneedit.requests import Request
from ..sceneedit.scene import Scene
from ..sceneedit.truth import followed

Truth = Callable[[Image], float]
"""How much of what was asked for a picture shows, in [0, 1]."""


@dataclass(frozen=True, slots=True)
class Trial:
    """sample: what is asked for, unedited. followed: of a picture, the share of the instructions it follows."""

    sample: EditSample
    followed: Truth


def single(count: int, seed: int) -> list[Trial]:
    """Held-out edits of one instruction each, task types in turn: the prompts of the editor's card (`card.prompts`)."""
    return [_single(f"{seed}-{number}", one.request, one.before) for number, one in enumerate(prompts(count, seed))]


def wanted(name: str, request: Request, before: Scene) -> EditSample:
    """What is asked for of a scene, unedited."""
    source = render(before)
    return EditSample(
        name,
        request.instruction,
        (source,),
        source,
        task=request.task,
        pools=apply(Pools(before.names, before.names, before.names), request.task, foreground=before.names),
    )


def _single(name: str, request: Request, before: Scene) -> Trial:
    return Trial(wanted(name, request, before), lambda picture: float(verdict(request, before, picture).followed))


def compound(count: int, seed: int, level: int) -> list[Trial]:
    """Held-out compounds of so many steps. Each step counts alike; the sample's `operations` are the steps."""
    return [_compound(number, seed, level) for number in range(count)]


def _compound(number: int, seed: int, level: int) -> Trial:
    made = random_compound(chance_of("test", seed, "learned-compound", number), level, WORLD)
    source = render(made.scene)
    scenes = made.scenes
    pools = Pools(made.scene.names, made.scene.names, made.scene.names)
    for step, before in zip(made.steps, scenes[:-1], strict=True):
        pools = apply(pools, step.task, foreground=before.names)
    sample = EditSample(
        f"{seed}-{number}",
        made.instruction,
        (source,),
        source,
        pools=pools,
        operations=tuple(annotation.operation(step) for step in made.steps),
    )

    def share(picture: Image) -> float:
        seen = reidentify(picture, *scenes).scene
        return sum(followed(step, before, seen) for step, before in zip(made.steps, scenes[:-1], strict=True)) / len(
            made.steps
        )

    return Trial(sample, share)
