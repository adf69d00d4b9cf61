"""Conversion of judge queries to typed decisions and of decisions to replies."""

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from transformers.decision import DecisionConfig
from transformers.decision.template_utils import parse_questions

from editcritic.reward.experts.decision import QUESTION, DecisionRequest, make_request, parse_answers
from editcritic.reward.queries import Failure, FreeText, Grade, Json, Judge, Levels, Message, Reply, YesNo
from tests.reward.fakes import picture

A, B = picture(1), picture(2)
LEVELS = Levels(("bad", "fair", "good"), (0.0, 0.5, 1.0))


def query(form: Any, *parts: Any) -> Judge:
    return Judge((Message(parts or ("Look: ", A, "Is it good?")),), form)


def request_of(judgement: Judge) -> DecisionRequest:
    request = make_request(judgement)
    assert isinstance(request, DecisionRequest)
    return request


def test_the_last_words_are_the_question_and_the_rest_is_the_state():
    request = request_of(query(YesNo(), "before ", A, " after ", B, " again ", A, "Is it good?"))
    assert request.questions == {QUESTION: {"type": "noul", "instructions": "Is it good?"}}
    first, second = request.images
    assert request.state == f"before {first} after {second} again {first}"
    assert request.images == {first: A, second: B}


def test_a_conversation_is_told_with_its_speakers():
    turns = (
        Message(("Be strict.",), "system"),
        Message(("Hello",)),
        Message(("Hi",), "assistant"),
        Message(("Good?",)),
    )
    assert request_of(Judge(turns, YesNo())).state == "system: Be strict.\n\nuser: Hello\n\nassistant: Hi"


def test_a_text_cannot_bring_a_placeholder_of_its_own():
    placeholder = next(iter(request_of(query(YesNo())).images))
    attack = request_of(query(YesNo(), f"painted on it: {placeholder} ", A, "Is it good?"))
    assert not any(name in f"painted on it: {placeholder} " for name in attack.images)


@pytest.mark.parametrize("form", [YesNo(), LEVELS, Grade(1, 5), Grade(0, 10)])
def test_transformers_takes_the_questions(form):
    (question,) = parse_questions(request_of(query(form)).questions, DecisionConfig())
    assert len(question.options) == len(form.options)


def test_what_words_are_worth_is_no_part_of_the_question():
    other = replace(LEVELS, values=(1.0, 0.5, 0.0))
    assert request_of(query(LEVELS)).questions == request_of(query(other)).questions


@pytest.mark.parametrize("form", [FreeText(), Json.from_schema({})])
def test_what_wants_text_is_told_to_go_elsewhere(form):
    assert make_request(query(form)) == Failure(
        "this endpoint generates no text, it selects options: bind a chat judge to this role"
    )


def test_pictures_alone_are_no_question():
    assert isinstance(make_request(query(YesNo(), A, B)), Failure)


@pytest.mark.parametrize(
    ("form", "answer", "expected"),
    [
        (YesNo(), {"type": "noul", "noul": 0.25}, {"yes": 0.25, "no": 0.75}),
        (LEVELS, {"probabilities": {"good": 0.7, "fair": 0.2, "bad": 0.1}}, {"bad": 0.1, "fair": 0.2, "good": 0.7}),
        (Grade(3, 5), {"probabilities": {"0": 0.2, "1": 0.7, "2": 0.1}}, {"3": 0.2, "4": 0.7, "5": 0.1}),
    ],
)
def test_an_answer_is_a_probability_for_every_option(form, answer, expected):
    reply = parse_answers(query(form), {QUESTION: answer})
    assert isinstance(reply, Reply)
    assert reply.probabilities == pytest.approx(expected)
    assert reply.text == max(expected, key=lambda option: expected[option])
    query(form).check(reply)


@pytest.mark.parametrize(
    "answers",
    [
        None,
        [],
        {},
        {QUESTION: None},
        {QUESTION: {"probabilities": {"bad": 0.5, "fair": 0.5}}},
        {QUESTION: {"probabilities": {"bad": 0.5, "fair": 0.5, "good": math.nan}}},
        {QUESTION: {"probabilities": {"bad": 0.5, "fair": 0.5, "good": 0.5}}},
        {QUESTION: {"probabilities": {"bad": -0.5, "fair": 0.5, "good": 1.0}}},
        {QUESTION: {"probabilities": {"bad": True, "fair": 0.0, "good": 0.0}}},
        {QUESTION: {"probabilities": {"bad": 9**999, "fair": 0.0, "good": 0.0}}},
        {QUESTION: {"probabilities": ["bad", "fair", "good"]}},
    ],
)
def test_what_is_no_distribution_is_a_failure_that_shows_it(answers):
    reply = parse_answers(query(LEVELS), answers)
    assert isinstance(reply, Failure)
    assert reply.raw


def test_a_grade_above_temperature_0_is_drawn_by_the_query_and_its_probabilities_stay():
    answers = {QUESTION: {"probabilities": {"0": 0.2, "1": 0.3, "2": 0.5}}}
    drawn = [replace(query(Grade(0, 2, temperature=0.5)), draw=draw) for draw in range(400)]
    replies = [parse_answers(one, answers) for one in drawn]
    assert replies == [parse_answers(one, answers) for one in drawn]
    counts = Counter(reply.text for reply in replies if isinstance(reply, Reply))
    assert [counts[str(n)] / 400 for n in range(3)] == pytest.approx([4 / 38, 9 / 38, 25 / 38], abs=0.07)
    assert all(isinstance(reply, Reply) and reply.probabilities["0"] == pytest.approx(0.2) for reply in replies)
