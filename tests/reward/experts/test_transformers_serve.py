"""Against a real server: `transformers serve` on a tiny LLaVA, with text and decision requests."""

from typing import Any

import pytest
import torch
from transformers import pipeline
from transformers.decision import DecisionConfig

from editcritic.reward.experts.decision import DecisionRequest, SystemOneJudge, make_request, parse_answers
from editcritic.reward.experts.openai_judge import OpenAIJudge
from editcritic.reward.queries import Failure, FreeText, Grade, Json, Judge, Levels, Message, Reply, YesNo
from tests.reward.experts.asking import assert_failed
from tests.reward.experts.tiny_vlms import tiny_llava
from tests.reward.experts.transformers_server import serving_models
from tests.reward.fakes import picture

FORMS = [YesNo(), Levels(("terrible", "poor", "fair", "good", "excellent"), (0.0, 0.25, 0.5, 0.75, 1.0)), Grade(0, 10)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("tiny-llava")
    tiny_llava(path, spread=6.0)
    # Its vocabulary has no token for "Yes": a decision config names others, as it does for models of that kind.
    DecisionConfig(labels={"noul": ["Y", "N"]}).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def url(folder, tmp_path_factory):
    with serving_models(tmp_path_factory.mktemp("server") / "told", folder) as address:
        yield address


def question(form: Any, seed: int = 1, swapped: bool = False) -> Judge:
    pictures = [picture(seed, 28, 28), picture(seed + 10, 40, 28)]
    before, after = reversed(pictures) if swapped else pictures
    return Judge((Message(("before ", before, " after ", after, "Is it good?")),), form)


def test_text_comes_back_with_its_counts_and_gibberish_is_no_judgement(folder, url):
    judge: Any = OpenAIJudge(str(folder), url, timeout_s=30, retries=0, concurrency=2)
    replies = judge([question(FreeText(12), colour) for colour in range(5)])
    assert all(isinstance(reply, Reply) and reply.text and not reply.probabilities for reply in replies)
    assert len({reply.text for reply in replies}) > 1
    before = judge.usage()
    assert judge([question(FreeText(12), 0)])[0].text == replies[0].text
    counts = {name: count - before[name] for name, count in judge.usage().items()}
    assert (counts["requests"], counts["images_sent"]) == (1, 2)
    assert 1 <= counts["completion_tokens"] <= 12 < counts["prompt_tokens"]
    for failure in judge([question(YesNo()), question(Json.from_schema({"type": "object"}, max_tokens=12))]):
        assert isinstance(failure, Failure)
        assert failure.raw
    (failure,) = OpenAIJudge(str(folder), url, retries=0, extra={"no_such_field": 1})([question(FreeText(5))])
    assert_failed(failure, "no_such_field")


@pytest.fixture(scope="module")
def locally(folder):
    torch.set_num_threads(1)
    local: Any = pipeline("decision", model=str(folder), device="cpu", dtype=torch.float32)

    def answer(query: Judge) -> Any:
        request = make_request(query)
        assert isinstance(request, DecisionRequest)
        assets = {name: image.pil() for name, image in request.images.items()}
        return parse_answers(query, local({"state": request.state, "questions": request.questions, "assets": assets}))

    return answer


def distance(one: Any, other: Any) -> float:
    assert one.probabilities.keys() == other.probabilities.keys()
    return max(abs(one.probabilities[option] - p) for option, p in other.probabilities.items())


def test_decisions_are_those_of_the_local_pipeline(folder, url, locally):
    decider: Any = SystemOneJudge(str(folder), url, timeout_s=30, retries=0, concurrency=2)
    for form in FORMS:
        queries = [question(form, colour) for colour in range(5)]
        served = list(decider(queries))
        assert max(distance(one, other) for one in served for other in served) > 0.1, "too alike to tell anything"
        for query, reply in zip(queries, served, strict=True):
            query.check(reply)
            assert distance(reply, locally(query)) < 1e-4
        mixed_up = [locally(question(form, colour, swapped=True)) for colour in range(5)]
        assert max(map(distance, served, mixed_up)) > 0.01  # the order of images matters
    (failure,) = decider([question(Grade(0, 30))])
    assert_failed(failure, "at most 26 options")
