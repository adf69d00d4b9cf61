"""Pictures that a server has are named by their ids; one that it has dropped is sent again, and no answer is lost."""

from collections import OrderedDict
from typing import Any

import pytest

from editcritic.reward.experts.judging import http_endpoint as endpoints
from editcritic.reward.experts.judging.http_endpoint import RetriesExhausted
from editcritic.reward.experts.openai_judge import OpenAIJudge
from editcritic.reward.queries import Grade, Judge, Message, Tool
from editcritic.reward.queries.response_formats import FreeText, ToolCall
from editcritic.reward.retry import RetryPolicy
from tests.reward.experts.http_server import Answer, completion, error, serving
from tests.reward.fakes import picture


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(endpoints, "BACKOFF", RetryPolicy(first_pause_s=0.01))


class Keeping:
    """A rule that keeps the last pictures by their ids, as vLLM documents it. status: of its answer to an id alone."""

    def __init__(self, keeps: int = 1000, status: int = 400) -> None:
        self.keeps = keeps
        self.status = status
        self.kept: OrderedDict[str, str] = OrderedDict()
        self.shown: list[list[str]] = []

    def __call__(self, request: Any, number: int) -> Answer:
        urls: list[str] = []
        for part in _pictures(request.body):
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


def _pictures(body: Any) -> list[dict[str, Any]]:
    contents = [message["content"] for message in body["messages"] if isinstance(message["content"], list)]
    return [part for content in contents for part in content if part["type"] == "image_url"]


def about(source: int, number: int) -> Judge:
    return Judge((Message((picture(source, 64, 64), picture(100 + number, 64, 64), f"question {number}")),), Grade())


def texts(replies: Any) -> list[str]:
    return [reply.text for reply in replies]


def judge(server: Any, **options: Any) -> OpenAIJudge:
    return OpenAIJudge("m", server.url, media_ids=True, **{"timeout_s": 5.0, "retries": 1, "concurrency": 1, **options})


def shown_to(rule: Any, queries: list[Judge], **options: Any) -> tuple[list[list[str]], dict[str, float]]:
    with serving(rule) as server:
        expert = judge(server, **options)
        assert texts(expert(queries)) == ["7"] * len(queries)
        counts = dict(expert.usage())
        assert counts["requests"] == len(server.requests)
        assert counts["bytes_sent"] == sum(int(one.headers["content-length"]) for one in server.requests)
        with_data = [part for one in server.requests for part in _pictures(one.body) if part["image_url"] is not None]
        assert counts["images_sent"] == len(with_data)
    return rule.shown, counts


QUERIES = [about(source, number) for source in range(3) for number in range(4)]


def test_a_picture_is_sent_once_and_the_server_sees_the_same():
    plain = Keeping()
    expected, everything = shown_to(plain, QUERIES[:1])
    shown, counts = shown_to(Keeping(), QUERIES)
    assert shown[0] == expected[0]
    with serving(lambda request, _: Answer(completion("7"))) as server:
        OpenAIJudge("m", server.url, concurrency=1)(QUERIES)
        assert shown == [[part["image_url"]["url"] for part in _pictures(one.body)] for one in server.requests]
        assert not any("uuid" in part for one in server.requests for part in _pictures(one.body))
        plain_bytes = sum(int(one.headers["content-length"]) for one in server.requests)
    assert (counts["images_sent"], counts["images_by_id"], counts["image_id_misses"]) == (3 + 4, 24 - 7, 0)
    assert counts["bytes_sent"] < plain_bytes / 2
    assert everything["images_by_id"] == 0


@pytest.mark.parametrize(("status", "retries"), [(400, 0), (500, 1)])
def test_what_the_server_has_dropped_is_sent_again(status, retries):
    shown, counts = shown_to(Keeping(keeps=2, status=status), QUERIES, retries=retries)
    assert [urls[1] for urls in shown[:4]] == [urls[1] for urls in shown[4:8]] == [urls[1] for urls in shown[8:]]
    assert counts["image_id_misses"] > 0
    assert counts["images_sent"] + counts["images_by_id"] == 24 + 2 * (counts["requests"] - 12)


def test_a_server_that_forgets_all_is_sent_all_from_then_on():
    """Also where no attempt is left, so that one question fails: the next one is sent whole."""
    rule = Keeping(status=500)
    with serving(rule) as server:
        expert = judge(server, retries=0)
        expert(QUERIES[:1])
        rule.kept.clear()
        with pytest.raises(RetriesExhausted, match="Cache miss"):
            expert(QUERIES[:1])
        assert texts(expert(QUERIES[:1])) == ["7"]


def test_each_server_is_sent_its_own():
    with serving(Keeping()) as first, serving(Keeping()) as second:
        expert = OpenAIJudge("m", [first.url, second.url], media_ids=True, concurrency=4)
        queries = [about(source, number) for source in range(12) for number in range(2)]
        assert texts(expert(queries)) == ["7"] * 24
        for server in (first, second):
            with_data = {part["uuid"] for one in server.requests for part in _pictures(one.body) if part["image_url"]}
            assert with_data == {part["uuid"] for one in server.requests for part in _pictures(one.body)}
        assert expert.usage()["image_id_misses"] == 0


def test_jpeg_and_png_of_a_picture_are_two():
    rule = Keeping()
    with serving(rule) as server:
        for options in ({}, {"image_format": "jpeg"}, {"image_format": "jpeg", "jpeg_quality": 50}):
            judge(server, **options)(QUERIES[:1])
    assert len(rule.kept) == 6


def test_pictures_of_text_only_turns_have_their_ids_too():
    zoom = Tool("zoom", "enlarges", '{"type": "object", "properties": {}}')
    called = Message((), "assistant", tool_calls=(ToolCall("zoom", "{}", "1"),))
    turns = (Message(("look", picture(1))), called, Message(("done", picture(2)), "tool", tool_call_id="1"))
    shown, counts = shown_to(Keeping(), [Judge(turns, FreeText(tools=(zoom,)), draw=draw) for draw in range(2)])
    assert shown[0] == shown[1]
    assert (counts["images_sent"], counts["images_by_id"]) == (2, 2)


def test_they_do_not_change_the_id_of_the_judge():
    assert OpenAIJudge("m", "http://h/v1", media_ids=True).id == OpenAIJudge("m", "http://h/v1").id
