"""SceneJudge on edits that are drawn right and wrong."""

import json
import random
from dataclasses import replace

import pytest

from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.benchmarks.sceneedit.experts.judge import SceneJudge
from editcritic.benchmarks.sceneedit.experts.perception_experts import SceneDetector
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig, random_scene
from editcritic.benchmarks.sceneedit.scene_graph import Backdrop, Scene, SceneObject
from editcritic.benchmarks.sceneedit.vocabulary import BACKDROPS, COLOURS, MATERIALS
from editcritic.reward import EditSample, Image
from editcritic.reward.boxes import highest_scoring
from editcritic.reward.metrics.edival.inspector import crop_box
from editcritic.reward.queries import Abstention, Detect, Detections, FreeText, Judge, Message, Reply, YesNo

JUDGE = SceneJudge()
OLD = SceneObject(1, "circle", "red", 0.3, 0.4, 0.3, 0.3)
REST = SceneObject(2, "cross", "teal", 0.75, 0.7, 0.28, 0.28)
BEFORE = Scene((OLD, REST), Backdrop("sand"))
STAR = replace(OLD, id=3, shape="star", colour="blue")


def ask(topic: str, *pictures: Image | Scene, **slots: str) -> Reply | Abstention:
    shown = tuple(render(one) if isinstance(one, Scene) else one for one in pictures)
    query = Judge((Message((*shown, "?")),), YesNo(), topic, tuple(slots.items()))
    (answer,) = JUDGE([query])
    if not isinstance(answer, Abstention):
        query.check(answer)
    return answer  # type: ignore[return-value]


def yes(topic: str, *pictures: Image | Scene, **slots: str) -> float:
    reply = ask(topic, *pictures, **slots)
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
            for topic, options, own in (("color", COLOURS, obj.colour), ("material", MATERIALS, obj.material)):
                answers = {value: yes(f"edival/{topic}", crop, object=obj.name, value=value) for value in options}
                right += [(probability >= 0.5) == (value == own) for value, probability in answers.items()]
    assert sum(right) >= 0.99 * len(right)


def test_of_a_pair_the_second_counts():
    after = BEFORE.with_object(replace(OLD, colour="blue"))
    slots = {"object": "red circle", "value": "blue"}
    assert yes("edival/color_pair", BEFORE, after, **slots) > 0.9
    assert yes("edival/color_pair", after, BEFORE, **slots) < 0.1


def test_the_background_is_what_lies_behind():
    for kind in BACKDROPS:
        image = render(replace(BEFORE, backdrop=Backdrop(kind, 5)))
        probabilities = {value: yes("edival/background", image, value=value) for value in BACKDROPS}
        assert max(probabilities, key=lambda value: probabilities[value]) == kind
        assert probabilities[kind] > 0.5


@pytest.mark.parametrize(
    ("old", "after", "holds"),
    [
        ("red circle", Scene((REST, replace(STAR, x=0.35)), BEFORE.backdrop), True),
        ("red circle", Scene((REST, replace(STAR, colour="green")), BEFORE.backdrop), False),
        ("red circle", Scene((REST, replace(STAR, shape="heart")), BEFORE.backdrop), False),
        ("red circle", Scene((REST, replace(STAR, material="wood")), BEFORE.backdrop), False),
        ("red circle", Scene((REST, replace(STAR, x=0.75, y=0.25)), BEFORE.backdrop), False),
        ("red circle", BEFORE, False),
        ("red circle", BEFORE.with_object(replace(STAR, x=0.5, y=0.5, w=0.25, h=0.25)), False),
        ("green heart", Scene((REST, replace(STAR, w=0.25, h=0.25)), BEFORE.backdrop), False),
    ],
    ids=["done", "colour", "shape", "material", "elsewhere", "nothing", "old still there", "old not there before"],
)
def test_replaced_is_the_new_in_the_place_of_the_old(old, after, holds):
    assert (yes("edival/replaced", BEFORE, after, object=old, new="blue star") >= 0.5) == holds


