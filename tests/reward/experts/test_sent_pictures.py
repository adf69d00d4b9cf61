"""Pictures are sent in a size that judges take: small ones enlarged, and what is too large once more, smaller."""

import base64
from typing import Any

import numpy as np
import pytest
import skimage.data

from editcritic.reward import AnswerLog, Card, EditSample, Image, Program, Reward, Score, ask
from editcritic.reward.experts.decision import QUESTION, SystemOneJudge
from editcritic.reward.experts.judging.sent_images import fitted
from editcritic.reward.experts.openai_judge import OpenAIJudge
from editcritic.reward.queries import ExpertDown, Failure, Grade, Json, Judge, Message, Reply, YesNo
from tests.reward.experts.http_server import Answer, ReceivedRequest, completion, error, serving

CAT, COFFEE = Image.of(skimage.data.chelsea()), Image.of(skimage.data.coffee())
CROP = COFFEE.crop(100, 100, 121, 107)
LIMIT = 400_000
"""Bytes of a request."""

NGINX = Answer(
    b"<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n<body>\r\n"
    b"<center><h1>413 Request Entity Too Large</h1></center>\r\n</body>\r\n</html>\r\n",
    413,
    {"Content-Type": "text/html"},
)
TOO_LARGE = {
    "nginx": NGINX,
    "FastAPI": Answer({"detail": "Payload too large"}, 413),
    "Express": Answer({"type": "entity.too.large", "message": "request entity too large"}, 413),
    "a proxy": error(400, "Request Entity Too Large"),
    "Gemini": error(400, "Request payload size exceeds the limit: 20971520 bytes."),
    "Anthropic": error(400, "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6 > 5 bytes"),
    "a schema that is not the reason": Answer({"detail": "application/json request body too large"}, 413),
}


@pytest.mark.parametrize(
    ("size", "max_pixels", "expected"),
    [
        ((28, 28), None, (28, 28)),
        ((4000, 3000), None, (4000, 3000)),
        ((9, 9), None, (28, 28)),
        ((1, 1), None, (28, 28)),
        ((21, 7), None, (84, 28)),
        ((200, 1), None, (5600, 28)),
        ((201, 1), None, (201, 1)),  # refused by judges for its aspect, in any size
        ((4000, 3000), 1_000_000, (1154, 866)),
        ((1000, 100), 10_000, (316, 31)),
        ((1000, 40), 4_000, (700, 28)),  # and not 316 x 12
        ((9, 9), 4_000, (28, 28)),
    ],
)
def test_the_shorter_side_has_28_pixels_or_more(size: Any, max_pixels: int | None, expected: Any) -> None:
    image = Image.of(np.zeros((size[1], size[0], 3), np.uint8))
    assert fitted(image, max_pixels).size == expected
    assert (fitted(image, max_pixels) is image) == (size == expected)


def question(*images: Image, form: Any = None, draw: int = 0) -> Judge:
    return Judge((Message((*images, "Is it good?")),), form or YesNo(), draw=draw)


def judge(server: Any, **options: Any) -> OpenAIJudge:
    return OpenAIJudge("m", server.url, **{"timeout_s": 10.0, "retries": 1, **options})


def shown(request: ReceivedRequest) -> list[Image]:
    parts = [part for message in request.body["messages"] for part in message["content"] if "image_url" in part]
    return [Image.of(base64.b64decode(part["image_url"]["url"].partition(",")[2])) for part in parts]


def like_qwen(request: ReceivedRequest, number: int) -> Answer:
    """As vLLM answers where the processor of Qwen-VL raises."""
    if min(min(image.size) for image in shown(request)) < 28:
        return error(400, "height:7 or width:21 must be larger than factor:28", "BadRequestError")
    return Answer(completion("Yes"))


def test_a_served_judge_sees_a_small_crop_enlarged_and_others_as_they_are() -> None:
    with serving(like_qwen) as server:
        assert judge(server)([question(CAT, CROP)]) == [Reply("Yes")]
        assert shown(server.requests[0]) == [CAT, CROP.resized(84, 28)]


def test_a_system_one_judge_does_too() -> None:
    answer = Answer({"answers": {QUESTION: {"type": "noul", "noul": 0.75}}})
    with serving(lambda *_: answer) as server:
        SystemOneJudge("m", server.url)([question(CROP)])
        (asset,) = server.requests[0].body["assets"].values()
    assert Image.of(base64.b64decode(asset["data_base64"])) == CROP.resized(84, 28)


def test_a_larger_picture_is_sent_with_as_many_pixels_as_said() -> None:
    with serving(lambda *_: Answer(completion())) as server:
        free, bounded = judge(server), judge(server, max_pixels=40_000)
        bounded([question(COFFEE)])
        assert [image.size for image in shown(server.requests[0])] == [(244, 163)]
        assert "max_pixels" not in free.id
        assert "max_pixels=40000" in bounded.id
        with pytest.raises(ValueError, match="max_pixels is a number of pixels, 1 or more, got 0"):
            judge(server, max_pixels=0)


