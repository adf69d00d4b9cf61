"""Requests: nine types, each with words that EdiVal's parser reads back, and a perfect edit that is one."""

import random

import pytest

from editcritic.benchmarks.sceneedit.requests import random_request
from editcritic.benchmarks.sceneedit.scenes import SMALL, World, random_scene
from editcritic.benchmarks.sceneedit.truth import followed, kept
from editcritic.reward.edival.instructions import parse
from editcritic.reward.edival.pools import renamed
from editcritic.reward.sample import TASK_TYPES

WORLDS = [World.of(32), World.of(64), SMALL]


def requests(kind, world, count=25):
    found = []
    for number in range(10 * count):
        chance = random.Random(f"requests {number}")
        scene = random_scene(chance, world)
        request = random_request(chance, scene, world, kind)
        if request is not None:
            found.append((scene, request))
        if len(found) == count:
            return found
    raise AssertionError(f"fewer than {count} of {10 * count} scenes allow {kind}")


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: str(world.size))
@pytest.mark.parametrize("kind", TASK_TYPES)
def test_carrying_out_follows_and_keeps_everything_else(kind, world):
    for scene, request in requests(kind, world):
        after = request.carry_out(scene)
        assert followed(request, scene, after)
        assert not followed(request, scene, scene)
        assert kept([request], scene, after) in [(1.0, 1.0), (None, 1.0), (1.0, None), (None, None)]


@pytest.mark.parametrize("kind", TASK_TYPES)
def test_the_words_say_the_task(kind):
    for _, request in requests(kind, World.of(64)):
        assert parse(request.instruction) == request.task


@pytest.mark.parametrize("kind", ["color_alter", "material_alter"])
def test_things_are_called_as_edival_renames_them(kind):
    for _, request in requests(kind, World.of(64)):
        assert renamed(request.task) == request.put[0].name


def test_what_must_be_left_alone_is():
    for scene, request in requests("color_alter", World.of(64), 10):
        chance = random.Random(0)
        others = [random_request(chance, scene, World.of(64), "color_alter", leave=request.touches) for _ in range(9)]
        assert all(other is None or not other.touches & request.touches for other in others)


def test_a_later_turn_leaves_alone_what_its_request_does_not_speak_of():
    """An earlier turn that went wrong is not repaired by the way."""
    scene, request = requests("position_change", World.of(64), 1)[0]
    thing = scene.get(request.targets[0])
    recoloured = scene.with_thing(type(thing)(**{**{s: getattr(thing, s) for s in thing.__slots__}, "colour": "pink"}))
    moved = request.carry_out(recoloured).get(thing.id)
    assert moved.colour == "pink"
    assert (moved.x, moved.y) == (request.put[0].x, request.put[0].y)


def test_a_request_about_something_that_is_gone_is_not_followed():
    for kind in ("subject_remove", "color_alter", "position_change", "count_change"):
        scene, request = requests(kind, World.of(64), 1)[0]
        without = scene.without(request.targets)
        assert not followed(request, without, request.carry_out(without))
