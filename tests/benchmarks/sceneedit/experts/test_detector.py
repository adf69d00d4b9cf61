"""SceneDetector against what was drawn."""

import random

import pytest

from editcritic.benchmarks.sceneedit.experts.perception_experts import SceneDetector
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_generation import SMALL_OBJECT_SCENES, SceneConfig, random_scene
from editcritic.benchmarks.sceneedit.scene_graph import Backdrop, Scene, SceneObject, text_extent
from editcritic.benchmarks.sceneedit.vocabulary import COLOURS, MATERIALS, SHAPES
from editcritic.reward import Box, Image
from editcritic.reward.queries import Abstention, Detect, Detections

DETECTOR = SceneDetector()


def boxes(image: Image, *phrases: str) -> tuple[Box, ...]:
    (detections,) = DETECTOR([Detect(image, phrases)])
    assert isinstance(detections, Detections)
    return detections.boxes


def strongest(image: Image, phrase: str, place: Box | None = None) -> float:
    candidates = boxes(image, phrase)
    return max((box.score for box in candidates if place is None or box.iou(place) > 0.7), default=0.0)


@pytest.mark.parametrize(
    ("config", "side", "share"),
    [
        (SceneConfig.for_size(64), 64, 0.995),
        (SceneConfig.for_size(32), 32, 0.97),
        (SceneConfig.for_size(128), 128, 0.99),
        (SMALL_OBJECT_SCENES, 128, 0.97),
        (SceneConfig.for_size(64), 512, 0.99),
    ],
    ids=["64", "32", "128", "small", "enlarged"],
)
def test_names_find_their_things_old_names_too_and_no_others(config, side, share):
    own, old, other = [], [], []
    for seed in range(12):
        rng = random.Random(seed)
        scene = random_scene(rng, config)
        image = render(scene).resized(side, side)
        for obj in scene.objects:
            own.append(strongest(image, obj.name, obj.box) > 0.5)
            colour = rng.choice([one for one in COLOURS if one != obj.colour])
            material = rng.choice([one for one in MATERIALS if one != obj.material])
            old.append(strongest(image, f"{material} {colour} {obj.shape}", obj.box) > 0.4)
        shapes = {obj.shape for obj in scene.objects}
        other += [
            strongest(image, f"{colour} {shape}") <= 0.2
            for shape in (*SHAPES, "sign")
            if shape not in shapes
            for colour in {obj.colour for obj in scene.objects}
        ]
    for checked in (own, old, other):
        assert sum(checked) >= share * len(checked)


def test_a_recoloured_thing_scores_less_than_a_right_one_and_more_than_another_shape():
    image = render(Scene((SceneObject(1, "star", "blue", 0.5, 0.5, 0.3, 0.3),), Backdrop("sky")))
    right, colour, both, shape = (
        strongest(image, name) for name in ("blue star", "red star", "wood red star", "blue heart")
    )
    assert 0.75 <= right <= 0.97
    assert 0.5 <= colour <= 0.65
    assert 0.4 < both < colour
    assert shape < 0.2
    assert strongest(image, "star") == pytest.approx(right, abs=0.05)


def test_several_phrases_are_one_prompt_and_all_things_are_answered_for_each():
    objects = (SceneObject(1, "circle", "red", 0.3, 0.5, 0.3, 0.3), SceneObject(2, "cross", "teal", 0.7, 0.5, 0.3, 0.3))
    detections = boxes(render(Scene(objects, Backdrop("snow"))), "new red circle", "teal cross")
    assert [box.label for box in detections] == ["new red circle"] * 2 + ["teal cross"] * 2
    assert [box.score > 0.5 for box in detections] == [True, False, True, False]


def test_text_is_where_letters_are():
    width, height = (side / 64 for side in text_extent("STOP", 1))
    text = SceneObject(1, "text", "", 0.5, 0.5, width, height, text="STOP")
    (box,) = boxes(render(Scene((text,), Backdrop("sand"))), "text")
    assert box.label == "text"
    assert box.iou(text.box) > 0.6


@pytest.mark.parametrize("phrase", ["dog", "red", "big red circle", "red blue circle", ""])
def test_abstains_on_what_is_no_name(phrase):
    (outcome,) = DETECTOR([Detect(render(Scene((), Backdrop("sky"))), (phrase,))])
    assert isinstance(outcome, Abstention)
    assert "circle" in outcome.reason or "ask for one" in outcome.reason
