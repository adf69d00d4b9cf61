"""Requests: nine types, each with words that EdiVal's parser reads back, and a perfect edit that is one."""

import random

import pytest

from editcritic.benchmarks.sceneedit.ground_truth import followed, kept
from editcritic.benchmarks.sceneedit.scene_generation import SMALL_OBJECT_SCENES, SceneConfig, random_scene
from editcritic.benchmarks.sceneedit.scene_requests import random_request
from editcritic.reward.metrics.edival.task_parser import parse_task
from editcritic.reward.sample import TASK_TYPES

WORLDS = [SceneConfig.for_size(32), SceneConfig.for_size(64), SMALL_OBJECT_SCENES]


def requests(kind, config, count=25):
    pairs = []
    for number in range(10 * count):
        rng = random.Random(f"requests {number}")
        scene = random_scene(rng, config)
        request = random_request(rng, scene, config, kind)
        if request is not None:
            pairs.append((scene, request))
        if len(pairs) == count:
            return pairs
    raise AssertionError(f"fewer than {count} of {10 * count} scenes allow {kind}")


@pytest.mark.parametrize("config", WORLDS, ids=lambda config: str(config.size))
@pytest.mark.parametrize("kind", TASK_TYPES)
def test_carrying_out_follows_and_keeps_everything_else(kind, config):
    for scene, request in requests(kind, config):
        after = request.apply(scene)
        assert followed(request, scene, after)
        assert not followed(request, scene, scene)
        assert kept([request], scene, after) in [(1.0, 1.0), (None, 1.0), (1.0, None), (None, None)]


@pytest.mark.parametrize("kind", TASK_TYPES)
def test_the_words_say_the_task(kind):
    for _, request in requests(kind, SceneConfig.for_size(64)):
        assert parse_task(request.instruction) == request.task


def test_a_later_turn_leaves_alone_what_its_request_does_not_speak_of():
    """An earlier turn that went wrong is not repaired by the way."""
    scene, request = requests("position_change", SceneConfig.for_size(64), 1)[0]
    obj = scene.object_by_id(request.target_ids[0])
    recoloured = scene.with_object(type(obj)(**{**{s: getattr(obj, s) for s in obj.__slots__}, "colour": "pink"}))
    moved = request.apply(recoloured).object_by_id(obj.id)
    assert moved.colour == "pink"
    assert (moved.x, moved.y) == (request.placed[0].x, request.placed[0].y)


def test_a_request_about_something_that_is_gone_is_not_followed():
    for kind in ("subject_remove", "color_alter", "position_change", "count_change"):
        scene, request = requests(kind, SceneConfig.for_size(64), 1)[0]
        without = scene.without(request.target_ids)
        assert not followed(request, without, request.apply(without))
