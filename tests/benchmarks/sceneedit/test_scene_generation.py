"""Random scenes: what they promise."""

import random
from dataclasses import replace

import pytest

from editcritic.benchmarks.sceneedit.render import occluded_share
from editcritic.benchmarks.sceneedit.scene_generation import (
    GRID_SCENES,
    SMALL_OBJECT_SCENES,
    SceneConfig,
    place_first_fit,
    place_randomly,
    random_scene,
)
from editcritic.benchmarks.sceneedit.scene_requests import random_request
from editcritic.benchmarks.sceneedit.vocabulary import SIGN
from editcritic.reward.sample import TASK_TYPES

from .grid_cells import cells


def scenes(config, count=60):
    return [random_scene(random.Random(f"scenes {number}"), config) for number in range(count)]


@pytest.mark.parametrize(
    "config",
    [SceneConfig.for_size(32), SceneConfig.for_size(64), SceneConfig.for_size(128), SMALL_OBJECT_SCENES, GRID_SCENES],
    ids=lambda one: f"{one.size} {one.cell}",
)
def test_kinds_differ_in_shape_and_colour(config):
    for scene in scenes(config):
        kinds = {obj.appearance for obj in scene.objects}
        assert len({kind[0] for kind in kinds}) == len({kind[1] for kind in kinds}) == len(kinds) == len(scene.names)


def test_there_are_overlaps_copies_signs_and_every_backdrop():
    random_scenes = scenes(SceneConfig(), 120)
    assert any(occluded_share(scene, obj.id) > 0.05 for scene in random_scenes for obj in scene.objects)
    assert any(len(scene.named(name)) > 1 for scene in random_scenes for name in scene.names)
    assert any(obj.shape == SIGN for scene in random_scenes for obj in scene.objects)
    assert len({scene.backdrop.kind for scene in random_scenes}) == 8


def test_small_targets_are_below_one_percent():
    assert all(obj.w * obj.h < 0.01 for scene in scenes(SMALL_OBJECT_SCENES) for obj in scene.objects)


def test_everything_is_inside_of_the_picture():
    for scene in scenes(SceneConfig()):
        for obj in scene.objects:
            assert obj.box.x0 >= 0
            assert obj.box.y0 >= 0
            assert obj.box.x1 <= 1
            assert obj.box.y1 <= 1


def test_things_stand_in_cells_of_their_own_also_after_an_edit():
    for number, scene in enumerate(scenes(GRID_SCENES, 90)):
        assert len(cells(scene)) == len({*cells(scene)}) == len(scene.objects) >= 2
        request = random_request(random.Random(number), scene, GRID_SCENES, TASK_TYPES[number % 9])
        if request is not None:
            after = cells(request.apply(scene))
            assert len(after) == len({*after})


def test_the_first_place_that_is_free_is_taken():
    scene = scenes(GRID_SCENES, 1)[0]
    taken = scene.objects[0]
    new = replace(taken, id=99)
    free = place_randomly(random.Random(0), scene, new)
    assert free is not None
    assert place_first_fit(scene, new, [(taken.x, taken.y), (2.0, 0.1), (free.x, free.y)]) == free
    assert place_first_fit(scene, new, [(taken.x, taken.y)]) is None
    assert place_first_fit(scene, new, [(taken.x, taken.y)], ignored_ids=[taken.id]) == replace(taken, id=99)
    assert place_first_fit(scene, new, [(free.x, free.y)], within=(0.0, 0.0, 0.01, 0.01)) is None
