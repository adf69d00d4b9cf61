"""SceneJudge on the questions that `any-edit` makes of plans of everyday sentences: from pixels alone."""

import json
import random

import pytest

from editcritic.benchmarks.sceneedit.cases import seeded_rng
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig
from editcritic.benchmarks.sceneedit.vocabulary import SHAPES
from editcritic.reward import EditPlan, PlannedOperation
from editcritic.reward.metrics.any_edit.questions import with_questions
from editcritic.reward.queries import Abstention, Judge, Reply
from editcritic.reward.queries.response_formats import Json, Message, YesNo
from studies.open_language.open_cases import open_pair
from studies.open_language.twin_scenes import plain_scene


@pytest.fixture(scope="module")
def judge():
    return scene_experts()["judge"]


def case(look, number=0):
    honest, _ = open_pair(seeded_rng("train", 12, f"judge {look}", number), look, "x")
    return honest


def ask(judge, topic, images, form=None, **slots):
    query = Judge((Message((*images, "see the slots")),), form or YesNo(), f"any-edit/{topic}", tuple(slots.items()))
    (answer,) = judge([query])
    return answer


def yes(judge, topic, images, question):
    answer = ask(judge, topic, images, question=question)
    assert isinstance(answer, Reply), answer
    return answer.probabilities["yes"]


@pytest.mark.parametrize(
    ("kind", "type_", "words", "value"),
    [
        ("night", "weather", "Make it night", "night"),
        ("sepia", "filter", "Apply a sepia filter", "sepia"),
        ("pixel art", "style", "Turn the image into pixel art", "pixel art"),
        ("rain", "weather", "Add rain to the scene", "rain"),
        ("deblur", "restoration", "Remove the blur", ""),
        ("mirror", "other", "Flip the image horizontally", ""),
    ],
)
def test_it_answers_every_question_of_a_plan_as_expected(judge, kind, type_, words, value):
    sample = case(kind).sample
    plan = with_questions(EditPlan((PlannedOperation(type_, words, value=value),), scope="whole"))
    for question in plan.operations[0].questions:
        images = (sample.source, sample.edited) if question.view == "pair" else (sample.edited,)
        before = (sample.source,) * len(images)
        assert (yes(judge, question.view, before, question.text) >= 0.5) == (question.before == "yes"), question.text
        assert (yes(judge, question.view, images, question.text) >= 0.5) == (question.after == "yes"), question.text


def test_its_answer_depends_on_the_pixels_alone(judge):
    sample, other = case("night").sample, case("sepia").sample
    question = "Does the second picture show this change against the first one: Make it night?"
    answers = [yes(judge, "pair", (a.source, b.edited), question) for a, b in ((sample, sample), (other, other))]
    assert answers[0] > 0.5 > answers[1]
    assert yes(judge, "pair", (sample.source, sample.edited), question) == answers[0]
    assert yes(judge, "pair", (sample.edited, sample.source), question) < 0.5


def test_a_listed_difference_belongs_to_the_operation_about_what_changed(judge):
    sample = case("rain").sample
    operations = "1. Make it rain\n2. Turn the image into pixel art"
    answer = ask(
        judge,
        "differences",
        (sample.source, sample.edited),
        Json.from_schema({"type": "object"}),
        operations=operations,
    )
    assert [entry["operation"] for entry in json.loads(answer.text)["differences"]] == [1]
    answer = ask(
        judge, "differences", (sample.source,) * 2, Json.from_schema({"type": "object"}), operations=operations
    )
    assert json.loads(answer.text)["differences"] == []


def test_an_operation_on_an_object_has_a_difference_where_that_object_differs(judge):
    honest, _ = open_pair(seeded_rng("train", 12, "judge object", 3), "scene phrase", "x")
    sample = honest.sample
    target = honest.plan.operations[0].target or honest.plan.operations[0].new
    operations = f"1. {sample.instruction}"
    answer = ask(
        judge,
        "differences",
        (sample.source, sample.edited),
        Json.from_schema({"type": "object"}),
        operations=operations,
    )
    assert {"what": sample.instruction, "operation": 1} in json.loads(answer.text)["differences"], target


def test_it_says_what_a_picture_shows(judge):
    scene = plain_scene(random.Random(3), SceneConfig.for_size(96))
    picture = (render(scene),)
    for obj in scene.objects:
        assert yes(judge, "edited", picture, f"Does the picture show this: {obj.colour} {obj.shape}?") > 0.5
    missing = next(shape for shape in SHAPES if all(obj.shape != shape for obj in scene.objects))
    assert yes(judge, "edited", picture, f"Does the picture show this: {missing}?") < 0.5


@pytest.mark.parametrize(
    ("topic", "question"),
    [
        ("edited", "Does the whole picture have this look: a cubist painting?"),
        ("pair", "Does the second picture show this change against the first one: make the dog older?"),
        ("crop", "Is this true of the dog: wet?"),
    ],
)
def test_words_that_it_does_not_know_get_no_answer(judge, topic, question):
    sample = case("night").sample
    images = (sample.source, sample.edited) if topic == "pair" else (sample.edited,)
    assert isinstance(ask(judge, topic, images, question=question), Abstention)
