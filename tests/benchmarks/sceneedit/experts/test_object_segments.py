"""What segments say of drawn objects, against what was drawn."""

import random

import numpy as np
import pytest

from editcritic.benchmarks.sceneedit.experts.object_segments import DetectedObject, detect_objects
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig, random_scene
from editcritic.benchmarks.sceneedit.scene_graph import Backdrop, Light, Scene, SceneObject
from editcritic.benchmarks.sceneedit.vocabulary import BACKDROPS, COLOURS, MATERIALS, SHAPES
from editcritic.reward import Image


def likeliest(seen: DetectedObject) -> tuple[str, str, str]:
    return tuple(max(one, key=lambda name: one[name]) for one in (seen.shapes, seen.colours, seen.materials))  # type: ignore[return-value]


def right(image: Image, scene: Scene) -> list[bool]:
    """For each object, whether a segment around it has its shape, colour and material."""
    segments = detect_objects(image.pixels)
    return [
        any(likeliest(one) == (obj.shape, obj.colour, obj.material) for one in segments if one.box.iou(obj.box) > 0.7)
        for obj in scene.objects
    ]


def one_thing(obj: SceneObject, backdrop: str = "concrete", **scene: object) -> Scene:
    return Scene((obj,), Backdrop(backdrop, 3), **scene)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", SHAPES)
def test_light_and_backdrop_do_not_matter(shape):
    for number, backdrop in enumerate(BACKDROPS):
        obj = SceneObject(1, shape, COLOURS[number], 0.5, 0.5, 0.3, 0.3, (("", *MATERIALS))[number % 5])
        light = Light(0.85 + 0.3 * (number % 2), 0.12, number / 8)
        scene = one_thing(obj, backdrop, light=light)
        assert right(render(scene), scene) == [True], backdrop


@pytest.mark.parametrize(("opacity", "count"), [(0.1, 0), (0.3, 1), (0.6, 1)])
def test_a_faint_thing_is_seen_and_a_shadow_of_one_is_not(opacity, count):
    for number, backdrop in enumerate(BACKDROPS):
        obj = SceneObject(1, "circle", COLOURS[number], 0.5, 0.5, 0.3, 0.3, opacity=opacity)
        segments = detect_objects(render(one_thing(obj, backdrop)).pixels)
        assert len(segments) == count
        assert all(one.opacity == pytest.approx(opacity, abs=0.15) for one in segments)


def test_a_partly_covered_thing_keeps_its_shape_and_its_box():
    below = SceneObject(1, "circle", "red", 0.4, 0.5, 0.3, 0.3)
    scene = Scene((below, SceneObject(2, "square", "blue", 0.62, 0.5, 0.25, 0.25)), Backdrop("sand"))
    assert right(render(scene), scene) == [True, True]
    (circle,) = (one for one in detect_objects(render(scene).pixels) if one.colours["red"] > 0.5)
    assert circle.visible_share < 0.95
    assert circle.box.iou(below.box) > 0.85


def test_a_plate_with_letters_is_a_sign_and_a_ring_before_snow_has_a_hole():
    sign = SceneObject(1, "sign", "teal", 0.5, 0.5, 19 / 64, 9 / 64, text="STOP", ink="light")
    ring = SceneObject(1, "ring", "orange", 0.5, 0.5, 0.25, 0.25)
    for obj in (sign, ring):
        scene = one_thing(obj, "snow")
        assert right(render(scene), scene) == [True]


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
