"""SceneJudge on edits that are drawn right and wrong."""

import random
from dataclasses import replace

import numpy as np
import pytest

from editcritic.benchmarks.sceneedit.experts.judge import SceneJudge
from editcritic.benchmarks.sceneedit.experts.perception_experts import SceneDetector
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig, random_scene
from editcritic.benchmarks.sceneedit.scene_graph import Backdrop, Scene, SceneObject
from editcritic.benchmarks.sceneedit.vocabulary import BACKDROPS, COLOURS, MATERIALS
from editcritic.reward import Image
from editcritic.reward.boxes import highest_scoring
from editcritic.reward.metrics.edival.inspector import crop_box
from editcritic.reward.queries import Abstention, Detect, Detections, FreeText, Judge, Message, Reply, YesNo

JUDGE = SceneJudge()
OLD = SceneObject(1, "circle", "red", 0.3, 0.4, 0.3, 0.3)
REST = SceneObject(2, "cross", "teal", 0.75, 0.7, 0.28, 0.28)
BEFORE = Scene((OLD, REST), Backdrop("sand"))


def ask(topic: str, *pictures: Image | Scene, **slots: str) -> Reply | Abstention:
    shown = tuple(render(one) if isinstance(one, Scene) else one for one in pictures)
    query = Judge((Message((*shown, "?")),), YesNo(), topic, tuple(slots.items()))
    (answer,) = JUDGE([query])
    if not isinstance(answer, Abstention):
        query.check(answer)
    return answer  # type: ignore[return-value]


def yes(topic: str, *pictures: Image | Scene, **slots: str) -> float:
    reply = ask(f"edival/{topic}", *pictures, **slots)
    assert isinstance(reply, Reply)
    assert reply.text == ("yes" if reply.probabilities["yes"] >= 0.5 else "no")
    assert sum(reply.probabilities.values()) == pytest.approx(1)
    return reply.probabilities["yes"]


@pytest.mark.parametrize("side", [64, 512])
def test_crops_have_the_colour_and_material_of_their_thing_and_no_other(side):
    right = []
    for seed in range(8):
        scene = random_scene(random.Random(seed), SceneConfig.for_size(64))
        image = render(scene).resized(side, side)
        for obj in scene.objects:
            (detections,) = SceneDetector()([Detect(image, (obj.name,))])
            assert isinstance(detections, Detections)
            box = highest_scoring(detections.boxes)
            assert box is not None
            crop = crop_box(image, box, 0.05)
            colours = {value: yes("color", crop, object=obj.name, value=value) for value in COLOURS}
            materials = {value: yes("material", crop, object=obj.name, value=value) for value in MATERIALS}
            right += [(probability >= 0.5) == (value == obj.colour) for value, probability in colours.items()]
            right += [(probability >= 0.5) == (value == obj.material) for value, probability in materials.items()]
    assert sum(right) >= 0.99 * len(right)


def test_of_a_pair_the_second_counts():
    after = render(BEFORE.with_object(replace(OLD, colour="blue")))
    slots = {"object": "red circle", "value": "blue"}
    assert yes("color_pair", render(BEFORE), after, **slots) > 0.9
    assert yes("color_pair", after, render(BEFORE), **slots) < 0.1


def test_the_background_is_what_lies_behind():
    for kind in BACKDROPS:
        image = render(replace(BEFORE, backdrop=Backdrop(kind, 5)))
        probabilities = {value: yes("background", image, value=value) for value in BACKDROPS}
        assert max(probabilities, key=lambda value: probabilities[value]) == kind
        assert probabilities[kind] > 0.5


def test_a_background_is_not_there_in_a_faded_picture_nor_where_it_fills_half():
    picture = render(BEFORE)
    faded = (picture.pixels * 0.05 + picture.pixels.mean(axis=(0, 1)) * 0.95).round().astype(np.uint8)
    assert yes("background", Image.of(faded), value="sand") < 0.4
    halves = np.hstack([render(replace(BEFORE, backdrop=Backdrop("grass"))).pixels[:, :32], picture.pixels[:, 32:]])
    assert yes("background", Image.of(halves), value="sand") < 0.5
    assert yes("background", Image.of(halves), value="grass") < 0.5


