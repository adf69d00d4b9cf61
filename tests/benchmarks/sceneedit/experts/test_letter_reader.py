"""Letters are read as they stand, small, enlarged, in crops and bad light; and where none are, none are seen."""

import random
from dataclasses import replace

import numpy as np
import pytest

from editcritic.benchmarks.sceneedit.experts.letter_reader import read_lines
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_graph import Backdrop, Light, Scene, SceneObject, text_extent
from editcritic.benchmarks.sceneedit.vocabulary import BACKDROPS, COLOURS, LETTERS, MATERIALS, SHAPES, TEXTS

DARK_PLATES = ("red", "green", "teal", "blue", "purple")


def light(number):
    return Light(0.85 + 0.1 * (number % 4), 0.12, number / 7)


def sign(text, colour, *, size=64, grain=1, number=0, backdrop="sand", margin=2):
    """A sign alone in an image, in some light, with the strongest noise."""
    width, height = text_extent(text, grain / size)
    room = 2 * margin * grain / size
    ink = "light" if colour in DARK_PLATES else "dark"
    plate = SceneObject(1, "sign", colour, 0.5, 0.4, width + room, height + room, text=text, ink=ink)
    return Scene((plate,), Backdrop(backdrop, number), light(number), size, grain, 4.0, number)


def written(text, backdrop, *, size=64, grain=1, number=0):
    ink = "light" if backdrop == "night" else "dark"
    text = SceneObject(1, "text", "", 0.5, 0.7, *text_extent(text, grain / size), text=text, ink=ink)
    return Scene((text,), Backdrop(backdrop, number), light(number), size, grain, 4.0, number)


def texts(picture):
    return [text for text, _, _ in read_lines(picture.pixels)]


@pytest.mark.parametrize("number", range(len(TEXTS)))
def test_signs_and_free_texts_are_read_in_bad_light(number):
    text, colour, backdrop = TEXTS[number], COLOURS[number % 8], BACKDROPS[number % 7]
    assert texts(render(sign(text, colour, number=number, backdrop=backdrop))) == [text]
    assert texts(render(written(text, BACKDROPS[number % 8], number=number))) == [text]


@pytest.mark.parametrize(("size", "grain", "side"), [(32, 1, 32), (128, 2, 128), (64, 1, 512), (128, 2, 512)])
@pytest.mark.parametrize("number", range(6))
def test_letters_of_any_size_are_read(size, grain, side, number):
    text = TEXTS[5 * number]
    for scene in (sign(text, COLOURS[number], size=size, grain=grain), written(text, BACKDROPS[number], size=size)):
        assert texts(render(scene).resized(side, side)) == [text]


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("side", [64, 512])
@pytest.mark.parametrize("margin", [1, 2])
def test_a_crop_of_a_sign_is_read(colour, side, margin):
    scene = sign("EXIT", colour, margin=margin)
    picture = render(scene).resized(side, side)
    corners = scene.objects[0].box.clipped_corners(picture.size)
    assert corners is not None
    assert texts(picture.crop(*corners)) == ["EXIT"]


@pytest.mark.parametrize("start", range(0, 36, 6))
def test_every_letter_is_told_from_every_other(start):
    text = "".join(LETTERS)[start : start + 6]
    assert texts(render(sign(text, "blue"))) == [text]
    assert texts(render(written(text, "grass"))) == [text]


@pytest.mark.parametrize("text", ["STPO", "TXAI", "QQ", "SCORE 10", "A B", "I1I 1I"])
def test_what_is_written_is_read_not_what_was_meant(text):
    assert texts(render(sign(text, "yellow"))) == [text]


def test_lines_come_top_to_bottom_with_the_corners_of_their_ink():
    upper = sign("OPEN", "yellow").objects[0]
    lower = replace(written("EXIT", "sand").objects[0], id=2)
    scene = Scene((lower, upper), Backdrop("sand"))
    (first, second) = read_lines(render(scene).pixels)
    assert (first[0], second[0]) == ("OPEN", "EXIT")
    assert first[1] == (24, 23, 39, 28)
    assert 0.9 < first[2] < 1


def crowded(number):
    """An image full of objects, without a letter."""
    rng = random.Random(number)
    colours, shapes = rng.sample(COLOURS, 8), rng.sample(SHAPES, 8)
    objects = [
        SceneObject(i, shapes[i % 8], colours[i % 8], rng.random(), rng.random(), 0.25, 0.25, rng.choice(MATERIALS))
        for i in range(12)
    ]
    return Scene(tuple(objects), Backdrop(BACKDROPS[number % 8], number), light(number), noise=4.0, noise_seed=number)


@pytest.mark.parametrize("number", range(24))
def test_no_letters_are_seen_where_there_are_none(number):
    picture = render(crowded(number))
    assert texts(picture) == []
    assert texts(picture.resized(256, 256)) == []


@pytest.mark.parametrize("shape", [(1, 1), (4, 40), (40, 2), (5, 3), (16, 16)])
def test_pictures_too_small_for_letters_say_nothing(shape):
    for value in (0, 128, 255):
        assert read_lines(np.full((*shape, 3), value, np.uint8)) == []
