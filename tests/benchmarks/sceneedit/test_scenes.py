"""Random scenes: what they promise."""

import random

import pytest

from editcritic.benchmarks.sceneedit.render import covered
from editcritic.benchmarks.sceneedit.scenes import SMALL, World, placed_freely, random_scene, random_sign
from editcritic.benchmarks.sceneedit.words import SIGN


def scenes(world, count=60):
    return [random_scene(random.Random(f"scenes {number}"), world) for number in range(count)]


@pytest.mark.parametrize("world", [World.of(32), World.of(64), World.of(128), SMALL], ids=lambda world: str(world.size))
def test_kinds_differ_in_shape_and_colour(world):
    for scene in scenes(world):
        kinds = {thing.like for thing in scene.things}
        assert len({kind[0] for kind in kinds}) == len({kind[1] for kind in kinds}) == len(kinds) == len(scene.names)


def test_twins_share_a_shape_and_nothing_hides_behind_another():
    twins = 0
    for scene in scenes(World(twins=1.0, sign=0.0, copies=0.0), 20):
        shapes = [thing.shape for thing in scene.things]
        twins += len(set(shapes)) < len(shapes)
        assert len({thing.colour for thing in scene.things}) == len(scene.things)
    assert twins > 15  # here and there is no room
    assert all(covered(scene, thing.id) <= 0.2 for scene in scenes(World(overlap=1.0)) for thing in scene.things)


def test_there_are_overlaps_copies_signs_and_every_backdrop():
    found = scenes(World(), 120)
    assert any(covered(scene, thing.id) > 0.05 for scene in found for thing in scene.things)
    assert any(len(scene.called(name)) > 1 for scene in found for name in scene.names)
    assert any(thing.shape == SIGN for scene in found for thing in scene.things)
    assert len({scene.backdrop.kind for scene in found}) == 8


def test_small_targets_are_below_one_percent():
    assert all(thing.w * thing.h < 0.01 for scene in scenes(SMALL) for thing in scene.things)


def test_everything_is_inside_of_the_picture():
    for scene in scenes(World()):
        for thing in scene.things:
            assert thing.box.x0 >= 0
            assert thing.box.y0 >= 0
            assert thing.box.x1 <= 1
            assert thing.box.y1 <= 1


def test_a_full_picture_has_no_free_place():
    scene = random_scene(random.Random(0), World(kinds=(5, 5)))
    sign = random_sign(random.Random(0), scene, "STOP SALE OPEN")
    assert sign.w > 0.9
    assert placed_freely(random.Random(0), scene, sign, within=(0.9, 0.0, 1.0, 1.0)) is None