def takes(limit: int, otherwise: Answer, text: str = "Yes") -> Any:
    """A server behind a limit of bytes."""
    return lambda request, _: otherwise if int(request.headers["content-length"]) > limit else Answer(completion(text))


@pytest.mark.parametrize("name", TOO_LARGE)
@pytest.mark.parametrize("form", [YesNo(), Json('{"type": "object"}')], ids=["yes or no", "JSON"])
def test_a_request_that_is_too_large_is_sent_once_more_with_smaller_pictures(name: str, form: Any) -> None:
    text = "Yes" if isinstance(form, YesNo) else "{}"
    with serving(takes(LIMIT, TOO_LARGE[name], text)) as server:
        (reply,) = judge(server)([question(CAT, COFFEE, form=form)])
        before, after = server.requests
    status = TOO_LARGE[name].status
    how = "as JPEG of quality 85 of at most 589,824 pixels"
    assert reply == Reply(text, note=f"too large a request (HTTP {status}), asked again with its pictures {how}")
    assert shown(before) == [CAT, COFFEE]
    assert [image.size for image in shown(after)] == [CAT.size, COFFEE.size]
    assert int(after.headers["content-length"]) < LIMIT < int(before.headers["content-length"])
    assert {key: value for key, value in after.body.items() if key != "messages"} == {
        key: value for key, value in before.body.items() if key != "messages"
    }


def test_only_once_and_the_failure_says_what_was_tried() -> None:
    with serving(lambda *_: NGINX) as server:
        (failure,) = judge(server)([question(CAT)])
        assert len(server.requests) == 2
        (words,) = judge(server)([question()])  # without pictures there is nothing to shrink
        assert len(server.requests) == 3
    assert isinstance(failure, Failure)
    assert isinstance(words, Failure)
    assert "HTTP 413" in failure.reason
    assert "asked again with its pictures as JPEG" in failure.reason
    assert "asked again" not in words.reason


def test_it_counts_towards_the_budget() -> None:
    with serving(lambda *_: NGINX) as server:
        with pytest.raises(ExpertDown, match="request budget of 1 requests is spent"):
            judge(server, max_requests=1)([question(CAT)])
        assert len(server.requests) == 1


def test_smaller_pictures_have_ids_of_their_own() -> None:
    with serving(takes(LIMIT, NGINX)) as server:
        expert = judge(server, media_ids=True, concurrency=1)
        for draw in range(2):
            (reply,) = expert([question(CAT, COFFEE, draw=draw)])
            assert isinstance(reply, Reply)
        sent = [request.body["messages"][0]["content"][:2] for request in server.requests]
    large, small, large_again, by_id = [[part["uuid"] for part in parts] for parts in sent]
    assert large == large_again
    assert small == by_id
    assert not set(large) & set(small)
    assert [part["image_url"] for part in sent[3]] == [None, None]


def test_several_servers_share_what_is_asked_again() -> None:
    with serving(takes(LIMIT, NGINX)) as one, serving(takes(LIMIT, NGINX)) as other:
        expert = OpenAIJudge("m", [one.url, other.url], timeout_s=10.0)
        replies = expert([question(image, COFFEE) for image in (CAT, CAT.turned(1), CAT.turned(2), CAT.turned(3))])
        assert [reply.text for reply in replies if isinstance(reply, Reply)] == ["Yes"] * 4
        assert len(one.requests) + len(other.requests) == 8


class Looking:
    """Asks about both pictures."""

    card = Card("looking", 1, "asks a judge", roles=("judge",))

    def __call__(self, sample: EditSample) -> Program[Score]:
        query = question(*sample.sources, sample.edited, form=Grade())
        reply = yield from ask(query)
        return Score.of(int(reply.text) / 10)


def test_the_note_is_in_the_evidence_also_of_an_answer_from_the_log(tmp_path: Any) -> None:
    sample = EditSample("s", instruction="make it a cup", sources=(CAT,), edited=COFFEE)
    scores = []
    with serving(takes(LIMIT, NGINX, "7")) as server:
        for _ in range(2):
            with AnswerLog(tmp_path / "log") as log:
                reward = Reward(Looking(), {"judge": judge(server)}, log=log)
                scores.append(reward([sample])[0])
                reward.engine.close()
        assert len(server.requests) == 2
    assert scores[0] == scores[1] == Score.from_json(scores[0].to_json())
    assert scores[0].value == 0.7
    (evidence,) = scores[0].evidence
    assert evidence.what == "a judge's reply"
    assert "(HTTP 413), asked again with its pictures as JPEG" in evidence.text
