"""OpenAIJudge: what it asks for, and what of a reply is an answer. Errors of servers: judging/test_http_endpoint."""

import base64
import io
import json
import re
from math import log
from typing import Any

import pytest
from rich.console import Console

from editcritic.benchmarks.run.scoring_run import profile_table
from editcritic.reward import AnswerLog, EditSample, Image
from editcritic.reward.experts.judging.http_endpoint import RetriesExhausted
from editcritic.reward.experts.judging.sent_images import after_jpeg
from editcritic.reward.experts.openai_judge import OpenAIJudge
from editcritic.reward.queries import ExpertDown, Failure, FreeText, Grade, Json, Judge, Levels, Message, Reply, YesNo
from editcritic.reward.queries.response_formats import Tool, ToolCall

from ..fakes import picture, sample
from .asking import assert_failed, rebuilt
from .http_server import Answer, Rule, completion, error, serving, with_logprobs
from .served_judges import judge, question, scored, shown, texts, words_of

ABSENT = object()
SCHEMA = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}
ZOOM = Tool("zoom", "Look closer.", '{"type": "object"}')


def outcome(rule: Any, form: Any = None, requests: int = 1, **options: Any) -> Any:
    """A judge's outcome for one query, or its exception, after `requests` requests. rule: or a constant response."""
    always: Rule = rule if callable(rule) else lambda *_: rule if isinstance(rule, Answer) else Answer(rule)
    with serving(always) as server:
        expert = judge(server, **options)
        actual: Any
        try:
            (actual,) = expert([question(form)])
        except (ExpertDown, RetriesExhausted) as raised:
            actual = raised
        assert len(server.requests) == expert.usage()["requests"] == requests
        return actual


def body_of(query: Judge, **options: Any) -> dict[str, Any]:
    with serving(lambda *_: Answer(completion())) as server:
        judge(server, **options)([query])
        return dict(server.requests[0].body)


def test_jpeg_is_that_of_pil_whose_default_quality_is_75():
    image = picture(1, 37, 53)
    body = body_of(question(None, 0, image, " good?"), image_format="jpeg", jpeg_quality=75)
    data = base64.b64decode(body["messages"][0]["content"][0]["image_url"]["url"].split(",")[1])
    expected = io.BytesIO()
    image.pil().save(expected, "JPEG")
    assert data == expected.getvalue()
    assert after_jpeg(image, 75) == Image.of(data)
    assert after_jpeg(image, None) is image


@pytest.mark.parametrize("kind", ["png", "jpeg"])
def test_pictures_stand_where_the_words_put_them(kind):
    before, after = picture(1, 40, 30), picture(2, 30, 50)
    body = body_of(question(None, 0, "before ", before, " after ", after, " good?"), image_format=kind)
    (message,) = body["messages"]
    assert [part.get("text") for part in message["content"]] == ["before ", None, " after ", None, " good?"]
    assert message["content"][1]["image_url"]["url"].startswith(f"data:image/{kind};base64,")
    for seen, original in zip(shown(body), (before, after), strict=True):
        assert seen.size == original.size
        assert (seen == original) == (kind == "png")
    assert body_of(question(None, 0, "one ", "two"))["messages"] == [{"role": "user", "content": "one two"}]


JSON = {"name": "answer", "strict": True, "schema": SCHEMA}


@pytest.mark.parametrize(
    ("form", "options", "fields"),
    [
        (YesNo(), {}, {"temperature": 0, "top_logprobs": 20, "seed": ABSENT}),
        (YesNo(), {"logprobs": False}, {"logprobs": ABSENT}),
        (FreeText(50, 0.7), {"thinking_tokens": 100}, {"max_tokens": 150, "temperature": 0.7, "logprobs": ABSENT}),
        (YesNo(), {"max_tokens": 1024}, {"max_tokens": 1024}),
        (FreeText(50), {"max_tokens": 1024, "thinking_tokens": 100}, {"max_tokens": 1124}),
        (Json.from_schema(SCHEMA), {}, {"response_format": {"type": "json_schema", "json_schema": JSON}}),
        (Json.from_schema(SCHEMA), {"json_mode": "text"}, {"response_format": ABSENT}),
        (YesNo(), {"extra": {"temperature": None, "top_logprobs": 5}}, {"temperature": ABSENT, "top_logprobs": 5}),
        (YesNo(), {"extra": {"top_k": 1}}, {"top_k": 1}),
    ],
)
def test_forms_and_options_ask_for_what_they_need_and_draws_have_seeds_of_their_own(form, options, fields):
    body = body_of(question(form), **options)
    assert {name: body.get(name, ABSENT) for name in fields} == fields
    assert len({body_of(question(Grade(temperature=1.0), draw))["seed"] for draw in (0, 1, 0)}) == 2


