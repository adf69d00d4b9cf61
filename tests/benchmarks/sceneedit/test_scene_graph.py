"""Scene graphs hold what can be drawn, and nothing else."""

import json
from dataclasses import replace
from typing import Any

import pytest

from editcritic.benchmarks.sceneedit.scene_graph import Backdrop, Light, Scene, SceneObject, text_extent
from editcritic.benchmarks.sceneedit.vocabulary import SIGN, TEXT

RED, BLUE = (
    SceneObject(1, "circle", "red", 0.3, 0.3, 0.2, 0.2),
    SceneObject(4, "star", "blue", 0.7, 0.6, 0.2, 0.3, "wood"),
)
SCENE = Scene((RED, BLUE), Backdrop("sky"))


FULL = Scene(
    (
        RED,
        BLUE,
        replace(BLUE, id=5, x=0.2),
        SceneObject(6, SIGN, "teal", 0.5, 0.8, 0.3, 0.2, text="HOT", ink="light", opacity=0.4),
        SceneObject(7, TEXT, "", 0.5, 0.1, 0.2, 0.1, text="OPEN"),
    ),
    Backdrop("sand", 42, 0.3, 3),
    Light(1.1, 0.2, 0.7),
    128,
)


def test_a_scene_comes_back_from_json_as_it_was() -> None:
    assert Scene.from_json(json.loads(json.dumps(FULL.to_json()))) == FULL


def test_names_are_said_once_and_each_calls_its_own_things() -> None:
    assert FULL.names == ("red circle", "wood blue star", "teal sign", "text")
    assert [[one.id for one in FULL.named(name)] for name in FULL.names] == [[1], [4, 5], [6], [7]]
    assert FULL.boxes() == {name: tuple(obj.box for obj in FULL.named(name)) for name in FULL.names}


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
