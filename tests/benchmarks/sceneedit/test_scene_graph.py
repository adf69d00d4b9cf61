"""Scene graphs hold what can be drawn, and nothing else."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.benchmarks.sceneedit.scene import Backdrop, Light, Scene, Thing, written_size
from editcritic.benchmarks.sceneedit.words import BACKDROPS, COLOURS, MATERIALS, SHAPES, SIGN, TEXT, TEXTS

share = st.floats(0.05, 0.95)


@st.composite
def things(draw: st.DrawFn, number: int) -> Thing:
    shape = draw(st.sampled_from([*SHAPES, SIGN, TEXT]))
    text = draw(st.sampled_from(TEXTS)) if shape in (SIGN, TEXT) else ""
    colour = "" if shape == TEXT else draw(st.sampled_from(COLOURS))
    material = draw(st.sampled_from(["", *MATERIALS]))
    ink, opacity = draw(st.sampled_from(["dark", "light"])), draw(st.floats(0.1, 1))
    x, y, w, h = (draw(share) for _ in range(4))
    return Thing(number, shape, colour, x, y, w, h, material, text, ink, opacity)


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    held = tuple(draw(things(number)) for number in range(1, draw(st.integers(0, 4)) + 1))
    backdrop = Backdrop(draw(st.sampled_from(BACKDROPS)), draw(st.integers(0, 99)), draw(st.floats(0, 1)), 3)
    return Scene(held, backdrop, Light(draw(st.floats(0.8, 1.2)), draw(share), draw(share)), draw(st.integers(16, 512)))


RED, BLUE = Thing(1, "circle", "red", 0.3, 0.3, 0.2, 0.2), Thing(4, "star", "blue", 0.7, 0.6, 0.2, 0.3, "wood")
SCENE = Scene((RED, BLUE), Backdrop("sky"))


@given(scenes())
def test_a_scene_comes_back_from_json_as_it_was(scene: Scene) -> None:
    assert Scene.from_json(json.loads(json.dumps(scene.to_json()))) == scene


@given(scenes())
def test_names_are_said_once_and_each_calls_its_own_things(scene: Scene) -> None:
    assert len(set(scene.names)) == len(scene.names)
    assert sorted(one.id for name in scene.names for one in scene.called(name)) == [one.id for one in scene.things]
    assert scene.boxes() == {name: tuple(thing.box for thing in scene.called(name)) for name in scene.names}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"shape": "blob"}, "unknown shape 'blob'.*circle"),
        ({"colour": "mauve"}, "unknown colour 'mauve'.*red"),
        ({"material": "glass"}, "unknown material 'glass'.*wood"),
        ({"text": "HOT"}, "a circle takes no text"),
        ({"shape": SIGN}, "a sign needs text"),
        ({"shape": TEXT}, "a text needs text"),
        ({"shape": SIGN, "text": "H?t"}, r"no letters \? t: 'H\?t'"),
    ],
)
def test_errors_name_what_is_wrong_with_a_thing(wrong: dict[str, Any], message: str) -> None:
    values: dict[str, Any] = {"id": 1, "shape": "circle", "colour": "red", "x": 0.5, "y": 0.5, "w": 0.2, "h": 0.2}
    with pytest.raises(ValueError, match=message):
        Thing(**values | wrong)


def test_errors_name_what_is_wrong_with_a_scene() -> None:
    with pytest.raises(ValueError, match=r"unknown backdrop 'lava'.*grass"):
        Backdrop("lava")
    with pytest.raises(ValueError, match="at least 16 pixels a side, got 15"):
        Scene((), Backdrop("sky"), size=15)
    with pytest.raises(ValueError, match="two things of a scene have one id"):
        Scene((RED, RED.at(0.5, 0.5)), Backdrop("sky"))


def test_names_say_material_colour_and_shape() -> None:
    assert RED.name == "red circle"
    assert BLUE.name == "wood blue star"
    assert Thing(1, TEXT, "", 0.5, 0.5, 0.2, 0.1, text="HOT").name == TEXT


def test_a_thing_is_replaced_in_its_place_and_a_new_one_lies_on_top() -> None:
    assert [thing.id for thing in SCENE.with_thing(RED.at(0.6, 0.6)).things] == [1, 4]
    assert [thing.id for thing in SCENE.with_thing(Thing(2, "ring", "teal", 0.5, 0.5, 0.2, 0.2)).things] == [1, 4, 2]
    assert SCENE.without([1, 99]).things == (BLUE,)
    assert SCENE.next_id == 5
    assert Scene((), Backdrop("sky")).next_id == 1
    assert SCENE.get(4) == BLUE
    assert SCENE.get(3) is None


def test_what_a_thing_is_like_does_not_say_where_it_stands() -> None:
    assert RED.like == RED.at(0.9, 0.1).like
    assert RED.like != BLUE.like


def test_a_text_is_as_large_as_its_letters_and_the_gaps_between_them() -> None:
    assert written_size("I", 1) == (3, 5)
    assert written_size("HOT", 2) == (22, 10)