def test_tools_are_offered_called_and_answered_with_pictures_after_all_answers():
    calls = (ToolCall("zoom", "{}", "c1"), ToolCall("zoom", '{"x": 1}', "c2"))
    turns = (
        Message(("Be strict.",), "system"),
        Message((picture(1), "good?")),
        Message((), "assistant", calls),
        Message(("near: ", picture(2)), "tool", tool_call_id="c1"),
        Message(("nothing",), "tool", tool_call_id="c2"),
    )
    body = body_of(Judge(turns, FreeText(tools=(ZOOM,))))
    zoom = {"name": "zoom", "description": "Look closer.", "parameters": {"type": "object"}}
    assert body["tools"] == [{"type": "function", "function": zoom}]
    messages = body["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "tool", "user"]
    function = {"name": "zoom", "arguments": '{"x": 1}'}
    assert messages[2]["tool_calls"][1] == {"id": "c2", "type": "function", "function": function}
    assert [(message["tool_call_id"], message["content"]) for message in messages[3:5]] == [
        ("c1", "near: [picture 1]"),
        ("c2", "nothing"),
    ]
    assert messages[5]["content"][0] == {"type": "text", "text": "[picture 1]"}
    assert messages[5]["content"][1]["type"] == "image_url"


def test_logprobs_are_probabilities_of_the_options_and_unknown_ones_are_left_out_or_fail_as_was_wanted():
    response = with_logprobs(completion("7"), {"7": log(0.6), "8": log(0.2), " 7": log(0.1)})
    reply = outcome(response, Grade())
    assert reply.text == "7"
    assert reply.probabilities["7"] == pytest.approx(0.7 / 0.9)
    assert reply.option_mass == pytest.approx(0.9)
    response = with_logprobs(completion("Good"), {"Good": log(0.5), "bad": log(0.5)})
    level = outcome(response, Levels(("bad", "good"), (0, 1)))
    assert level.probabilities == pytest.approx({"bad": 0.5, "good": 0.5})
    response = with_logprobs(completion("1"), {"1": log(0.6), "7": log(0.4)})
    assert outcome(response, Grade()) == Reply("1")
    assert outcome(completion("Yes.")) == Reply("Yes.")
    for content in ([{"token": "Yes", "logprob": -0.1, "top_logprobs": []}], None):
        assert outcome(said(content)) == Reply("Yes")
    for known in (response, completion("1")):
        assert isinstance(outcome(known, Grade(), 2, logprobs=True), Failure)


def test_tool_calls_are_a_reply_and_json_is_validated_whoever_promised_it():
    call = {"id": "c1", "type": "function", "function": {"name": "zoom", "arguments": "{not json"}}
    response = completion(None, "tool_calls", tool_calls=[call])
    expected = Reply("", tool_calls=(ToolCall("zoom", "{not json", "c1"),))
    assert outcome(response, FreeText(tools=(ZOOM,))) == expected
    assert isinstance(outcome(response, requests=2), Failure)
    assert outcome(completion('{"score": 3}'), Json.from_schema(SCHEMA)).text == '{"score": 3}'
    failure = outcome(completion('{"score": "high"}'), Json.from_schema(SCHEMA), 2)
    assert isinstance(failure, Failure)
    assert failure.raw == '{"score": "high"}'


@pytest.mark.parametrize(
    "content",
    [
        ["Ye", "s"],
        [{"type": "text", "text": None}, {"type": "text", "text": "Yes"}],
        [{"type": "thinking", "thinking": "no"}, {"type": "output_text", "text": "Yes"}],
        {"type": "text", "text": "Yes"},
    ],
)
def test_the_text_of_a_message_is_read_in_each_shape(content):
    assert outcome(completion(content)) == Reply("Yes")


def said(content: Any) -> Any:
    """A yes with this as the content of its logprobs."""
    response = completion("Yes")
    response["choices"][0]["logprobs"] = {"content": content}
    return response


HUGE = {"token": "Yes", "logprob": -(9**999)}
GONE = {"message": {"content": "Yes"}, "finish_reason": "stop", "error": {"code": 502, "message": "gone"}}
NOT_ANSWERS: dict[str, Any] = {
    "refusal": completion(None, refusal="I cannot help with that."),
    "content filter": completion("Yes", "content_filter"),
    "another content filter": completion("Yes", "sensitive"),
    "broken off": completion("Yes", "error"),
    "stopped by the server": completion("Yes", "abort"),
    "error of the choice": {"choices": [GONE]},
    "no choices": {"choices": []},
    "no content": completion(None),
    "empty content": completion(""),
    "only thoughts": completion("", "length", reasoning_content="hm"),
    "cut off in thought": completion("<think>let me see", "length"),
    "cut off in thought that mentions its end": completion("<think>I write </think> Yes", "model_length"),
    "cut off": completion("The picture shows", "length"),
    "unreadable": completion("It depends."),
    "error with status 200": {"error": {"message": "overloaded"}},
    "another schema": {"answer": "Yes"},
    "choices of another kind": {"choices": "Yes"},
    "a message that is text": {"choices": [{"message": "Yes"}]},
    "content of another kind": completion(7),
    "parts of another kind": completion([7]),
    "parts of no text": completion([{"type": "text", "text": ["Yes"]}]),
    "a list": ["Yes"],
    "truncated JSON": b'{"choices": [{"message": {"content": "Ye',
    "no JSON": b"<html>Bad gateway</html>",
    "bytes": b"\xff\xfe\x00Yes",
    "nothing": b"",
    "deep nesting": b"[" * 200_000,
    "NaN for a logprob": with_logprobs(completion("Yes"), {"Yes": float("nan"), "No": -1.0}),
    "infinity for a logprob": with_logprobs(completion("Yes"), {"Yes": float("inf"), "No": -1.0}),
    "minus infinity for a logprob": with_logprobs(completion("Yes"), {"Yes": -0.1, "No": float("-inf")}),
    "a positive logprob": with_logprobs(completion("Yes"), {"Yes": 3.0, "No": -1.0}),
    "text for a logprob": with_logprobs(completion("Yes"), {"Yes": "high", "No": -1.0}),  # type: ignore[dict-item]
    "a logprob of many digits": said([{"token": "Yes", "logprob": -(9**999), "top_logprobs": []}]),
    "an alternative of many digits": said([{"token": "Yes", "logprob": -1, "top_logprobs": [HUGE]}]),
    "an alternative that is a number": said([{"token": "Yes", "logprob": -1, "top_logprobs": [5]}]),
    "logprobs of text": said(["Yes"]),
    "logprobs by token": said({"Yes": -1}),
    "a number for logprobs": said(5),
}


@pytest.mark.parametrize("response", NOT_ANSWERS.values(), ids=NOT_ANSWERS)
def test_what_is_no_answer_is_asked_for_once_more_and_fails_with_what_was_said(response):
    is_object = isinstance(response, dict) and not re.search(r"\b(NaN|Infinity)\b", json.dumps(response))
    failure = outcome(Answer(response), requests=2 if is_object else 1)
    assert isinstance(failure, Failure)
    assert failure.infrastructure == (not is_object)
    assert failure.reason
    assert failure.raw or response == b""
    assert len(failure.raw) <= 2000


def test_an_answer_at_the_second_try_is_one_a_refusal_shows_its_words_and_half_a_character_is_a_question_mark():
    answers = [completion(None, refusal="no"), completion("Yes")]
    assert outcome(lambda _, number: Answer(answers[number]), requests=2) == Reply("Yes")
    assert outcome(answers[0], requests=2) == Failure("the judge refused: no", raw="no")
    assert outcome(completion("Yes \ud800 \U0001f600")) == Reply("Yes ? \U0001f600")


@pytest.mark.parametrize("form", [YesNo(), Grade(), Json('{"type": "array"}'), FreeText()], ids=repr)
def test_a_reply_that_is_too_long_is_none(form):
    failure = outcome(completion("[" + "1, " * 40_000 + "1]"), form, requests=2)
    assert_failed(failure, "the reply has 120,003 characters, and at most 100,000 are read")
    assert len(failure.raw) == 2000


@pytest.mark.parametrize("status", [400, 403])
def test_a_server_that_knows_no_logprobs_is_asked_without_from_then_on(status):
    def rule(request: Any, number: int) -> Answer:
        return error(status, "you may not ask for logprobs") if "logprobs" in request.body else Answer(completion())

    with serving(rule) as server:
        expert = judge(server, concurrency=1)
        assert expert([question(draw=draw) for draw in range(3)]) == [Reply("Yes")] * 3
        assert ["logprobs" in request.body for request in server.requests] == [True, False, False, False]
        with pytest.raises(ExpertDown, match="logprobs=False or 'auto'"):
            judge(server, logprobs=True)([question()])


def test_a_schema_that_the_server_rejects_is_left_to_the_words_and_the_others_are_not():
    def rule(request: Any, number: int) -> Answer:
        requested = request.body.get("response_format")
        if requested and requested["json_schema"]["schema"] == SCHEMA:
            return error(400, "Invalid schema for response_format 'answer'")
        return Answer(completion('{"score": 1}'))

    with serving(rule) as server:
        forms = [Json.from_schema(SCHEMA), Json.from_schema(SCHEMA), Json.from_schema({"type": "object"})]
        replies = judge(server, concurrency=1)([question(form) for form in forms])
        assert texts(replies) == ['{"score": 1}'] * 3
        assert ["response_format" in request.body for request in server.requests] == [True, False, False, True]


def test_the_id_changes_with_what_changes_answers_and_only_with_that():
    url = "http://127.0.0.1:9/v1"
    alike: list[dict[str, Any]] = [{"timeout_s": 1, "retries": 0, "max_requests": 3}, {"concurrency": 2}]
    alike += [{"media_ids": True}, {"base_url": url + "/"}]
    changed: list[dict[str, Any]] = [{"logprobs": True}, {"logprobs": False}, {"json_mode": "text"}, {"detail": "low"}]
    changed += [{"image_format": "jpeg"}, {"image_format": "jpeg", "jpeg_quality": 50}, {"max_tokens": 1024}]
    changed += [{"thinking_tokens": 10}, {"max_tokens_field": "max_tokens"}, {"extra": {"top_k": 1}}]
    changed += [{"max_pixels": 40_000}, {"model": "n"}, {"base_url": "http://127.0.0.1:9/v2"}, {"base_url": None}]
    own = OpenAIJudge("m", url).id
    assert {OpenAIJudge(**{"model": "m", "base_url": url, **options}).id for options in alike} == {own}
    ids = {OpenAIJudge(**{"model": "m", "base_url": url, **options}).id for options in changed}
    assert len(ids - {own}) == len(changed)
    expert = OpenAIJudge("m", url, retries=1, extra={"top_k": 1}, usd_per_million_in=2.5)
    again = rebuilt(expert)
    assert (again.id, again.retries, again.usd_per_million_in) == (expert.id, 1, 2.5)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"base_url": "http://user:secret@host/v1"}, "no password"),
        ({"base_url": "http://host/v1?key=secret"}, "no query"),
        ({"base_url": "host/v1"}, "URL such as"),
        ({"base_url": ""}, "URL such as"),  # is not OpenAI
        ({"base_url": []}, "a URL or a list"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"retries": -1}, "retries"),
        ({"max_requests": -1}, "max_requests"),
        ({"concurrency": 0}, "concurrency"),
        ({"logprobs": "yes"}, "logprobs"),
        ({"json_mode": "object"}, "json_mode"),
        ({"image_format": "webp"}, "png or jpeg"),
        ({"jpeg_quality": 0}, "quality"),
        ({"max_pixels": 0}, "max_pixels is a number of pixels, 1 or more, got 0"),
        ({"max_tokens": 0}, "max_tokens is 1 or more, got 0"),
        ({"extra": "{top_k:1}"}, "extra takes request fields as JSON.* single quotes"),
    ],
)
def test_refuses_options_that_mean_nothing(options, says):
    with pytest.raises(ValueError, match=says) as raised:
        OpenAIJudge("m", **options)
    assert "secret" not in str(raised.value)


