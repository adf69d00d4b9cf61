"""Random scenes: what they promise."""

import random
from dataclasses import replace

import pytest

from editcritic.benchmarks.sceneedit.render import covered
from editcritic.benchmarks.sceneedit.requests import random_request
from editcritic.benchmarks.sceneedit.scene import Backdrop, Scene
from editcritic.benchmarks.sceneedit.scenes import (
    CELLS,
    SMALL,
    World,
    placed_first,
    placed_freely,
    random_scene,
    random_sign,
)
from editcritic.benchmarks.sceneedit.words import SIGN
from editcritic.reward.sample import TASK_TYPES

from .cells import cells


def scenes(world, count=60):
    return [random_scene(random.Random(f"scenes {number}"), world) for number in range(count)]


@pytest.mark.parametrize(
    "world", [World.of(32), World.of(64), World.of(128), SMALL, CELLS], ids=lambda one: f"{one.size} {one.cell}"
)
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


def test_a_sign_that_snaps_to_a_pixel_may_leave_its_room_by_a_fraction_of_one():
    scene = Scene((), Backdrop("snow"))
    sign = random_sign(random.Random(0), scene)
    for column in (0.5, 0.503, 0.507):
        at = placed_freely(random.Random(0), scene, sign, within=(column, 0.0, column, 1.0))
        assert at is not None
        assert abs(at.x - column) <= 0.5 / scene.size


def test_things_stand_in_cells_of_their_own_also_after_an_edit():
    for number, scene in enumerate(scenes(CELLS, 90)):
        assert len(cells(scene)) == len({*cells(scene)}) == len(scene.things) >= 2
        request = random_request(random.Random(number), scene, CELLS, TASK_TYPES[number % 9])
        if request is not None:
            after = cells(request.carry_out(scene))
            assert len(after) == len({*after})


def test_the_first_place_that_is_free_is_taken():
    scene = scenes(CELLS, 1)[0]
    taken = scene.things[0]
    new = replace(taken, id=99)
    free = placed_freely(random.Random(0), scene, new)
    assert free is not None
    assert placed_first(scene, new, [(taken.x, taken.y), (2.0, 0.1), (free.x, free.y)]) == free
    assert placed_first(scene, new, [(taken.x, taken.y)]) is None
    assert placed_first(scene, new, [(taken.x, taken.y)], ignoring=[taken.id]) == replace(taken, id=99)
    assert placed_first(scene, new, [(free.x, free.y)], within=(0.0, 0.0, 0.01, 0.01)) is None
