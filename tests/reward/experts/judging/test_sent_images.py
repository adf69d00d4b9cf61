"""Pictures are sent in a size that judges take, once more smaller if that is too large, and to who has them by id."""

import base64
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import skimage.data

from editcritic.reward import AnswerLog, EditSample, Image, Score
from editcritic.reward.experts.decision import QUESTION, SystemOneJudge
from editcritic.reward.experts.judging.http_endpoint import RetriesExhausted
from editcritic.reward.experts.judging.sent_images import fitted
from editcritic.reward.experts.openai_judge import OpenAIJudge
from editcritic.reward.queries import ExpertDown, Failure, FreeText, Grade, Json, Judge, Message, Reply, Tool, YesNo
from editcritic.reward.queries.response_formats import ToolCall

from ...fakes import picture
from ..http_server import Answer, ReceivedRequest, completion, error, serving
from ..served_judges import image_parts, judge, scored, shown, texts

CAT, COFFEE = Image.of(skimage.data.chelsea()), Image.of(skimage.data.coffee())
CROP = COFFEE.crop(100, 100, 121, 107)
LIMIT = 400_000
"""Bytes of a request."""

NGINX = Answer(b"<html><h1>413 Request Entity Too Large</h1></html>\r\n", 413, {"Content-Type": "text/html"})
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


def test_judges_see_a_small_crop_enlarged_and_others_as_they_are_or_as_large_as_said() -> None:
    def like_qwen(request: ReceivedRequest, number: int) -> Answer:
        """As vLLM answers where the processor of Qwen-VL raises."""
        if min(min(image.size) for image in shown(request.body)) < 28:
            return error(400, "height:7 or width:21 must be larger than factor:28", "BadRequestError")
        return Answer(completion("Yes"))

    with serving(like_qwen) as server:
        assert judge(server)([question(CAT, CROP)]) == [Reply("Yes")]
        judge(server, max_pixels=40_000)([question(COFFEE)])
        assert shown(server.requests[0].body) == [CAT, CROP.resized(84, 28)]
        assert [image.size for image in shown(server.requests[1].body)] == [(244, 163)]
    with serving(lambda *_: Answer({"answers": {QUESTION: {"type": "noul", "noul": 0.75}}})) as server:
        SystemOneJudge("m", server.url)([question(CROP)])
        (asset,) = server.requests[0].body["assets"].values()
    assert Image.of(base64.b64decode(asset["data_base64"])) == CROP.resized(84, 28)


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
    how = "as JPEG of quality 85 of at most 589,824 pixels"
    tried = f"too large a request (HTTP {TOO_LARGE[name].status}), asked again with its pictures {how}"
    assert reply == Reply(text, note=tried)
    assert shown(before.body) == [CAT, COFFEE]
    assert [image.size for image in shown(after.body)] == [CAT.size, COFFEE.size]
    assert int(after.headers["content-length"]) < LIMIT < int(before.headers["content-length"])
    assert {**before.body, "messages": []} == {**after.body, "messages": []}


def test_only_once_and_the_failure_says_what_was_tried_and_it_counts_towards_the_budget() -> None:
    with serving(lambda *_: NGINX) as server:
        (failure,) = judge(server)([question(CAT)])
        assert len(server.requests) == 2
        (words,) = judge(server)([question()])  # without pictures there is nothing to shrink
        assert len(server.requests) == 3
        with pytest.raises(ExpertDown, match="request budget of 1 requests is spent"):
            judge(server, max_requests=1)([question(CAT)])
        assert len(server.requests) == 4
    assert isinstance(failure, Failure)
    assert isinstance(words, Failure)
    assert "HTTP 413" in failure.reason
    assert "asked again with its pictures as JPEG" in failure.reason
    assert "asked again" not in words.reason


def test_several_servers_share_what_is_asked_again() -> None:
    with serving(takes(LIMIT, NGINX)) as one, serving(takes(LIMIT, NGINX)) as other:
        expert = OpenAIJudge("m", [one.url, other.url], timeout_s=10.0)
        replies = expert([question(image, COFFEE) for image in (CAT, CAT.turned(1), CAT.turned(2), CAT.turned(3))])
        assert texts(replies) == ["Yes"] * 4
        assert len(one.requests) + len(other.requests) == 8


def test_the_note_is_in_the_evidence_also_of_an_answer_from_the_log(tmp_path: Any) -> None:
    sample = EditSample("s", instruction="make it a cup", sources=(CAT,), edited=COFFEE)
    scores = []
    with serving(takes(LIMIT, NGINX, "7")) as server:
        for _ in range(2):
            with AnswerLog(tmp_path / "log") as log:
                scores += scored(judge(server), [sample], log=log)[0]
        assert len(server.requests) == 2
    assert scores[0] == scores[1] == Score.from_json(scores[0].to_json())
    assert scores[0].value == 0.7
    (evidence,) = scores[0].evidence
    assert evidence.what == "a judge's reply"
    assert "(HTTP 413), asked again with its pictures as JPEG" in evidence.text


