"""SceneDetector against what was drawn."""

import random

import pytest

from editcritic.benchmarks.sceneedit.experts.detector import SceneDetector
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene import Backdrop, Scene, Thing, written_size
from editcritic.benchmarks.sceneedit.scenes import SMALL, World, random_scene
from editcritic.benchmarks.sceneedit.words import COLOURS, MATERIALS, SHAPES
from editcritic.reward import Abstention, Box, Detect, Detections, Image

DETECTOR = SceneDetector()


def boxes(image: Image, *phrases: str) -> tuple[Box, ...]:
    (found,) = DETECTOR([Detect(image, phrases)])
    assert isinstance(found, Detections)
    return found.boxes


def strongest(image: Image, phrase: str, place: Box | None = None) -> float:
    found = boxes(image, phrase)
    return max((box.score for box in found if place is None or box.iou(place) > 0.7), default=0.0)


@pytest.mark.parametrize(
    ("world", "side", "share"),
    [
        (World.of(64), 64, 0.995),
        (World.of(32), 32, 0.97),
        (World.of(128), 128, 0.99),
        (SMALL, 128, 0.97),
        (World.of(64), 512, 0.99),
    ],
    ids=["64", "32", "128", "small", "enlarged"],
)
def test_names_find_their_things_old_names_too_and_no_others(world, side, share):
    own, old, other = [], [], []
    for seed in range(12):
        chance = random.Random(seed)
        scene = random_scene(chance, world)
        image = render(scene).resized(side, side)
        for thing in scene.things:
            own.append(strongest(image, thing.name, thing.box) > 0.5)
            colour = chance.choice([one for one in COLOURS if one != thing.colour])
            material = chance.choice([one for one in MATERIALS if one != thing.material])
            old.append(strongest(image, f"{material} {colour} {thing.shape}", thing.box) > 0.4)
        shapes = {thing.shape for thing in scene.things}
        other += [
            strongest(image, f"{colour} {shape}") <= 0.2
            for shape in (*SHAPES, "sign")
            if shape not in shapes
            for colour in {thing.colour for thing in scene.things}
        ]
    for checked in (own, old, other):
        assert sum(checked) >= share * len(checked)


def test_a_recoloured_thing_scores_less_than_a_right_one_and_more_than_another_shape():
    image = render(Scene((Thing(1, "star", "blue", 0.5, 0.5, 0.3, 0.3),), Backdrop("sky")))
    right, colour, both, shape = (
        strongest(image, name) for name in ("blue star", "red star", "wood red star", "blue heart")
    )
    assert 0.75 <= right <= 0.97
    assert 0.5 <= colour <= 0.65
    assert 0.4 < both < colour
    assert shape < 0.2
    assert strongest(image, "star") == pytest.approx(right, abs=0.05)


def test_several_phrases_are_one_prompt_and_all_things_are_answered_for_each():
    things = (Thing(1, "circle", "red", 0.3, 0.5, 0.3, 0.3), Thing(2, "cross", "teal", 0.7, 0.5, 0.3, 0.3))
    found = boxes(render(Scene(things, Backdrop("snow"))), "new red circle", "teal cross")
    assert [box.label for box in found] == ["new red circle"] * 2 + ["teal cross"] * 2
    assert [box.score > 0.5 for box in found] == [True, False, True, False]


def test_text_is_where_letters_are():
    width, height = (side / 64 for side in written_size("STOP", 1))
    text = Thing(1, "text", "", 0.5, 0.5, width, height, text="STOP")
    (box,) = boxes(render(Scene((text,), Backdrop("sand"))), "text")
    assert box.label == "text"
    assert box.iou(text.box) > 0.6


@pytest.mark.parametrize("phrase", ["dog", "red", "big red circle", "red blue circle", ""])
def test_abstains_on_what_is_no_name(phrase):
    (outcome,) = DETECTOR([Detect(render(Scene((), Backdrop("sky"))), (phrase,))])
    assert isinstance(outcome, Abstention)
    assert "circle" in outcome.reason or "ask for one" in outcome.reason