def test_added_is_new_and_exactly_as_asked_for():
    star = SceneObject(3, "star", "blue", 0.75, 0.25, 0.28, 0.28)
    after = BEFORE.with_object(star)
    assert yes("edival/added", BEFORE, after, new="blue star") > 0.8
    assert yes("edival/added", BEFORE, after, new="pink star") < 0.2
    assert yes("edival/added", BEFORE, after, new="wood blue star") < 0.2
    assert yes("edival/added", after, after, new="blue star") < 0.2
    faded = [BEFORE.with_object(replace(star, opacity=opacity)) for opacity in (0.2, 0.5, 1)]
    fading = [yes("edival/added", BEFORE, one, new="blue star") for one in faded]
    assert fading == sorted(fading)


@pytest.mark.parametrize(("sort", "field", "value"), [("color", "colour", "blue"), ("material", "material", "wood")])
def test_edit_success_looks_where_the_object_was(sort, field, value):
    slots = {"type": sort, "object": "red circle", "value": value}
    twin = replace(OLD, id=3, x=0.75, y=0.2, colour="pink")
    before = BEFORE.with_object(twin)
    assert yes("edival/edit_success", before, before.with_object(replace(OLD, **{field: value})), **slots) > 0.7
    for after in (before.with_object(replace(twin, **{field: value})), before, before.without([1])):
        assert yes("edival/edit_success", before, after, **slots) < 0.3


def test_core_name_leaves_colours_and_materials_out():
    query = Judge((Message(("?",)),), FreeText(), "edival/core_name", (("object", "wood red circle"),))
    assert JUDGE([query]) == [Reply("circle")]


@pytest.mark.parametrize(
    ("topic", "slots", "reason"),
    [
        ("edival/mood", {}, "it knows edival/color"),
        ("", {}, "a question without a topic: it knows edival/…, complexedit/…"),
        ("edival/color", {"object": "dog", "value": "red"}, "'dog' in 'dog' means nothing"),
        ("edival/color", {"object": "red circle", "value": "plaid"}, "it knows red, orange"),
        ("edival/added", {"new": "red circle"}, "by 1 pictures: expected 2"),
        ("any-edit/identity", {"question": "Is it the same person?"}, "it knows any-edit/edited"),
        ("any-edit/edited", {"question": "Is it the same person?"}, "it knows its own questions"),
    ],
)
def test_abstains_on_what_it_does_not_know(topic, slots, reason):
    answer = ask(topic, BEFORE, **slots)
    assert isinstance(answer, Abstention)
    assert reason in answer.reason


# -- any-edit ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def removal() -> EditSample:
    """An honest removal."""
    edits = (case for case in cases(90, seed=1, split="train") if case.task == "subject_remove" and not case.mode)
    return next(case.sample for case in edits if not case.sample.history)


def test_a_question_about_an_image_is_answered_from_that_image(removal) -> None:
    question = f"Is there one {removal.task.object}?"
    assert yes("any-edit/edited", removal.source, question=question) > 0.9
    assert yes("any-edit/edited", removal.edited, question=question) < 0.1


def test_a_question_about_a_pair_may_quote_an_instruction(removal) -> None:
    question = f'Was this done: "{removal.instruction}"?'
    assert yes("any-edit/pair", removal.source, removal.edited, question=question) > 0.9
    assert yes("any-edit/pair", removal.source, removal.source, question=question) < 0.1


def test_differences_have_the_number_of_their_operation(removal) -> None:
    operations = f"1. {removal.instruction}\n2. Change the background to snow"
    for edited, numbers in ((removal.edited, {1}), (removal.source, set())):
        message = Message((removal.source, edited, "see the slots"))
        (reply,) = JUDGE([Judge((message,), FreeText(), "any-edit/differences", (("operations", operations),))])
        assert isinstance(reply, Reply)
        assert {entry["operation"] for entry in json.loads(reply.text)["differences"]} == numbers
