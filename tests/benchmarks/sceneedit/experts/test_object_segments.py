"""What segments say of drawn things, against what was drawn."""

import random
from dataclasses import replace

import numpy as np
import pytest

from editcritic.benchmarks.sceneedit.experts.segments import Seen, segments
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene import Backdrop, Light, Scene, Thing
from editcritic.benchmarks.sceneedit.scenes import SMALL, World, random_scene
from editcritic.benchmarks.sceneedit.words import BACKDROPS, COLOURS, MATERIALS, SHAPES
from editcritic.reward import Image


def likeliest(seen: Seen) -> tuple[str, str, str]:
    return tuple(max(one, key=lambda name: one[name]) for one in (seen.shapes, seen.colours, seen.materials))  # type: ignore[return-value]


def right(image: Image, scene: Scene) -> list[bool]:
    """For each thing, whether a segment around it has its shape, colour and material."""
    found = segments(image.pixels)
    return [
        any(
            likeliest(one) == (thing.shape, thing.colour, thing.material)
            for one in found
            if one.box.iou(thing.box) > 0.7
        )
        for thing in scene.things
    ]


def one_thing(thing: Thing, backdrop: str = "concrete", **scene: object) -> Scene:
    return Scene((thing,), Backdrop(backdrop, 3), **scene)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("world", "side"),
    [(World.of(64), 64), (World.of(32), 32), (World.of(128), 128), (SMALL, 128), (World.of(64), 512)],
    ids=["64", "32", "128", "small", "enlarged"],
)
def test_things_have_their_place_shape_colour_and_material(world, side):
    found: list[bool] = []
    for seed in range(12):
        scene = random_scene(random.Random(seed), world)
        found += right(render(scene).resized(side, side), scene)
    assert sum(found) >= 0.97 * len(found)


@pytest.mark.parametrize("shape", SHAPES)
def test_light_and_backdrop_do_not_matter(shape):
    for number, backdrop in enumerate(BACKDROPS):
        thing = Thing(1, shape, COLOURS[number], 0.5, 0.5, 0.3, 0.3, (("", *MATERIALS))[number % 5])
        light = Light(0.85 + 0.3 * (number % 2), 0.12, number / 8)
        scene = one_thing(thing, backdrop, light=light)
        assert right(render(scene), scene) == [True], backdrop


@pytest.mark.parametrize(("opacity", "count"), [(0.1, 0), (0.3, 1), (0.6, 1)])
def test_a_faint_thing_is_seen_and_a_shadow_of_one_is_not(opacity, count):
    for number, backdrop in enumerate(BACKDROPS):
        thing = Thing(1, "circle", COLOURS[number], 0.5, 0.5, 0.3, 0.3, opacity=opacity)
        found = segments(render(one_thing(thing, backdrop)).pixels)
        assert len(found) == count
        assert all(one.opacity == pytest.approx(opacity, abs=0.15) for one in found)


def test_a_partly_covered_thing_keeps_its_shape_and_its_box():
    below = Thing(1, "circle", "red", 0.4, 0.5, 0.3, 0.3)
    scene = Scene((below, Thing(2, "square", "blue", 0.62, 0.5, 0.25, 0.25)), Backdrop("sand"))
    assert right(render(scene), scene) == [True, True]
    (circle,) = (one for one in segments(render(scene).pixels) if one.colours["red"] > 0.5)
    assert circle.shown < 0.95
    assert circle.box.iou(below.box) > 0.85


def test_copies_that_stand_close_are_counted_one_by_one():
    things = tuple(Thing(n, "diamond", "green", 0.2 + 0.22 * n, 0.5, 0.2, 0.2) for n in range(3))
    scene = Scene(things, Backdrop("brick wall"))
    assert right(render(scene), scene) == [True] * 3


def test_a_plate_with_letters_is_a_sign_and_a_ring_before_snow_has_a_hole():
    sign = Thing(1, "sign", "teal", 0.5, 0.5, 19 / 64, 9 / 64, text="STOP", ink="light")
    ring = Thing(1, "ring", "orange", 0.5, 0.5, 0.25, 0.25)
    for thing in (sign, ring):
        scene = one_thing(thing, "snow")
        assert right(render(scene), scene) == [True]


def test_a_crop_around_a_thing_shows_it_whole():
    for shape in SHAPES:
        thing = Thing(1, shape, "purple", 0.5, 0.5, 0.25, 0.25, "stone")
        image = render(one_thing(thing, "grass"))
        (seen,) = segments(image.crop(24, 24, 40, 40).pixels)
        assert likeliest(seen) == (shape, "purple", "stone")


def test_values_follow_the_pixels_without_steps():
    thing = Thing(1, "heart", "pink", 0.5, 0.5, 0.3, 0.3, "wood")
    shades = []
    for opacity in np.linspace(0.5, 0.9, 9):
        (seen,) = segments(render(one_thing(replace(thing, opacity=float(opacity)), noise=0.0)).pixels)
        shades.append((seen.opacity, seen.shapes["heart"], seen.colours["pink"]))
    opacity = [shade[0] for shade in shades]
    assert opacity == sorted(opacity)
    assert all(0 < value < 1 for shade in shades for value in shade)
    assert len(set(shades)) == len(shades)


def test_an_empty_picture_and_a_sliver_hold_nothing():
    for backdrop in BACKDROPS:
        assert segments(render(Scene((), Backdrop(backdrop, 1), noise=3.0)).pixels) == []
    assert segments(np.full((3, 40, 3), 200, np.uint8)) == []


@pytest.mark.filterwarnings("error")
def test_a_cutting_of_any_size_is_looked_at():
    chance = np.random.default_rng(0)
    for number in range(40):
        pixels = render(random_scene(random.Random(number), World())).pixels
        faded = (0.07 * pixels + 0.93 * pixels.mean(axis=(0, 1))).round().astype(np.uint8)
        for picture in (pixels, faded) * 8:
            (x, y), (w, h) = chance.integers(0, 60, 2), chance.integers(1, 14, 2)
            for seen in segments(np.ascontiguousarray(picture[y : y + h, x : x + w])):
                assert np.isfinite([seen.box.cx, seen.box.cy, seen.box.w, seen.box.h, seen.opacity]).all()
