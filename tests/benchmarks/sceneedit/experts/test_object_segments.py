"""What segments say of drawn objects, against what was drawn."""

import random

import numpy as np
import pytest

from editcritic.benchmarks.sceneedit.experts.object_segments import detect_objects
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig, random_scene
from editcritic.benchmarks.sceneedit.scene_graph import Backdrop, Scene, SceneObject
from editcritic.benchmarks.sceneedit.vocabulary import BACKDROPS, COLOURS


@pytest.mark.parametrize(("opacity", "count"), [(0.1, 0), (0.3, 1), (0.6, 1)])
def test_a_faint_thing_is_seen_and_a_shadow_of_one_is_not(opacity, count):
    for number, backdrop in enumerate(BACKDROPS):
        obj = SceneObject(1, "circle", COLOURS[number], 0.5, 0.5, 0.3, 0.3, opacity=opacity)
        segments = detect_objects(render(Scene((obj,), Backdrop(backdrop, 3))).pixels)
        assert len(segments) == count
        assert all(one.opacity == pytest.approx(opacity, abs=0.15) for one in segments)


def test_an_empty_picture_and_a_sliver_hold_nothing():
    for backdrop in BACKDROPS:
        assert detect_objects(render(Scene((), Backdrop(backdrop, 1), noise=3.0)).pixels) == []
    assert detect_objects(np.full((3, 40, 3), 200, np.uint8)) == []


@pytest.mark.filterwarnings("error")
def test_a_cutting_of_any_size_is_looked_at():
    rng = np.random.default_rng(0)
    for number in range(40):
        pixels = render(random_scene(random.Random(number), SceneConfig())).pixels
        faded = (0.07 * pixels + 0.93 * pixels.mean(axis=(0, 1))).round().astype(np.uint8)
        for picture in (pixels, faded) * 8:
            (x, y), (w, h) = rng.integers(0, 60, 2), rng.integers(1, 14, 2)
            for seen in detect_objects(np.ascontiguousarray(picture[y : y + h, x : x + w])):
                assert np.isfinite([seen.box.cx, seen.box.cy, seen.box.w, seen.box.h, seen.opacity]).all()