class Keeping:
    """A rule that keeps the last pictures by their ids, as vLLM documents it. status: of its answer to an id alone."""

    def __init__(self, keeps: int = 1000, status: int = 400) -> None:
        self.keeps = keeps
        self.status = status
        self.kept: OrderedDict[str, str] = OrderedDict()
        self.shown: list[list[str]] = []

    def __call__(self, request: Any, number: int) -> Answer:
        urls: list[str] = []
        for part in image_parts(request.body):
            name, data = part["uuid"], part["image_url"]
            if data is not None:
                self.kept[name] = data["url"]
            elif name not in self.kept:
                return error(self.status, f"Cache miss for image at index {len(urls)} but data is not provided.")
            self.kept.move_to_end(name)
            urls.append(self.kept[name])
        self.shown.append(urls)
        while len(self.kept) > self.keeps:
            self.kept.popitem(last=False)
        return Answer(completion("7"))


def by_ids(server: Any, **options: Any) -> OpenAIJudge:
    return judge(server, **{"media_ids": True, "retries": 1, "concurrency": 1, **options})


def shown_to(rule: Any, queries: list[Judge], **options: Any) -> tuple[list[list[str]], dict[str, float]]:
    with serving(rule) as server:
        expert = by_ids(server, **options)
        assert texts(expert(queries)) == ["7"] * len(queries)
        counts = dict(expert.usage())
        assert counts["requests"] == len(server.requests)
        assert counts["bytes_sent"] == sum(int(one.headers["content-length"]) for one in server.requests)
        parts = [part for one in server.requests for part in image_parts(one.body)]
        assert counts["images_sent"] == sum(part["image_url"] is not None for part in parts)
    return rule.shown, counts


def about(source: int, number: int) -> Judge:
    return question(picture(source, 64, 64), picture(100 + number, 64, 64), form=Grade())


QUERIES = [about(source, number) for source in range(3) for number in range(4)]


def test_a_picture_is_sent_once_and_the_server_sees_the_same() -> None:
    seen, counts = shown_to(Keeping(), QUERIES)
    with serving(lambda *_: Answer(completion("7"))) as server:
        judge(server, concurrency=1)(QUERIES)
    plain = [image_parts(one.body) for one in server.requests]
    assert seen == [[part["image_url"]["url"] for part in parts] for parts in plain]
    assert not any("uuid" in part for parts in plain for part in parts)
    assert (counts["images_sent"], counts["images_by_id"], counts["image_id_misses"]) == (3 + 4, 24 - 7, 0)
    assert counts["bytes_sent"] < sum(int(one.headers["content-length"]) for one in server.requests) / 2


@pytest.mark.parametrize(("status", "retries"), [(400, 0), (500, 1)])
def test_what_the_server_has_dropped_is_sent_again(status: int, retries: int) -> None:
    seen, counts = shown_to(Keeping(keeps=2, status=status), QUERIES, retries=retries)
    assert [urls[1] for urls in seen[:4]] == [urls[1] for urls in seen[4:8]] == [urls[1] for urls in seen[8:]]
    assert counts["image_id_misses"] > 0
    assert counts["images_sent"] + counts["images_by_id"] == 24 + 2 * (counts["requests"] - 12)


def test_a_server_that_forgets_all_is_sent_all_from_then_on_and_each_server_its_own() -> None:
    """Also where no attempt is left, so that one question fails: the next one is sent whole."""
    rule = Keeping(status=500)
    with serving(rule) as server:
        expert = by_ids(server, retries=0)
        expert(QUERIES[:1])
        rule.kept.clear()
        with pytest.raises(RetriesExhausted, match="Cache miss"):
            expert(QUERIES[:1])
        assert texts(expert(QUERIES[:1])) == ["7"]
    with serving(Keeping()) as first, serving(Keeping()) as second:
        expert = OpenAIJudge("m", [first.url, second.url], media_ids=True, concurrency=4)
        assert texts(expert([about(source, number) for source in range(12) for number in range(2)])) == ["7"] * 24
        for server in (first, second):
            parts = [part for one in server.requests for part in image_parts(one.body)]
            assert {part["uuid"] for part in parts if part["image_url"]} == {part["uuid"] for part in parts}
        assert expert.usage()["image_id_misses"] == 0


def test_every_form_of_a_picture_has_its_own_id_also_where_a_request_is_too_large() -> None:
    rule = Keeping()
    with serving(rule) as server:
        for options in ({}, {"image_format": "jpeg"}, {"image_format": "jpeg", "jpeg_quality": 50}):
            by_ids(server, **options)(QUERIES[:1])
    assert len(rule.kept) == 6
    with serving(takes(LIMIT, NGINX)) as server:
        expert = by_ids(server)
        for draw in range(2):
            assert texts(expert([question(CAT, COFFEE, draw=draw)])) == ["Yes"]
        sent = [image_parts(request.body) for request in server.requests]
    large, small, large_again, by_id = [[part["uuid"] for part in parts] for parts in sent]
    assert large == large_again
    assert small == by_id
    assert not set(large) & set(small)
    assert [part["image_url"] for part in sent[3]] == [None, None]


def test_pictures_in_turns_of_text_and_in_answers_to_tools_are_sent_by_id() -> None:
    zoom = Tool("zoom", "enlarges", '{"type": "object", "properties": {}}')
    called = Message((), "assistant", tool_calls=(ToolCall("zoom", "{}", "1"),))
    turns = (Message(("look", picture(1))), called, Message(("done", picture(2)), "tool", tool_call_id="1"))
    seen, counts = shown_to(Keeping(), [Judge(turns, FreeText(tools=(zoom,)), draw=draw) for draw in range(2)])
    assert seen[0] == seen[1]
    assert (counts["images_sent"], counts["images_by_id"]) == (2, 2)