def samples(count: int) -> list[EditSample]:
    return [sample(f"s{n}", instruction=f"make it {n}") for n in range(count)]


def test_thirty_two_edits_of_a_source_at_once_are_encoded_once_each_and_the_source_once():
    with serving(lambda *_: Answer(completion())) as server:
        expert = judge(server, concurrency=32)
        expert([question(None, draw, picture(1, 64, 64), picture(2 + n), "?") for n in range(32) for draw in range(2)])
        assert expert.image_cache.encoded == 33
        assert expert.usage()["images_sent"] == 128


def test_two_hundred_questions_sixteen_at_a_time_each_gets_its_own_answer():
    def echo(request: Any, number: int) -> Answer:
        return Answer(completion(f"about {words_of(request.body)}"), after_s=0.002 * (number % 7))

    with serving(echo) as server:
        queries = [question(FreeText(), 0, f"number {n}", picture(1)) for n in range(200)]
        assert texts(judge(server, concurrency=16)(queries)) == [f"about number {n}" for n in range(200)]
        assert len(server.requests) == 200
        assert 1 < server.peak_concurrency <= 16


def test_in_an_engine_failures_keep_their_words_and_stats_tell_tokens_and_cost_until_it_is_unknown():
    def rule(request: Any, number: int) -> Answer:
        tokens = {"prompt_tokens": 100, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 80}}
        asked = words_of(request.body)
        reply = completion(None, refusal="not that one") if asked == "make it 3" else completion("7")
        return Answer({**reply, "usage": None if asked == "make it 8" else tokens})

    with serving(rule) as server:
        expert = judge(server, usd_per_million_in=1.0, usd_per_million_cached_in=0.1, usd_per_million_out=10.0)
        first, second = scored(expert, samples(8), samples(9))
        sent = sum(int(request.headers["content-length"]) for request in server.requests)
    assert [score.value for score in first] == [0.7, 0.7, 0.7, None, 0.7, 0.7, 0.7, 0.7]
    assert first[3].reason.startswith("the judge refused: not that one (served@")
    assert [evidence.text for evidence in first[3].evidence] == ["not that one"]
    meter, later = first.stats["experts"][expert.id], second.stats["experts"][expert.id]
    expected = {"requests": 9, "prompt_tokens": 900, "cached_tokens": 720, "completion_tokens": 18, "images_sent": 18}
    assert {name: meter[name] for name in expected} == expected  # the refused one was asked twice
    assert meter["usd"] == pytest.approx((180 * 1.0 + 720 * 0.1 + 18 * 10.0) / 1e6)
    assert "usd" not in later
    assert later["requests_without_usage"] == 1
    assert meter["bytes_sent"] + later["bytes_sent"] == sent
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(profile_table(first.stats))
    table = console.export_text()
    assert "900 prompt tokens, 18 completion tokens, 18 images sent" in table
    assert "720 cached tokens, 0.000432 USD" in table


