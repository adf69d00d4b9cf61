"""SceneJudge on the questions of `any-edit`."""

import json

import pytest

from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.reward import EditSample, Image
from editcritic.reward.queries import Abstention, Judge, Reply
from editcritic.reward.queries.prompts import Prompts
from editcritic.reward.queries.response_formats import Json, Message, YesNo

PROMPTS = Prompts("editcritic.reward.metrics.any_edit")


@pytest.fixture(scope="module")
def removal() -> EditSample:
    """An honest removal."""
    return next(
        case.sample
        for case in cases(90, seed=1, split="train")
        if case.task == "subject_remove" and not case.mode and not case.sample.history
    )


def ask(topic: str, images: tuple[Image, ...], form: YesNo | Json | None = None, **slots: str) -> Reply | Abstention:
    query = Judge((Message((*images, "see the slots")),), form or YesNo(), f"any-edit/{topic}", tuple(slots.items()))
    (answer,) = scene_experts()["judge"]([query])
    assert isinstance(answer, Reply | Abstention)
    return answer


def yes(topic: str, images: tuple[Image, ...], question: str) -> float:
    reply = ask(topic, images, question=question)
    assert isinstance(reply, Reply)
    return reply.probabilities["yes"]


def test_a_question_about_an_image_is_answered_from_that_image(removal) -> None:
    question = f"Is there one {removal.task.object}?"
    assert yes("edited", (removal.source,), question) > 0.9
    assert yes("edited", (removal.edited,), question) < 0.1


def test_a_question_about_a_pair_may_quote_an_instruction(removal) -> None:
    question = f'Was this done: "{removal.instruction}"?'
    assert yes("pair", (removal.source, removal.edited), question) > 0.9
    assert yes("pair", (removal.source, removal.source), question) < 0.1


def test_differences_have_the_number_of_their_operation(removal) -> None:
    operations = f"1. {removal.instruction}\n2. Change the background to snow"
    reply = ask("differences", (removal.source, removal.edited), operations=operations)
    assert isinstance(reply, Reply)
    assert {entry["operation"] for entry in json.loads(reply.text)["differences"]} == {1}
    reply = ask("differences", (removal.source, removal.source), operations=operations)
    assert isinstance(reply, Reply)
    assert json.loads(reply.text)["differences"] == []


@pytest.mark.parametrize("topic", ["identity", "edited"])
def test_what_it_cannot_tell_is_no_answer(topic, removal) -> None:
    assert isinstance(ask(topic, (removal.edited,), question="Is it the same person?"), Abstention)
