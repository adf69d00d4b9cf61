"""Good edits of SceneEdit scenes, whose truth is known: what the installed rewards are audited on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from editcritic.benchmarks.sceneedit.cases import Case, case_of, seeded_rng
from editcritic.benchmarks.sceneedit.compound_requests import composition_cases, compound_cases
from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig, random_scene
from editcritic.benchmarks.sceneedit.scene_requests import random_request
from editcritic.benchmarks.sceneedit.simulated_edits import SimulatedEdit, honest_edit
from editcritic.reward.sample import TASK_TYPES, TaskType

LEVELS = (2, 3)
"""Steps of the compounds, in turn."""


def good_edits(seed: int, *, size: int = 128, per_type: int = 2, others: int = 4) -> list[Case]:
    """Edits that follow their instruction, each of another scene.

    `per_type` of each task type; `others` that are the second turn of a chain, as many compounds, and as many that put
    an object of a second source into the first. size: pixels a side.
    """
    singles = [_chain(seed, number, size, [TASK_TYPES[number % len(TASK_TYPES)]]) for number in range(per_type * 9)]
    turns = [
        _chain(seed, len(singles) + number, size, [TASK_TYPES[(number + 4) % 9], TASK_TYPES[number % 9]])
        for number in range(others)
    ]
    return [*singles, *turns, *_compounds(seed, others, size), *_compositions(seed, others, size)]


def _chain(seed: int, number: int, size: int, types: Sequence[TaskType]) -> Case:
    rng, config = seeded_rng("test", seed, "audited edit", number), SceneConfig.for_size(size)
    while True:
        edits: list[SimulatedEdit] = []
        scene = random_scene(rng, config)
        for task_type in types:
            request = random_request(rng, scene, config, task_type)
            if request is None:
                break
            edits.append(honest_edit(rng, request, scene, config))
            scene = edits[-1].after
        else:
            case = case_of(edits, f"{seed}-{'-'.join(types)}-{number}")
            if case.truth.followed:
                return case


def _compounds(seed: int, count: int, size: int) -> list[Case]:
    return _first_good(count, lambda drawn: compound_cases(drawn, seed=seed, size=size, levels=LEVELS))


def _compositions(seed: int, count: int, size: int) -> list[Case]:
    return _first_good(count, lambda drawn: composition_cases(drawn, seed=seed, size=size))


def _first_good(count: int, draw: Callable[[int], list[Case]]) -> list[Case]:
    """The first good ones; a longer draw begins as a shorter one."""
    drawn = 4 * count
    while len(good := [case for case in draw(drawn) if not case.mode and case.truth.followed]) < count:
        drawn *= 2
    return good[:count]
