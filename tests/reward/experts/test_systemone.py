"""SystemOneJudge: requests in its format, probabilities as replies; anything else is a failure."""

import base64
from typing import Any

import pytest

from editcritic.reward import Image, build, spec_of
from editcritic.reward.experts.decision import QUESTION, SystemOneJudge
from editcritic.reward.experts.judging import http_endpoint as endpoints
from editcritic.reward.experts.judging.http_endpoint import RetriesExhausted
from editcritic.reward.queries import ExpertDown, Failure, FreeText, Json, Judge, Levels, Message, Reply, YesNo
from editcritic.reward.retry import RetryPolicy
from tests.reward.experts.http_server import Answer, Loopback, error, serving
from tests.reward.fakes import picture

LEVELS = Levels(("bad", "good"), (0.0, 1.0))


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(endpoints, "BACKOFF", RetryPolicy(first_pause_s=0.01))


def question(form: Any = None, *parts: Any) -> Judge:
    return Judge((Message(parts or (picture(1), "Is it good?")),), form or YesNo())


def expert(server: Loopback, **options: Any) -> SystemOneJudge:
    return SystemOneJudge("m", server.url, **{"timeout_s": 5.0, "retries": 2, **options})


def answered(answer: Any, tokens: int = 50) -> Answer:
    return Answer({"model": "m", "answers": {QUESTION: answer}, "usage": {"input_tokens": tokens, "output_tokens": 0}})


def test_a_question_goes_out_with_its_pictures_as_assets():
    before, after = picture(1, 40, 30), picture(2, 30, 40)
    with serving(lambda *_: answered({"type": "noul", "noul": 0.75})) as server:
        one = expert(server)
        assert one([question(None, "A ", before, " B ", after, "Is B better?")]) == [
            Reply("yes", {"yes": 0.75, "no": 0.25})
        ]
        (request,) = server.requests
        assert one.usage() == {
            "requests": 1,
            "retries": 0,
            "requests_without_usage": 0,
            "prompt_tokens": 50,
            "completion_tokens": 0,
            "images_sent": 2,
            "bytes_sent": int(request.headers["content-length"]),
        }
    assert request.path == "/v1/systemone"
    assert request.body.keys() == {"model", "state", "questions", "assets"}  # the server accepts no other fields
    assert request.body["questions"] == {QUESTION: {"type": "noul", "instructions": "Is B better?"}}
    first, second = request.body["assets"]
    assert request.body["state"] == f"A {first} B {second}"
    for name, original in ((first, before), (second, after)):
        asset = request.body["assets"][name]
        assert (asset["type"], asset["format"]) == ("image", "png")
        assert Image.of(base64.b64decode(asset["data_base64"])) == original


@pytest.mark.parametrize("form", [FreeText(), Json.from_schema({})])
def test_what_wants_text_is_not_sent(form):
    with serving(lambda *_: answered({})) as server:
        (failure,) = expert(server)([question(form)])
        assert isinstance(failure, Failure)
        assert "bind a chat judge" in failure.reason
        assert server.requests == []


def test_five_pictures_are_not_sent_and_four_shown_twice_are():
    pictures = [picture(n) for n in range(5)]
    with serving(lambda *_: answered({"noul": 0.5})) as server:
        one = expert(server)
        (failure,) = one([question(None, *pictures, "Is one good?")])
        assert isinstance(failure, Failure)
        assert "4 images" in failure.reason
        assert server.requests == []
        assert isinstance(one([question(None, *pictures[:4], *pictures[:4], "Is one good?")])[0], Reply)


@pytest.mark.parametrize(
    "answer",
    [
        answered({"type": "noul"}),
        answered({"noul": "yes"}),
        answered({"noul": 1.5}),
        answered({"noul": float("nan")}),
        answered(None),
        Answer({"answers": []}),
        Answer({"answers": {}}),
        Answer([]),
        Answer(b"{"),
        error(422, "at most 26 options"),
        error(400, "Images need a model whose processor handles them."),
    ],
)
def test_what_is_no_answer_fails_with_what_was_said_and_is_not_asked_again(answer):
    with serving(lambda *_: answer) as server:
        (failure,) = expert(server)([question()])
        assert isinstance(failure, Failure)
        assert failure.raw
        assert len(server.requests) == 1


def test_trouble_is_tried_again_and_a_wrong_address_is_not():
    with serving(lambda request, number: answered({"noul": 1.0}) if number else error(503, "loading")) as server:
        assert expert(server)([question()]) == [Reply("yes", {"yes": 1.0, "no": 0.0})]
        assert len(server.requests) == 2
    with serving(lambda *_: error(503, "loading")) as server:
        with pytest.raises(RetriesExhausted, match="HTTP 503"):
            expert(server)([question()])
        assert len(server.requests) == 3
    with serving(lambda *_: error(404, "Not Found")) as server:
        with pytest.raises(ExpertDown, match="check base_url"):
            expert(server)([question()])
        assert len(server.requests) == 1


def test_it_is_built_again_from_its_spec():
    one = SystemOneJudge("m", "http://127.0.0.1:9/v1", retries=1)
    again = build(spec_of(one), "editcritic.experts")
    assert (again.id, again.retries) == (one.id, 1)
    assert SystemOneJudge("n", "http://127.0.0.1:9/v1").id != one.id
    assert SystemOneJudge("m", "http://127.0.0.1:8/v1").id != one.id