@pytest.mark.parametrize(
    ("edited", "holds"),
    [
        (replace(OLD, id=3, shape="star", colour="blue", x=0.35), True),
        (replace(OLD, id=3, shape="star", colour="green"), False),
        (replace(OLD, id=3, shape="heart", colour="blue"), False),
        (replace(OLD, id=3, shape="star", colour="blue", material="wood"), False),
        (replace(OLD, id=3, shape="star", colour="blue", x=0.75, y=0.25), False),
        (OLD, False),
    ],
    ids=["done", "other colour", "other shape", "other material", "elsewhere", "nothing"],
)
def test_replaced_is_the_new_in_the_place_of_the_old(edited, holds):
    after = Scene((REST, edited), BEFORE.backdrop)
    assert (yes("replaced", BEFORE, after, object="red circle", new="blue star") >= 0.5) == holds


def test_replaced_wants_the_old_gone_and_there_before():
    star = replace(OLD, id=3, shape="star", colour="blue", x=0.5, y=0.5, w=0.25, h=0.25)
    assert yes("replaced", BEFORE, BEFORE.with_object(star), object="red circle", new="blue star") < 0.5
    after = Scene((REST, replace(star, x=0.3, y=0.4)), BEFORE.backdrop)
    assert yes("replaced", BEFORE, after, object="green heart", new="blue star") < 0.5


def test_added_is_new_and_exactly_as_asked_for():
    star = SceneObject(3, "star", "blue", 0.75, 0.25, 0.28, 0.28)
    after = BEFORE.with_object(star)
    assert yes("added", BEFORE, after, new="blue star") > 0.8
    assert yes("added", BEFORE, after, new="pink star") < 0.2
    assert yes("added", BEFORE, after, new="wood blue star") < 0.2
    assert yes("added", after, after, new="blue star") < 0.2
    fading = [
        yes("added", BEFORE, BEFORE.with_object(replace(star, opacity=o)), new="blue star") for o in (0.2, 0.5, 1)
    ]
    assert fading == sorted(fading)


@pytest.mark.parametrize(("sort", "field", "value"), [("color", "colour", "blue"), ("material", "material", "wood")])
def test_edit_success_looks_where_the_object_was(sort, field, value):
    slots = {"type": sort, "object": "red circle", "value": value}
    twin = replace(OLD, id=3, x=0.75, y=0.2, colour="pink")
    before = BEFORE.with_object(twin)
    done = before.with_object(replace(OLD, **{field: value}))
    elsewhere = before.with_object(replace(twin, **{field: value}))
    assert yes("edit_success", before, done, **slots) > 0.7
    assert yes("edit_success", before, elsewhere, **slots) < 0.3
    assert yes("edit_success", before, before, **slots) < 0.3
    assert yes("edit_success", before, before.without([1]), **slots) < 0.3


def test_core_name_leaves_colours_and_materials_out():
    query = Judge((Message(("?",)),), FreeText(), "edival/core_name", (("object", "wood red circle"),))
    assert JUDGE([query]) == [Reply("circle")]


@pytest.mark.parametrize(
    ("topic", "slots", "reason"),
    [
        ("edival/mood", {}, "it knows edival/color"),
        ("", {}, "a question without a topic"),
        ("edival/color", {"object": "dog", "value": "red"}, "'dog' in 'dog' means nothing"),
        ("edival/color", {"object": "red circle", "value": "plaid"}, "it knows red, orange"),
        ("edival/added", {"new": "red circle"}, "by 1 pictures: expected 2"),
    ],
)
def test_abstains_on_what_it_does_not_know(topic, slots, reason):
    answer = ask(topic, BEFORE, **slots)
    assert isinstance(answer, Abstention)
    assert reason in answer.reason
