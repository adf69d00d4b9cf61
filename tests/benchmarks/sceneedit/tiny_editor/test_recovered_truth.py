"""The truth about pictures without a recipe: what was done, and how many pixels were left alone."""

import random

import numpy as np
import pytest

from editcritic.benchmarks.sceneedit.cases import asked
from editcritic.benchmarks.sceneedit.editors import honest
from editcritic.benchmarks.sceneedit.failures import mode
from editcritic.benchmarks.sceneedit.learned.lessons import WORLD
from editcritic.benchmarks.sceneedit.learned.verdict import verdict
from editcritic.benchmarks.sceneedit.render import render
from editcritic.reward import Image
from editcritic.reward.sample import TASK_TYPES


def drawn(kind, number=0):
    return asked(random.Random(f"{kind} {number}"), WORLD, kind)


@pytest.mark.parametrize("kind", TASK_TYPES)
def test_a_perfect_edit_is_followed_and_leaves_the_rest_alone(kind):
    found = []
    for number in range(10):
        scene, request = drawn(kind, number)
        found.append(verdict(request, scene, render(request.carry_out(scene))))
    assert sum(one.followed for one in found) >= 9
    assert np.mean([one.unchanged for one in found]) > 0.995


def test_an_honest_hand_stays_within_the_tolerance():
    found = []
    for number in range(90):
        chance = random.Random(number)
        scene, request = asked(chance, WORLD, TASK_TYPES[number % 9])
        found.append(verdict(request, scene, honest(chance, request, scene, WORLD).picture))
    assert np.mean([one.followed for one in found]) > 0.93
    assert np.mean([one.unchanged for one in found]) == pytest.approx(0.998, abs=0.002)


@pytest.mark.parametrize("kind", TASK_TYPES)
def test_a_copy_follows_nothing_and_leaves_everything_alone(kind):
    scene, request = drawn(kind)
    found = verdict(request, scene, render(scene))
    assert (found.followed, found.unchanged) == (False, 1.0)


@pytest.mark.parametrize("level", [0, 127, 255])
def test_a_blank_picture_leaves_nothing_alone(level):
    for kind in ("color_alter", "subject_add", "text_change", "background_change"):
        scene, request = drawn(kind)
        found = verdict(request, scene, Image.of(np.full((32, 32, 3), level, np.uint8)))
        assert not found.followed
        assert found.unchanged < 0.2


def test_what_happens_to_another_thing_counts():
    chance = random.Random(1)
    scene, request = next(
        (scene, request)
        for scene, request in (asked(chance, WORLD, "color_alter") for _ in range(50))
        if len(scene.things) == len({thing.name for thing in scene.things}) > 2
    )
    both = mode("neighbour_too").edit(chance, request, scene, WORLD)
    assert both is not None
    found = verdict(request, scene, both.picture)
    assert found.followed
    assert 0.9 < found.unchanged < 0.985


def test_another_size_is_refused():
    scene, request = drawn("subject_remove")
    with pytest.raises(ValueError, match="64 x 64"):
        verdict(request, scene, Image.of(np.zeros((64, 64, 3), np.uint8)))