def test_a_spent_budget_stops_asking_and_a_later_run_pays_for_the_rest_only(tmp_path):
    with serving(lambda *_: Answer(completion("7"), after_s=0.01)) as server:
        runs = []
        for options in ({"max_requests": 10, "concurrency": 4}, {}):
            with AnswerLog(tmp_path / "log") as log:
                (scores,) = scored(judge(server, **options), samples(25), log=log, on_failures="none")
                runs.append((scores, len(server.requests)))
    (first, sent), (second, in_all) = runs
    assert (sent, in_all) == (10, 25)
    assert [score.status for score in first].count("scored") == 10
    reasons = {score.reason for score in first if score.status == "failed"}
    assert all("request budget of 10 requests is spent" in reason for reason in reasons)
    assert [score.value for score in second] == [0.7] * 25


def test_a_question_that_finds_no_server_does_not_stop_the_others_and_a_dead_server_is_soon_left_alone():
    def rule(request: Any, number: int) -> Answer:
        return Answer(completion("7"), cut=5 if words_of(request.body) == "make it 5" else None)

    with serving(rule) as server:
        (scores,) = scored(judge(server, retries=1), samples(60))
        assert [n for n, score in enumerate(scores) if score.status == "failed"] == [5]
        assert len(server.requests) == 61
    with serving(lambda *_: error(500, "dead")) as server:
        (scores,) = scored(judge(server, retries=1, concurrency=4), samples(100), on_failures="none")
        assert {score.status for score in scores} == {"failed"}
        assert "not asked, the expert is down" in scores[99].reason
        assert len(server.requests) <= 2 * (16 + 4)
