"""Backdrops are classified in any daylight, at any size, and behind many objects."""

import random
from dataclasses import replace

import numpy as np
import pytest

from editcritic.benchmarks.sceneedit.experts.perception import classify_backdrop
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig, random_scene
from editcritic.benchmarks.sceneedit.scene_graph import Backdrop, Light, Scene, SceneObject
from editcritic.benchmarks.sceneedit.vocabulary import BACKDROPS, COLOURS


def classified(picture):
    sure = classify_backdrop(picture.pixels)
    return max(sure, key=lambda name: sure[name])


@pytest.mark.parametrize("kind", BACKDROPS)
@pytest.mark.parametrize("gain", [0.85, 1.0, 1.15, 1.25])
def test_a_backdrop_is_told_in_any_light(kind, gain):
    for seed in range(8):
        scene = Scene((), Backdrop(kind, seed), Light(gain, 0.12, seed / 8), noise=4.0, noise_seed=seed)
        assert classified(render(scene)) == kind


@pytest.mark.parametrize(("size", "side"), [(32, 32), (64, 64), (128, 128), (64, 512)])
def test_a_backdrop_is_told_behind_things(size, side):
    for number in range(24):
        scene = random_scene(random.Random(number), SceneConfig.for_size(size))
        kind = BACKDROPS[number % 8]
        scene = replace(scene, backdrop=Backdrop(kind, number))
        assert classified(render(scene).resized(side, side)) == kind


@pytest.mark.parametrize("kind", BACKDROPS)
@pytest.mark.parametrize("colour", COLOURS)
def test_things_that_cover_45_percent_do_not_hide_it(kind, colour):
    objects = (SceneObject(1, "square", colour, 0.5, 0.5, 0.45**0.5, 0.45**0.5),)
    assert classified(render(Scene(objects, Backdrop(kind, 3)))) == kind


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (3, 200)])
def test_pictures_of_any_shape_have_an_answer(shape):
    assert sum(classify_backdrop(np.full((*shape, 3), 150, np.uint8)).values()) == pytest.approx(1)
