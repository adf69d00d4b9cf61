"""Scene graphs hold what can be drawn, and nothing else."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.benchmarks.sceneedit.scene_graph import Backdrop, Light, Scene, SceneObject, text_extent
from editcritic.benchmarks.sceneedit.vocabulary import BACKDROPS, COLOURS, MATERIALS, SHAPES, SIGN, TEXT, TEXTS

share = st.floats(0.05, 0.95)


@st.composite
def scene_objects(draw: st.DrawFn, number: int) -> SceneObject:
    shape = draw(st.sampled_from([*SHAPES, SIGN, TEXT]))
    text = draw(st.sampled_from(TEXTS)) if shape in (SIGN, TEXT) else ""
    colour = "" if shape == TEXT else draw(st.sampled_from(COLOURS))
    material = draw(st.sampled_from(["", *MATERIALS]))
    ink, opacity = draw(st.sampled_from(["dark", "light"])), draw(st.floats(0.1, 1))
    x, y, w, h = (draw(share) for _ in range(4))
    return SceneObject(number, shape, colour, x, y, w, h, material, text, ink, opacity)


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    drawn_objects = tuple(draw(scene_objects(number)) for number in range(1, draw(st.integers(0, 4)) + 1))
    backdrop = Backdrop(draw(st.sampled_from(BACKDROPS)), draw(st.integers(0, 99)), draw(st.floats(0, 1)), 3)
    return Scene(
        drawn_objects, backdrop, Light(draw(st.floats(0.8, 1.2)), draw(share), draw(share)), draw(st.integers(16, 512))
    )


RED, BLUE = (
    SceneObject(1, "circle", "red", 0.3, 0.3, 0.2, 0.2),
    SceneObject(4, "star", "blue", 0.7, 0.6, 0.2, 0.3, "wood"),
)
SCENE = Scene((RED, BLUE), Backdrop("sky"))


@given(scenes())
def test_a_scene_comes_back_from_json_as_it_was(scene: Scene) -> None:
    assert Scene.from_json(json.loads(json.dumps(scene.to_json()))) == scene


@given(scenes())
def test_names_are_said_once_and_each_calls_its_own_things(scene: Scene) -> None:
    assert len(set(scene.names)) == len(scene.names)
    assert sorted(one.id for name in scene.names for one in scene.named(name)) == [one.id for one in scene.objects]
    assert scene.boxes() == {name: tuple(obj.box for obj in scene.named(name)) for name in scene.names}


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
        SceneObject(**values | wrong)


def test_errors_name_what_is_wrong_with_a_scene() -> None:
    with pytest.raises(ValueError, match=r"unknown backdrop 'lava'.*grass"):
        Backdrop("lava")
    with pytest.raises(ValueError, match="at least 16 pixels a side, got 15"):
        Scene((), Backdrop("sky"), size=15)
    with pytest.raises(ValueError, match="two things of a scene have one id"):
        Scene((RED, RED.moved_to(0.5, 0.5)), Backdrop("sky"))


def test_names_say_material_colour_and_shape() -> None:
    assert RED.name == "red circle"
    assert BLUE.name == "wood blue star"
    assert SceneObject(1, TEXT, "", 0.5, 0.5, 0.2, 0.1, text="HOT").name == TEXT


def test_a_thing_is_replaced_in_its_place_and_a_new_one_lies_on_top() -> None:
    assert [obj.id for obj in SCENE.with_object(RED.moved_to(0.6, 0.6)).objects] == [1, 4]
    assert [obj.id for obj in SCENE.with_object(SceneObject(2, "ring", "teal", 0.5, 0.5, 0.2, 0.2)).objects] == [
        1,
        4,
        2,
    ]
    assert SCENE.without([1, 99]).objects == (BLUE,)
    assert SCENE.next_id == 5
    assert Scene((), Backdrop("sky")).next_id == 1
    assert SCENE.object_by_id(4) == BLUE
    assert SCENE.object_by_id(3) is None


def test_what_a_thing_is_like_does_not_say_where_it_stands() -> None:
    assert RED.appearance == RED.moved_to(0.9, 0.1).appearance
    assert RED.appearance != BLUE.appearance


def test_a_text_is_as_large_as_its_letters_and_the_gaps_between_them() -> None:
    assert text_extent("I", 1) == (3, 5)
    assert text_extent("HOT", 2) == (22, 10)
