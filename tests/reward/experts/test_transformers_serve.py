"""Against a real server: `transformers serve` on a tiny LLaVA, with text and decision requests."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import pipeline
from transformers.decision import DecisionConfig

from editcritic.reward.experts.decision import DecisionRequest, SystemOneJudge, make_request, parse_answers
from editcritic.reward.experts.openai_judge import OpenAIJudge
from editcritic.reward.queries import Failure, FreeText, Grade, Json, Judge, Levels, Message, Reply, YesNo
from tests.reward.experts.tiny_vlms import tiny_llava
from tests.reward.experts.transformers_server import serving_models
from tests.reward.fakes import picture

FORMS = [YesNo(), Levels(("terrible", "poor", "fair", "good", "excellent"), (0.0, 0.25, 0.5, 0.75, 1.0)), Grade(0, 10)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path: Path = tmp_path_factory.mktemp("tiny-llava")
    tiny_llava(path, spread=6.0)
    # Its vocabulary has no token for "Yes": a decision config names others, as it does for models of that kind.
    DecisionConfig(labels={"noul": ["Y", "N"]}).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def url(folder, tmp_path_factory) -> Iterator[str]:
    with serving_models(tmp_path_factory.mktemp("server") / "told", folder) as address:
        yield address


def question(form: Any, seed: int = 1) -> Judge:
    return Judge(
        (Message(("before ", picture(seed, 28, 28), " after ", picture(seed + 10, 40, 28), "Is it good?")),), form
    )


@pytest.fixture(scope="module")
def judge(folder, url) -> OpenAIJudge:
    return OpenAIJudge(str(folder), url, timeout_s=30, retries=0, concurrency=2)


@pytest.fixture(scope="module")
def decider(folder, url) -> SystemOneJudge:
    return SystemOneJudge(str(folder), url, timeout_s=30, retries=0, concurrency=2)


def test_free_text_comes_back_and_depends_on_the_pictures(judge):
    replies = judge([question(FreeText(12), colour) for colour in range(5)])
    assert all(isinstance(reply, Reply) and reply.text and not reply.probabilities for reply in replies)
    assert len({reply.text for reply in replies}) > 1
    assert judge([question(FreeText(12), 0)])[0].text == replies[0].text


@pytest.mark.parametrize("form", [YesNo(), Json.from_schema({"type": "object"}, max_tokens=12)])
def test_gibberish_is_no_judgement(judge, form):
    (failure,) = judge([question(form)])
    assert isinstance(failure, Failure)
    assert failure.raw


def test_it_counts_what_the_server_says(judge):
    before = judge.usage()
    judge([question(FreeText(5))])
    after = judge.usage()
    assert after["requests"] - before["requests"] == 1
    assert after["images_sent"] - before["images_sent"] == 2
    assert after["prompt_tokens"] > before["prompt_tokens"]
    assert 1 <= after["completion_tokens"] - before["completion_tokens"] <= 5


def test_an_unknown_field_is_rejected_by_name(folder, url):
    expert = OpenAIJudge(str(folder), url, retries=0, extra={"no_such_field": 1})
    (failure,) = expert([question(FreeText(5))])
    assert isinstance(failure, Failure)
    assert "no_such_field" in failure.reason


@pytest.fixture(scope="module")
def local(folder) -> Any:
    torch.set_num_threads(1)
    return pipeline("decision", model=str(folder), device="cpu", dtype=torch.float32)


def locally(local: Any, query: Judge) -> Any:
    request = make_request(query)
    assert isinstance(request, DecisionRequest)
    assets = {name: image.pil() for name, image in request.images.items()}
    return parse_answers(query, local({"state": request.state, "questions": request.questions, "assets": assets}))


def distance(one: Any, other: Any) -> float:
    assert one.probabilities.keys() == other.probabilities.keys()
    return max(abs(one.probabilities[option] - p) for option, p in other.probabilities.items())


@pytest.mark.parametrize("form", FORMS, ids=lambda form: type(form).__name__)
def test_decisions_are_those_of_the_local_pipeline(decider, local, form):
    queries = [question(form, colour) for colour in range(5)]
    served: list[Any] = list(decider(queries))
    assert max(distance(one, other) for one in served for other in served) > 0.1, "too alike to tell anything"
    for query, reply in zip(queries, served, strict=True):
        query.check(reply)
        assert tuple(reply.probabilities) == form.options
        assert sum(reply.probabilities.values()) == pytest.approx(1.0)
        assert distance(reply, locally(local, query)) < 1e-4
    mixed_up = [locally(local, swapped(query)) for query in queries]
    assert max(map(distance, served, mixed_up)) > 0.01  # the order of images matters


def swapped(query: Judge) -> Judge:
    (message,) = query.messages
    before, first, after, second, words = message.content
    return Judge((Message((before, second, after, first, words)),), query.form)


def test_more_options_than_labels_is_a_failure_that_says_so(decider):
    (failure,) = decider([question(Grade(0, 30))])
    assert isinstance(failure, Failure)
    assert "at most 26 options" in failure.reason
